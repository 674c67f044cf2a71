"""Worker processes: each reconciles one Bundle at a time, within limits."""

"""The content of a repository: what is fetched and stored, and which of it may be read."""

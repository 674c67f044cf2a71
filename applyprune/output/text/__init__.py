"""Text for people: events, problems, diffs, tables."""

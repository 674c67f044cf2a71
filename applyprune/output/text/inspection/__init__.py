"""The text of verbs that only read."""

"""Commands that inspect a set."""

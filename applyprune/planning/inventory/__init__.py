"""Decisions about an inventory itself: check it, move entries, select entries."""

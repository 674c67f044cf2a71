"""The checks of a set before anything is written."""

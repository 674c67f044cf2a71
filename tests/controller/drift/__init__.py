"""The drift policy of a Bundle."""

"""The files of a fetched source as input."""

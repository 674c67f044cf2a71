"""One stream of every event, and its output in each format."""

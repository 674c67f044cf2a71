"""One decision, one row: a world, and what a run of it decides. No server, no process."""

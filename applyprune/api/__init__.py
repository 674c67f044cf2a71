"""The Python API, whose names `applyprune` itself exports; the command line is built on it."""

"""Many watches of one API server on one thread."""

"""The documentation cannot lie: its commands run, its tables and links are checked."""

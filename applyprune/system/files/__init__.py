"""Files: their names, their places, their locks, and how one replaces another."""

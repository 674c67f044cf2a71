"""Compare two states of an object: what changes, and what has drifted."""

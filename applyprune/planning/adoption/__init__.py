"""How existing objects come into a set."""

"""How the rows are measured, by what they are about: sets, and processes that work alone."""

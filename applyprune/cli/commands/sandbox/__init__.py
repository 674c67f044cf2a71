"""Commands for the local sandbox."""

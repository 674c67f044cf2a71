"""Commands for the Bundle controller."""

"""Frozen values that every other layer shares; standard library only, no I/O, no decisions."""

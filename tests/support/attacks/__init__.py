"""Attacks of a tenant who may do anything in its own namespace, on everything outside of it."""

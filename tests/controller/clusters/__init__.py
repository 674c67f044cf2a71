"""Bundles whose objects are in another cluster."""

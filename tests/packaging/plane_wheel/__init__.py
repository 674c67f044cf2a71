"""Builds the wheel ``applyprune-plane``: ``make plane-wheel``."""

"""The verbs of ``applyprune bundle``."""

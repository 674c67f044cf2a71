"""Demos that need more than an installed applyprune has: a Git server."""

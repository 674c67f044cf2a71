"""Manifests from Git repositories."""

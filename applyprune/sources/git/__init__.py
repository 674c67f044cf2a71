"""Manifests from Git repositories, read by the ``git`` program without a work tree."""

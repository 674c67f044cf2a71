"""Artifacts in OCI registries: pull and push over HTTPS, every digest checked."""

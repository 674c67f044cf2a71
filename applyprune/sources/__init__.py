"""Bytes → manifests: files and standard input, the YAML dialect of Kubernetes, lists, structure."""

from applyprune.sources.positions import locate
from applyprune.sources.reading import read

__all__ = ["locate", "read"]

"""Bytes → manifests: files, URLs and builds, the YAML dialect of Kubernetes, lists, structure."""

from applyprune.sources.kustomize import Overlay
from applyprune.sources.positions import locate
from applyprune.sources.reading import read

__all__ = ["Overlay", "locate", "read"]

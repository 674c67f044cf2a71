"""Bytes → manifests: files, URLs and builds, the YAML dialect of Kubernetes, lists, structure."""

from applyprune.sources.input import Input
from applyprune.sources.kustomize import Overlay
from applyprune.sources.positions import locate
from applyprune.sources.reading import read

__all__ = ["Input", "Overlay", "locate", "read"]

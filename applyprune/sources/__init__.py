"""Read manifests: files, URLs, kustomize builds, Kubernetes' YAML dialect, lists, validation."""

from applyprune.sources.input import Input
from applyprune.sources.kustomize import Overlay
from applyprune.sources.positions import locate
from applyprune.sources.reading import read

__all__ = ["Input", "Overlay", "locate", "read"]

"""Read manifests: files, URLs, kustomize builds, Kubernetes' YAML dialect, lists, validation."""

from applyprune.sources.excerpt import locate
from applyprune.sources.kustomize import Overlay
from applyprune.sources.load import Input, read, read_objects

__all__ = ["Input", "Overlay", "locate", "read", "read_objects"]

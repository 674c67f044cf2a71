"""Read manifests: files, URLs, kustomize builds, Kubernetes' YAML dialect, lists, validation."""

from applyprune.sources.excerpt import locate
from applyprune.sources.kustomize import Overlay
from applyprune.sources.load import Input, Objects, read, read_objects

__all__ = ["Input", "Objects", "Overlay", "locate", "read", "read_objects"]

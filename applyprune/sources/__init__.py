"""Read manifests: files, URLs, kustomize builds, Kubernetes' YAML dialect, lists, validation."""

from applyprune.sources.kustomize import Overlay
from applyprune.sources.load import Input, read, read_objects
from applyprune.sources.yaml.locate import locate

__all__ = ["Input", "Overlay", "locate", "read", "read_objects"]

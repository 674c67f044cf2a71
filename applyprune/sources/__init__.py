"""Read manifests: files, URLs, kustomize builds, Kubernetes' YAML dialect, lists, validation."""

from applyprune.sources.kustomize import Overlay
from applyprune.sources.load import Input, read
from applyprune.sources.yaml.locate import locate

__all__ = ["Input", "Overlay", "locate", "read"]

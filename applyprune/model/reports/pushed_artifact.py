"""What ``push`` has published."""

from __future__ import annotations

from applyprune.values import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactPushed:
    """An artifact with manifests is in its registry; in a dry run, it would be."""

    artifact: str
    """``oci://HOST/NAME:TAG@sha256:…``, safe to print."""
    digest: str
    """``sha256:…`` of the artifact's manifest."""
    objects: int
    """How many objects its manifests have."""
    dry_run: bool = False
    """Whether nothing was sent."""

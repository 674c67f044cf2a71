"""What the API server serves: one resource for each kind and version, as discovery told it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.model.refs import GVK, GroupKind

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Resource:
    """One endpoint: a kind in one version, its plural and its scope."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def gvk(self) -> GVK:
        """Return group, version and kind."""
        return GVK(self.group, self.version, self.kind)

    @property
    def group_kind(self) -> GroupKind:
        """Return group and kind."""
        return GroupKind(self.group, self.kind)

    @property
    def full_plural(self) -> str:
        """Return ``deployments.apps``; for a custom resource this is its CRD's name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class ResourceMap:
    """Every resource that discovery named.

    ``preferred`` holds, for each kind, the resource in the version that the server prefers.
    ``stale`` holds the groups for which the server could not say (an aggregated API that is down):
    a kind missing from such a group may well exist.
    """

    served: Mapping[GVK, Resource] = field(hash=False)
    preferred: Mapping[GroupKind, Resource] = field(hash=False)
    stale: frozenset[str] = frozenset()

    def find(self, gvk: GVK) -> Resource | None:
        """Return the resource that serves this very version."""
        return self.served.get(gvk)

    def find_kind(self, group_kind: GroupKind) -> Resource | None:
        """Return the resource of a kind in whatever version the server prefers."""
        return self.preferred.get(group_kind)

"""The identity of objects: group, kind, namespace and name, and their text.

The version is not part of the identity. The server serves the same object in every version of its
group, so two manifests that differ only in the version are the same object, and a stored inventory
survives a version bump.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct


class Ref(Struct, frozen=True, order=True):
    """The identity of an object in a cluster; ``namespace`` is empty for cluster scope."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        """Return the group and kind."""
        return GroupKind(self.group, self.kind)

    @property
    def short(self) -> str:
        """Return ``deployment.apps/web``, as kubectl prints it, without the namespace."""
        kind = self.kind.lower()
        return f"{kind}.{self.group}/{self.name}" if self.group else f"{kind}/{self.name}"

    def is_among(self, names: Collection[str]) -> bool:
        """Return whether the object is in ``names``: ``kind.group/name``, ``kind/name`` for core.

        A prefix ``namespace/`` is allowed; without it the name matches in every namespace. What
        users write becomes such an exact name in ``planning.names.with_names_resolved``.
        """
        # guard: name-in-group -> {self.short, f"{self.kind.lower()}/{self.name}"}
        forms = {self.short}
        forms |= {f"{self.namespace}/{form}" for form in forms}
        return not forms.isdisjoint(names)

    def __str__(self) -> str:
        """Return ``deployment.apps/web``, with ``in namespace shop`` if it has a namespace."""
        return f"{self.short} in namespace {self.namespace}" if self.namespace else self.short


def kubectl_name(ref: Ref, namespace: str) -> str:
    """Return ``deployment.apps/web``, with ``-n shop`` if its namespace is not ``namespace``.

    The text is valid input for kubectl. Unlike kubectl's output, it is never ambiguous.
    """
    return f"{ref.short} -n {ref.namespace}" if ref.namespace not in {"", namespace} else ref.short


class SetKey(NamedTuple):
    """A set among others."""

    namespace: str
    """The namespace of its inventory; empty if that is unknown."""
    name: str

    def __str__(self) -> str:
        """Return ``NAMESPACE/NAME``, as ``dependsOn`` has it."""
        return "/".join(filter(None, self))


class GroupKind(Struct, frozen=True, order=True):
    """A kind without its version; ``group`` is empty for the core group."""

    group: str
    kind: str

    def __str__(self) -> str:
        """Return ``Kind.group``, the form of ApplySet annotations (KEP-3659); ``Kind`` for core."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GVK(Struct, frozen=True, order=True):
    """Group, version and kind, as a manifest states them."""

    group: str
    version: str
    kind: str

    @classmethod
    @lru_cache(256)
    def parse(cls, api_version: str, kind: str) -> GVK:
        """Return the GVK of ``apps/v1`` or ``v1``; the caller has validated the text."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or only ``version`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """Return the group and kind, which are part of the identity."""
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        """Return ``apps/v1 Deployment``."""
        return f"{self.api_version} {self.kind}"

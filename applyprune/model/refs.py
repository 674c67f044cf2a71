"""What names an object: group, kind, namespace, name. The version is not identity.

The same object is served under every version of its group, so two manifests that differ only in
version are one object, and a stored inventory survives a version bump.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """A kind without its version; ``group`` is empty for the core group."""

    group: str
    kind: str

    def __str__(self) -> str:
        """Return ``Kind.group``, the form of ApplySet annotations (KEP-3659); ``Kind`` for core."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True, order=True)
class GVK:
    """Group, version and kind, as a manifest states them."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GVK:
        """Split ``apps/v1`` or ``v1``; the caller has checked that it is well-formed."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or ``version`` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """Return the part of it that is identity."""
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        """Return ``apps/v1 Deployment``."""
        return f"{self.api_version} {self.kind}"


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """The identity of one object in a cluster; ``namespace`` is empty for cluster scope."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        """Return group and kind."""
        return GroupKind(self.group, self.kind)

    @property
    def short(self) -> str:
        """Return ``deployment.apps/web``, the form that kubectl prints; no namespace."""
        kind = self.kind.lower()
        return f"{kind}.{self.group}/{self.name}" if self.group else f"{kind}/{self.name}"

    def is_among(self, names: Collection[str]) -> bool:
        """Return whether the object is named: ``kind/name`` or ``kind.group/name``.

        The kind may be in any case, the name may not: names of RBAC know upper and lower. A
        namespace and a slash may stand before it; without them it is meant in every namespace.
        """
        if not names:
            return False
        forms = {self.short, f"{self.kind.lower()}/{self.name}"}
        forms |= {f"{self.namespace}/{form}" for form in forms}
        return any(_with_kind_lowered(name) in forms for name in names)

    def __str__(self) -> str:
        """Return ``deployment.apps/web`` and, where there is one, ``in namespace shop``."""
        return f"{self.short} in namespace {self.namespace}" if self.namespace else self.short


def _with_kind_lowered(text: str) -> str:
    *namespace, kind, name = text.split("/") if "/" in text else ("", text)
    return "/".join((*namespace, kind.lower(), name))

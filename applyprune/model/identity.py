"""What names an object: group, kind, namespace, name. The version is not identity.

The same object is served under every version of its group, so two manifests that differ only in
version are one object, and a stored inventory survives a version bump.

What Kubernetes takes for a name: the one home of the DNS rules.

How an object is called in text.
"""

from __future__ import annotations

import re
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


DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
"""The pattern of RFC 1123's label."""

_LABEL = re.compile(DNS_LABEL)
# As a whole a subdomain is bounded, its labels are not: a name of 200 letters is one.
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_PART}(?:\.{_PART})*")
_LONGEST_SUBDOMAIN = 253


def is_dns_label(text: str) -> bool:
    """Return whether a text can name a namespace, or a set: RFC 1123's label."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text can name most objects: RFC 1123's subdomain."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def called(ref: Ref, home: str) -> str:
    """Return ``deployment.apps/web``, and its namespace where that is not ``home``: ``-n shop``.

    In kubectl's words, so that it can be handed to kubectl. Unlike kubectl it never leaves open
    which of two objects of one name is meant.
    """
    return f"{ref.short} -n {ref.namespace}" if ref.namespace not in {"", home} else ref.short

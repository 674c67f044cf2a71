"""How a set and its members are marked: ApplySet labels, the inventory's name, the field manager.

Formats are those of KEP-3659 as kubectl's ``applyset.go`` writes them (``applyset.kubernetes.io``,
tooling as an annotation), so that any tool that knows the specification can list our members.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from applyprune.errors import UsageError
from applyprune.model.identity import GroupKind, Ref, is_dns_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PART_OF = "applyset.kubernetes.io/part-of"
SET_ID = "applyset.kubernetes.io/id"
TOOLING = "applyset.kubernetes.io/tooling"
GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SHARD_OF = "applyprune.dev/inventory"
WANTED = "applyprune.dev/wanted"
"""An annotation that does nothing but move the resourceVersion of what a delete may be aimed at."""
MANAGERS = "applyprune/"
"""What the field manager of every set begins with."""

_PREFIX = "applyprune-"
_HINT_LIMIT = 120 * 1024
_MANAGER_LIMIT = 128
_YIELDED = "-yielded"


@dataclass(frozen=True, slots=True)
class ApplySetIdentity:
    """One set: NAME in the namespace of its inventory, and all that follows from these two."""

    name: str
    namespace: str

    @property
    def inventory(self) -> Ref:
        """Return the ref of the inventory's ConfigMap."""
        return Ref("", "ConfigMap", self.namespace, _PREFIX + self.name)

    @property
    def arguments(self) -> str:
        """Return what names this set on the command line."""
        return f"{self.name} -n {self.namespace}"

    def records_in(self, ref: Ref) -> bool:
        """Return whether an object is this set's inventory, or a shard of it."""
        root = self.inventory
        return ref == root or (
            (ref.group_kind, ref.namespace) == (root.group_kind, root.namespace)
            and ref.name.startswith(f"{root.name}.")
        )

    @property
    def id(self) -> str:
        """Return the ApplySet id: a hash of name, namespace, kind and group of the inventory."""
        return _applyset_id(self.inventory)

    @property
    def manager(self) -> str:
        """Return this set's own field manager: one shared by two sets lets each strip the other."""
        manager = f"{MANAGERS}{self.namespace}/{self.name}"
        return manager if len(manager) <= _MANAGER_LIMIT else f"{MANAGERS}{self.id}"

    @property
    def yielded(self) -> str:
        """Return the field manager that keeps what this set has yielded as it is."""
        return yielded_manager(self.manager)


@cache
def _applyset_id(ref: Ref) -> str:
    text = f"{ref.name}.{ref.namespace}.{ref.kind}.{ref.group}"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"applyset-{digest.decode().rstrip('=')}-v1"


def applyset_identity(name: str, namespace: str) -> ApplySetIdentity:
    """Return the identity of the set NAME; raise UsageError when NAME is no DNS label."""
    if not is_dns_label(name):
        raise UsageError(
            f"{name!r} cannot name a set",
            reason="a name is a DNS label: lower-case letters, digits and '-', "
            "at most 63 characters",
        )
    if name.endswith(_YIELDED):
        raise UsageError(
            f"{name!r} cannot name a set",
            reason="its field manager would be that of what the set "
            f"{name.removesuffix(_YIELDED)!r} has yielded",
        )
    return ApplySetIdentity(name, namespace)


def set_of(manager: str) -> str:
    """Return the id of the set whose field manager this is; empty when it is no set's."""
    if not manager.startswith(MANAGERS):
        return ""
    namespace, slash, name = manager.removeprefix(MANAGERS).partition("/")
    return ApplySetIdentity(name, namespace).id if slash else namespace


def yielded_manager(manager: str) -> str:
    """Return the second field manager of the set whose first one this is."""
    yielded = f"{manager}{_YIELDED}"
    if len(yielded) <= _MANAGER_LIMIT:
        return yielded
    return f"{MANAGERS}{set_of(manager)}{_YIELDED}"


def set_name(config_map: str) -> str:
    """Return NAME of an inventory's ConfigMap name."""
    return config_map.removeprefix(_PREFIX)


def shard_ref(name: str, namespace: str, digest: str) -> Ref:
    """Return the ref of the ConfigMap that holds one shard of the inventory of the set NAME."""
    return Ref("", "ConfigMap", namespace, f"{_PREFIX}{name}.{digest[:32]}")


def applyset_annotations(refs: Iterable[Ref], *, namespace: str, tooling: str) -> Mapping[str, str]:
    """Return the parent's annotations for a set that holds ``refs``; lists are sorted.

    Both lists are hints by the specification, and left out when they are too long for the 256 KiB
    that all annotations of an object may take.
    """
    refs = tuple(refs)
    kinds = {(ref.group, ref.kind) for ref in refs}
    return {
        TOOLING: tooling,
        GROUP_KINDS: _hint(str(GroupKind(*kind)) for kind in kinds),
        NAMESPACES: _hint({ref.namespace for ref in refs} - {"", namespace}),
    }


def _hint(names: Iterable[str]) -> str:
    text = ",".join(sorted(names))
    return text if len(text) <= _HINT_LIMIT else ""

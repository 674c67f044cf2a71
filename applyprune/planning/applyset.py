"""The identity of a set, and the labels and annotations of its inventory, its ApplySet parent.

The formats are those of KEP-3659 as kubectl's ``applyset.go`` writes them, so that any tool that
knows the specification can list the members of our sets.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping
from functools import cache, cached_property

from msgspec import Struct

from applyprune.errors import ForeignParent, UsageError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.text import and_more, is_dns_label, is_dns_subdomain
from applyprune.values import pattern

PART_OF = "applyset.kubernetes.io/part-of"
SET_ID = "applyset.kubernetes.io/id"
TOOLING = "applyset.kubernetes.io/tooling"
GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"
ADDITIONAL_NAMESPACES = "applyset.kubernetes.io/additional-namespaces"
TOOL = "applyprune"
"""The name before the version in the annotation of the tool."""
OWN_LABELS = frozenset({SET_ID})
"""The labels of an inventory that applyprune itself writes; all others belong to other tools."""
OWN_ANNOTATIONS = frozenset({TOOLING, GROUP_KINDS, ADDITIONAL_NAMESPACES})
"""The same for its annotations."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SHARD_OF = "applyprune.dev/inventory"
WANTED = "applyprune.dev/wanted"
"""An annotation that only changes the resourceVersion, so that a planned delete fails."""
MANIFEST_DIGEST = "applyprune.dev/manifest-digest"
"""An annotation that earlier versions wrote; a manifest may be copied from such an object."""
OWNED_BY = "applyprune.dev/owned-by"
"""The annotation with the ID of the set that created an object: the second witness of a delete."""
MANAGERS = "applyprune/"
"""The prefix of the field manager of every set."""
_PREFIX = "applyprune-"
_MANAGER_LIMIT = 128
_YIELDED = "-yielded"


class ApplySetIdentity(Struct, frozen=True, dict=True):
    """The identity of a set, by its name and the namespace of its inventory.

    What follows from them is made once: a run asks for it several times with each object.
    """

    name: str
    namespace: str

    @cached_property
    def inventory(self) -> Ref:
        return Ref("", "ConfigMap", self.namespace, _PREFIX + self.name)

    @cached_property
    def own_namespace(self) -> Ref:
        """Return the Namespace that holds the inventory."""
        return Ref("", "Namespace", "", self.namespace)

    @property
    def arguments(self) -> str:
        """Return the command-line arguments that name this set."""
        return f"{self.name} -n {self.namespace}"

    @property
    def roles_command(self) -> str:
        """Return the command that prints the roles which this set needs."""
        return f"applyprune rbac {self.arguments} -f PATH"

    def records_in(self, ref: Ref) -> bool:
        """Return whether an object is this set's inventory or one of its shards."""
        root = self.inventory
        return ref == root or (
            (ref.group_kind, ref.namespace) == (root.group_kind, root.namespace)
            and ref.name.startswith(f"{root.name}.")
        )

    @cached_property
    def id(self) -> str:
        """Return the ApplySet ID: a hash of the inventory's name, namespace, kind and group."""
        return applyset_id(self.inventory)

    @cached_property
    def manager(self) -> str:
        """Return this set's field manager.

        Each set has its own: with a shared manager, each set would remove the other's fields.
        """
        manager = f"{MANAGERS}{self.namespace}/{self.name}"
        return manager if len(manager) <= _MANAGER_LIMIT else f"{MANAGERS}{self.id}"

    @cached_property
    def yielded(self) -> str:
        """Return the field manager that owns the fields that this set ignores."""
        return yielded_manager(self.manager)


@cache
def applyset_id(ref: Ref) -> str:
    """Return the ID of the ApplySet with this parent."""
    text = f"{ref.name}.{ref.namespace}.{ref.kind}.{ref.group}"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"applyset-{digest.decode().rstrip('=')}-v1"


def applyset_identity(name: str, namespace: str) -> ApplySetIdentity:
    """Return the identity of a set; raise UsageError if the name is invalid."""
    if not is_dns_label(name):
        raise UsageError(
            f"invalid set name {name!r}",
            reason="a name must be a DNS label: lower-case letters, digits and '-', at most 63 "
            "characters",
        )
    if name.endswith(_YIELDED):
        raise UsageError(
            f"invalid set name {name!r}",
            reason=f"the set {name.removesuffix(_YIELDED)!r} uses the same field manager for the "
            "fields that it ignores",
        )
    return ApplySetIdentity(name, namespace)


def yielded_manager(manager: str) -> str:
    """Return the second field manager of the set with this field manager."""
    yielded = f"{manager}{_YIELDED}"
    if len(yielded) <= _MANAGER_LIMIT:
        return yielded
    return f"{MANAGERS}{set_of(manager)}{_YIELDED}"


def set_of(manager: str) -> str:
    """Return the ID of the set with this field manager; empty if it is not a set's manager."""
    if not manager.startswith(MANAGERS):
        return ""
    namespace, slash, name = manager.removeprefix(MANAGERS).partition("/")
    return ApplySetIdentity(name, namespace).id if slash else namespace


def set_name(config_map: str) -> str:
    return config_map.removeprefix(_PREFIX)


def shard_ref(name: str, namespace: str, digest: str) -> Ref:
    """Return the ref of the ConfigMap with a shard of the inventory of the set ``name``."""
    return Ref("", "ConfigMap", namespace, f"{_PREFIX}{name}.{digest[:32]}")


# The ApplySet annotations of an inventory, by KEP-3659.


_HINT_LIMIT = 120 * 1024
# A kind is a DNS label once it is lower-case; the server allows any case.
_KIND = pattern(r"[A-Za-z](?:[-A-Za-z0-9]*[A-Za-z0-9])?")


def applyset_annotations(refs: Iterable[Ref], *, namespace: str, tooling: str) -> Mapping[str, str]:
    """Return the ApplySet annotations of the inventory of a set with ``refs``; lists are sorted.

    By the specification, both lists are hints. A list is omitted if it is too long for the 256 KiB
    that all annotations of an object may have.
    """
    refs = tuple(refs)
    kinds = {(ref.group, ref.kind) for ref in refs}
    return {
        TOOLING: tooling,
        GROUP_KINDS: _hint({str(GroupKind(*kind)) for kind in kinds}),
        ADDITIONAL_NAMESPACES: _hint({ref.namespace for ref in refs} - {"", namespace}),
    }


def _hint(names: Iterable[str]) -> str:
    text = ",".join(sorted(names))
    return text if len(text) <= _HINT_LIMIT else ""


def hinted_namespaces(annotations: Mapping[str, str]) -> frozenset[str]:
    return frozenset(filter(None, annotations.get(ADDITIONAL_NAMESPACES, "").split(",")))


def listed_kinds(annotations: Mapping[str, str]) -> Iterable[str]:
    """Return the items of the annotation with the kinds of an ApplySet parent, valid or not."""
    text = annotations.get(GROUP_KINDS, "")
    return text.split(",") if text else ()


def is_group_kind(text: str) -> bool:
    """Return whether a text has the form ``Kind.group``, or ``Kind`` for the core group."""
    kind, dot, group = text.partition(".")
    return _KIND.fullmatch(kind) is not None and (is_dns_subdomain(group) if dot else True)


# Whether a ConfigMap is this set's own ApplySet parent. kubectl checks the same: a tool must not
# change the parent of another tool, nor one whose label or annotations do not fit it.


_SHOWN = 3
_OTHER_NAME = "Nothing was changed. Choose another name for this set"


def foreign_parent(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    applyset: ApplySetIdentity,
    *,
    has_header: bool,
) -> ForeignParent | None:
    """Return why a ConfigMap is not this set's inventory, and stays as it is; None if it may be.

    ``has_header`` says whether it contains an inventory of applyprune. One without the label must
    be proved to be this set's by its UID.
    """
    tooling = annotations.get(TOOLING)
    # NAME/VERSION; a name may contain slashes.
    tool = TOOL if tooling is None else tooling.rpartition("/")[0] or tooling
    if tool != TOOL:  # guard: other-tools-parent never
        return ForeignParent(
            f"{applyset.inventory} is the ApplySet parent of another tool",
            reason=f"its annotation {TOOLING} is {tooling!r}, and a tool must not change the set "
            "of another one",
            hint=f"{_OTHER_NAME}, or remove that ApplySet with its own tool first.",
        )
    label = labels.get(SET_ID)
    if label is None and not has_header:
        return without_label(applyset, "it contains no inventory of applyprune")
    if label not in {None, applyset.id}:  # guard: other-parent-id never
        return ForeignParent(
            f"{applyset.inventory} is not this set's inventory",
            reason=f"its label {SET_ID} is {label!r}, and its name and namespace give "
            f"{applyset.id!r}",
            hint=f"{_OTHER_NAME}. It may be a copy of another set's inventory, or belong to "
            "something else.",
        )
    if tooling is None and not has_header:  # guard: nobodys-parent never
        return ForeignParent(
            f"{applyset.inventory} is an ApplySet parent of an unknown tool",
            reason=f"it has no annotation {TOOLING}, and contains no inventory of {TOOL}",
            hint=f"{_OTHER_NAME}.",
        )
    return None


def without_label(applyset: ApplySetIdentity, reason: str) -> ForeignParent:
    """Return the error for a ConfigMap without the label that nothing proves to be the set's."""
    return ForeignParent(
        f"{applyset.inventory} is not this set's inventory",
        reason=f"it has no label {SET_ID}, and {reason}",
        hint=f"{_OTHER_NAME}. If it is this set's inventory, restore the ConfigMap from a backup.",
    )


def parent_faults(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is wrong with the marks of our own inventory: a repair sets them again.

    That the specification calls the kinds a hint does not help: they are the second record of what
    the set contains.
    """
    faults = []
    if SET_ID not in labels:
        faults.append(f"it has no label {SET_ID}")
    if TOOLING not in annotations:
        faults.append(f"it has no annotation {TOOLING}")
    if GROUP_KINDS not in annotations:
        faults.append(f"it has no annotation {GROUP_KINDS}")
    elif wrong := [name for name in listed_kinds(annotations) if not is_group_kind(name)]:
        named = and_more([repr(name) for name in wrong], _SHOWN)
        faults.append(f"its annotation {GROUP_KINDS} has {named}, and must list KIND.GROUP")
    return tuple(faults)


def kinds_fault(annotations: Mapping[str, str], refs: Collection[Ref]) -> tuple[str, ...]:
    """Return that the annotation lacks kinds of listed objects; empty if it does not.

    An empty annotation is a list that was too long.
    """
    named = set(listed_kinds(annotations))
    lacking = {str(ref.group_kind) for ref in refs} - named if named else set()
    if not lacking:
        return ()
    kinds = and_more(sorted(lacking), _SHOWN)
    return (f"its annotation {GROUP_KINDS} lacks {kinds}, and it lists objects of that kind",)

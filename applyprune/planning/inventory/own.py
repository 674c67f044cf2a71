"""Decide which objects of a set become owned, so that a later prune may delete them.

A prune deletes what the inventory and the annotation on the object both call owned. The annotation
is written first: if the run dies in between, the object still counts as adopted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from applyprune.errors import RunFailed, as_problem
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import IN_EACH_NAMESPACE, Absent, KindDeleted, LiveObject, Unknown
from applyprune.planning.applyset import SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.marks.apply_mark import left_alone
from applyprune.planning.ownership.foreign_label import (
    foreign_label,
    is_label_unproven,
    unproven_label,
)
from applyprune.planning.ownership.other_owner import other_owner, owned_by_tool
from applyprune.planning.ownership.owner import (
    Owner,
    fingerprint_of,
    foreign_owner,
    is_marked,
    other_set,
    owned_fields_of,
    owner_of,
    ownership_of,
    same_apply_entry,
)
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.model.live import Resource, State
    from applyprune.model.problem import Problem
    from applyprune.planning.ownership.foreign_label import OtherSet

ALREADY = "it is owned already"
GONE = "it is gone"


@dataclass(frozen=True, slots=True)
class OwnStep:
    """The decision about one object."""

    entry: InventoryEntry
    resource: Resource | None
    live: LiveObject | None = None
    left: str = ""
    """Why nothing is to do; empty if it becomes owned, or is refused."""
    problem: Problem | None = None
    """Why it is refused."""

    @property
    def is_due(self) -> bool:
        """Return whether the object becomes owned."""
        return not self.left and self.problem is None


def own_step(
    entry: InventoryEntry,
    resource: Resource | None,
    state: State,
    applyset: ApplySetIdentity,
    others: Mapping[str, OtherSet],
) -> OwnStep:
    """Decide about one entry, by the state of its object; ``others`` are sets of foreign labels."""
    if isinstance(state, Absent | KindDeleted):
        return OwnStep(entry, resource, left=GONE)
    if isinstance(state, Unknown):
        return OwnStep(entry, resource, problem=state.problem)
    if not isinstance(state, LiveObject) or resource is None:
        unknown = _refused(entry, "it is unknown whether it exists")
        return OwnStep(entry, resource, problem=unknown)
    problem = _problem(entry, state, applyset, others)  # guard: own-only-ours
    if problem is not None:
        return OwnStep(entry, resource, state, problem=problem)
    is_owned = ownership_of(entry, state, applyset) is Ownership.OWNED
    return OwnStep(entry, resource, state, left=ALREADY if is_owned else "")


def as_owned(kept: str) -> str:
    """Return what the run says of an object that becomes owned.

    ``kept`` says what keeps it all the same; empty if a later prune deletes it.
    """
    if kept:
        return f"as owned; a later prune or delete orphans it: {kept}"
    return "as owned: a later prune or delete deletes it"


def owned_entry(
    entry: InventoryEntry, before: LiveObject, after: LiveObject, applyset: ApplySetIdentity
) -> InventoryEntry:
    """Return the entry of an object that has become owned.

    ``before`` and ``after`` are its states around our own patches. The annotation is a field of the
    set, so the record of the last apply includes it now: nothing has drifted.
    """
    owned = replace(entry, ownership=Ownership.OWNED)
    recorded, manager = entry.fingerprint, applyset.manager
    if recorded is None or not same_apply_entry(recorded, before, manager):
        return owned
    fresh = fingerprint_of(after, manager, recorded.schema)
    if fresh is None:
        return owned
    is_untouched = recorded.resource_version == before.resource_version
    version = after.resource_version if is_untouched else recorded.resource_version
    fresh = replace(fresh, resource_version=version, generation=recorded.generation)
    return replace(owned, fingerprint=fresh, owned_fields=owned_fields_of(after, manager))


def _problem(
    entry: InventoryEntry,
    live: LiveObject,
    applyset: ApplySetIdentity,
    others: Mapping[str, OtherSet],
) -> Problem | None:
    """Return why an object may not become owned; None if it may."""
    if live.terminating:
        return _refused(entry, "it is being deleted")
    if (entry.ref.group_kind, entry.ref.name) in IN_EACH_NAMESPACE:  # guard: own-no-defaults
        return _refused(entry, "a controller creates it in each Namespace")
    if mark := left_alone(live.metadata, {}):  # guard: own-nothing-left-alone
        return _refused(entry, f"it is marked {mark}")
    if is_label_unproven(entry, live, others, applyset):
        return as_problem(unproven_label(entry.ref, live, others, applyset))
    if reason := _not_ours(entry, live, applyset):
        check = f"applyprune inventory check {applyset.arguments}"
        return _refused(entry, reason, f"See: {check}")
    if tool := _other_tool(entry, live, applyset):
        hint = "If that tool no longer runs it, remove its mark, or its entry in managedFields."
        return _refused(entry, tool, hint)
    return None


def _other_tool(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return which other tool runs an object, or has marked it; empty if none does."""
    tool = owned_by_tool(live, applyset)
    return f"it belongs to {tool}" if tool else other_owner(entry, live, applyset)


def _not_ours(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return why an object is not, or not only, this set's; empty if it is."""
    if foreign_label(live, applyset):
        named = other_set(live)
        return f"it belongs to the set {named}" if named else "it belongs to another set"
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return "it is the inventory of a set"
    if owner_of(live, entry, applyset) is not Owner.RECORDED:
        return "it is not the listed object: its UID differs"
    if not entry.uid or not is_marked(live, applyset):
        return "it does not have this set's label and field manager"
    if owner := foreign_owner(live, applyset.manager):
        return f"it belongs to {owner}, by its ownerReferences"
    return ""


def _refused(entry: InventoryEntry, reason: str, hint: str = "") -> Problem:
    return as_problem(RunFailed(f"{entry.ref} did not become owned", reason=reason, hint=hint))

"""The state of the cluster that a plan is based on, and recovery from a lost or restored inventory.

An object with a set's label and its manager's Apply entry belongs to the set, but without the
inventory it is unknown whether the set created or adopted it. So it is recorded as adopted, and an
adopted object is never deleted unless the user says so. The run that records it prunes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.errors import InventoryError, PruneRefused, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
from applyprune.model.live import LiveObject, Registrations, Resource, State
from applyprune.model.plan import Desired
from applyprune.model.problem import Problem
from applyprune.model.text import and_more
from applyprune.planning.annotations import orphan_mark
from applyprune.planning.applyset import PART_OF, ApplySetIdentity
from applyprune.planning.order import wave_of
from applyprune.planning.ownership.foreign_label import OtherSet
from applyprune.planning.ownership.managed_fields import is_applied
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from datetime import datetime


CHANGING = -1
"""The generation of a CRD that the run is about to change: nothing was applied under it yet."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The state of the cluster, read before the plan."""

    states: Mapping[Ref, State] = field(hash=False)
    """The state of every desired object and every entry.

    Also of other objects of a recorded kind with the set's label and field manager.
    """
    schemas: Mapping[GroupKind, int | None] = field(default_factory=dict, hash=False)
    """The generation of the CRD of each custom kind; None where it could not be read."""
    resources: Mapping[GroupKind, Resource] = field(default_factory=dict, hash=False)
    """The endpoint of each recorded kind that is still served."""
    occupied: frozenset[str] = frozenset()
    """The namespaces that contain an inventory."""
    contents: Mapping[Ref, CascadeContents] = field(default_factory=dict, hash=False)
    """The contents of each Namespace and CRD that has left the set."""
    dependants: Mapping[Ref, CascadeContents] = field(default_factory=dict, hash=False)
    """What the garbage collector deletes with each deleted object, of the guarded kinds."""
    now: datetime | None = None
    """The time of the server's last reply, by its own clock; None if it has given none."""
    marked: tuple[LiveObject, ...] = ()
    """Objects with the set's label and field manager; read only if there is no inventory."""
    unseen: tuple[str, ...] = ()
    """What could not be read in the search for ``marked``, in words."""
    hidden_kinds: frozenset[GroupKind] = frozenset()
    """Kinds without an entry that the inventory's annotation names, unless none has an object."""
    others: Mapping[str, OtherSet] = field(default_factory=dict, hash=False)
    """The set of each foreign label that a listed object has, by the label."""
    autoscalers: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """The HorizontalPodAutoscalers that may target objects of the input, in full."""
    pruned_autoscalers: frozenset[str] = frozenset()
    """The UIDs of those that are not among them, because the run prunes them."""
    unread_autoscalers: Mapping[str, Problem] = field(default_factory=dict, hash=False)
    """Why they could not be read, by the namespace in which they may be."""
    registered: Registrations | None = field(default=None, hash=False)
    """The CRDs and APIServices; None if nothing needed them, or they could not be read."""

    @property
    def live_objects(self) -> Iterator[LiveObject]:
        """Return the objects of the plan that exist."""
        return (state for state in self.states.values() if isinstance(state, LiveObject))


@dataclass(frozen=True, slots=True)
class CascadeContents:
    """The contents of a Namespace or a CRD, or what an object owns."""

    objects: tuple[LiveObject, ...]
    uncounted: str = ""
    """What could not be read, and why; empty if all was read."""


# A single recreated object says nothing about the others.
_FEWEST = 2
_SHOWN = 3


def is_restored(inventory: Inventory, snapshot: ClusterSnapshot) -> bool:
    """Return whether the inventory lists other objects than the live ones.

    This happens after a restore from a backup, or in a clone of the cluster. Then the UID in the
    ConfigMap's header is wrong, or every listed object has another UID.
    """
    if inventory.copied:
        return True
    uids = [
        (entry.uid, state.uid)
        for ref, entry in inventory.entries.items()
        if entry.uid and isinstance(state := snapshot.states[ref], LiveObject)
    ]
    return len(uids) >= _FEWEST and all(ours != theirs for ours, theirs in uids)


def restored_problem(inventory: Inventory) -> Problem:
    """Return the problem that a restored inventory prunes nothing, and what to do."""
    return as_problem(
        PruneRefused(
            "the prune was refused: the inventory is a copy, or was restored from a backup",
            reason="its ConfigMap's UID, or every listed UID, differs from the recorded UID",
            hint="To record the current objects instead: "
            f"applyprune inventory repair {inventory.name} -n {inventory.namespace} --dry-run",
        )
    )


def recovered_problem(
    entries: Sequence[InventoryEntry], snapshot: ClusterSnapshot, inventory: Inventory
) -> Problem:
    """Return the warning about objects that are recorded in a new inventory.

    ``entries`` are those that are not in the input.
    """
    seen = ""
    if snapshot.unseen:
        seen = f"; some could not be read: {'; '.join(snapshot.unseen[:_SHOWN])}"
    return as_problem(
        InventoryError(
            f"the inventory of the set {inventory.name} is gone, and {len(snapshot.marked)} "
            "objects have its label and field manager",
            reason=f"they are recorded again as adopted, and this run prunes nothing{seen}",
            hint=f"{len(entries)} of them are not in the input: the next run orphans these, or "
            "deletes them with --prune-adopted."
            if entries
            else "",
        )
    )


def unlisted(
    desired: Sequence[Desired], inventory: Inventory, snapshot: ClusterSnapshot
) -> Sequence[Ref]:
    """Return the objects with the set's label and field manager that are not listed."""
    known = {member.ref for member in desired} | inventory.entries.keys()
    uids = {entry.uid for entry in inventory.entries.values()}
    return sorted(
        ref
        for ref, state in snapshot.states.items()
        if ref not in known and isinstance(state, LiveObject) and state.uid not in uids
    )


def unlisted_problem(
    desired: Sequence[Desired], inventory: Inventory, snapshot: ClusterSnapshot
) -> Problem | None:
    """Return a warning about unlisted objects with the set's label and field manager.

    For example, a create request may reach the server after its run was killed, or somebody may
    have removed entries from the inventory.
    """
    strays = unlisted(desired, inventory, snapshot)
    unread = f"not searched: {'; '.join(snapshot.unseen[:_SHOWN])}" if snapshot.unseen else ""
    if not (strays or (unread and inventory.exists)):
        return None
    named = f"{len(strays)} objects have" if strays else "other objects may have"
    return as_problem(
        InventoryError(
            f"{named} the label and field manager of the set {inventory.name}, "
            "but are not in its inventory",
            reason="; ".join(part for part in (and_more(strays, _SHOWN), unread) if part),
            hint="To see how to repair this: applyprune inventory repair "
            f"{inventory.name} -n {inventory.namespace} --dry-run",
        )
    )


def may_lose_objects(
    desired: Sequence[Desired], inventory: Inventory, snapshot: ClusterSnapshot
) -> bool:
    """Return whether a removal of the whole set may lose unlisted objects that are its own.

    A run lists an object, and with it the namespace, before it creates the object. In a namespace
    that the inventory does not name, anybody else may have made one that looks like the set's. It
    counts only if the entries of its kind were removed from the inventory.
    """
    places = {ref.namespace for ref in inventory.entries} | inventory.hinted_namespaces
    places |= {inventory.namespace, ""}
    return bool(snapshot.unseen) or any(
        ref.namespace in places or ref.group_kind in inventory.hidden_kinds  # guard: look-alike
        for ref in unlisted(desired, inventory, snapshot)
    )


def unfounded_orphan_mark(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> str:
    """Return why an entry is marked to be orphaned while nothing on the object says so.

    An interrupted run marks an entry before it orphans the object, and so may anybody who can edit
    the inventory. Empty if there is no such mark, or if the object is not ours any more.
    """
    if not (entry.orphaning or entry.orphan_reason) or orphan_mark(live.metadata):
        return ""
    if not is_applied(live, applyset.manager):
        return ""
    return entry.orphan_reason or "an interrupted run"


def to_orphan_problem(
    desired: Sequence[Desired],
    inventory: Inventory,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
) -> Problem | None:
    """Return a warning about entries that only the inventory marks to be orphaned.

    An apply of the ``desired`` objects removes the marks of their entries.
    """
    applied = {member.ref for member in desired}
    marked = sorted(
        ref
        for ref, entry in inventory.entries.items()
        if ref not in applied
        and isinstance(live := snapshot.states[ref], LiveObject)
        and unfounded_orphan_mark(entry, live, applyset)
    )
    if not marked:
        return None
    return as_problem(
        InventoryError(
            f"the inventory of the set {inventory.name} says that {len(marked)} objects are to be "
            "orphaned, and nothing on the objects says so",
            reason=and_more(marked, _SHOWN),
            hint="An interrupted run, or somebody who has edited the inventory, has marked them. "
            "An apply with them in the input removes the mark.",
        )
    )


def recorded(
    desired: Sequence[Desired],
    inventory: Inventory,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    *,
    restored: bool,
) -> Mapping[Ref, InventoryEntry]:
    """Return the current entry of each desired object.

    With a restored inventory, an object with the set's label is the listed object with a new UID:
    a restore removes our managedFields. An object that is listed with the same UID under another
    group is the same object.
    """
    twins = {entry.uid: entry for entry in inventory.entries.values() if entry.uid}
    found: dict[Ref, InventoryEntry] = {}
    for member in desired:
        entry = inventory.entries.get(member.ref)
        live = snapshot.states[member.ref]
        if isinstance(live, LiveObject):
            if entry is None and (twin := twins.get(live.uid)) is not None:
                plural, version = member.resource.plural, member.resource.version
                entry = replace(
                    twin,
                    ref=member.ref,
                    plural=plural,
                    version=version,
                    fingerprint=None,
                    digest="",
                )
            elif entry is not None and restored and live.labels.get(PART_OF) == applyset.id:
                entry = replace(entry, uid=live.uid, fingerprint=None)
        if entry is not None:
            found[member.ref] = entry
    return found


def recovered_entries(
    objects: Iterable[LiveObject],
    resources: Mapping[GroupKind, Resource],
    *,
    but: Collection[Ref] = (),
    ownership: Ownership = Ownership.ADOPTED,
) -> Iterator[InventoryEntry]:
    """Yield an entry for each object in ``objects``, except those in ``but``."""
    for live in objects:
        if live.ref in but:
            continue
        resource = resources[live.ref.group_kind]
        yield InventoryEntry(
            ref=live.ref,
            plural=resource.plural,
            version=resource.version,
            uid_before_apply=live.uid,
            uid=live.uid,
            ownership=ownership,
            wave=wave_of(live.ref.group_kind),
            orphan_reason=orphan_mark(live.metadata),
        )

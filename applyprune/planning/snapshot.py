"""The state of the cluster that a plan is based on.

When the record and the cluster have lost each other: a restored inventory, or none at all.

What bears a set's label and its manager's Apply entry is the set's, but whether the set created it
or adopted it nobody can tell any more. So it is taken back as adopted, which is never deleted
unless somebody says so, and nothing is pruned in the run that takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from applyprune.errors import InventoryError, PruneRefused, as_problem
from applyprune.model.display import and_more
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import LiveObject
from applyprune.planning.annotations import orphan_mark
from applyprune.planning.applyset import PART_OF
from applyprune.planning.order import wave_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.inventory import Inventory
    from applyprune.model.live import LiveObject, State
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Problem
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity


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
    marked: tuple[LiveObject, ...] = ()
    """Objects with the set's label and field manager; read only if there is no inventory."""
    unseen: tuple[str, ...] = ()
    """What could not be read in the search for ``marked``, in words."""


@dataclass(frozen=True, slots=True)
class CascadeContents:
    """What a Namespace or a CRD holds; ``uncounted`` says what could not be read, and why."""

    lives: tuple[LiveObject, ...]
    uncounted: str = ""


# One object that somebody re-created says nothing about the others.
_FEWEST = 2
_SHOWN = 3


def is_restored(inventory: Inventory, world: ClusterSnapshot) -> bool:
    """Return whether the inventory is about other objects than those that are there.

    So it is after a restore from a backup, or in a clone of the cluster: the ConfigMap says so
    itself, or every object that it lists is there under another UID.
    """
    if inventory.copied:
        return True
    uids = [
        (entry.uid, state.uid)
        for ref, entry in inventory.entries.items()
        if entry.uid and isinstance(state := world.states[ref], LiveObject)
    ]
    return len(uids) >= _FEWEST and all(ours != theirs for ours, theirs in uids)


def restored_problem(inventory: Inventory) -> Problem:
    """Return why a restored inventory prunes nothing, and what to do about it."""
    return as_problem(
        PruneRefused(
            "the prune was refused: the inventory is a copy, or was restored from a backup",
            reason="its ConfigMap, or every object that it lists, has another UID than it says",
            hint="To take the objects of now for those that it lists: "
            f"applyprune inventory repair {inventory.name} -n {inventory.namespace} --dry-run",
        )
    )


def recovered_problem(
    entries: Sequence[InventoryEntry], world: ClusterSnapshot, inventory: Inventory
) -> Problem:
    """Return what is to be said of objects that are taken back into a new inventory."""
    seen = ""
    if world.unseen:
        seen = f"; not all could be looked at: {'; '.join(world.unseen[:_SHOWN])}"
    return as_problem(
        InventoryError(
            f"the inventory of the set {inventory.name} is gone, and {len(world.marked)} objects "
            "bear its marks",
            reason=f"they are listed again as adopted, and nothing is pruned in this run{seen}",
            hint=f"{len(entries)} of them are not in the input: a later run orphans these, or "
            "deletes them with --prune-adopted.",
        )
    )


def unlisted_problem(
    desired: Sequence[Desired], inventory: Inventory, world: ClusterSnapshot
) -> Problem | None:
    """Return what is to be said of objects that bear the set's marks and are not listed.

    So is one whose create came to the server when the run that had sent it was dead and forgotten.
    """
    known = {one.ref for one in desired} | inventory.entries.keys()
    uids = {entry.uid for entry in inventory.entries.values()}
    strays = sorted(
        ref
        for ref, state in world.states.items()
        if ref not in known and isinstance(state, LiveObject) and state.uid not in uids
    )
    if not strays:
        return None
    return as_problem(
        InventoryError(
            f"{len(strays)} objects bear the marks of the set {inventory.name}, and its inventory "
            "does not list them",
            reason=and_more(strays, _SHOWN),
            hint="What to do about them: applyprune inventory repair "
            f"{inventory.name} -n {inventory.namespace} --dry-run",
        )
    )


def recorded(
    desired: Sequence[Desired],
    inventory: Inventory,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    *,
    restored: bool,
) -> Mapping[Ref, InventoryEntry]:
    """Return the entry of each desired object, as it is to be understood now.

    An object of a restored inventory that bears the set's label is the listed one, under its new
    UID: a restore leaves no managedFields of ours. One that is listed under another group, by its
    UID, is the same object.
    """
    twins = {entry.uid: entry for entry in inventory.entries.values() if entry.uid}
    found: dict[Ref, InventoryEntry] = {}
    for one in desired:
        entry = inventory.entries.get(one.ref)
        live = world.states[one.ref]
        if isinstance(live, LiveObject):
            if entry is None and (twin := twins.get(live.uid)) is not None:
                plural, version = one.resource.plural, one.resource.version
                entry = replace(
                    twin, ref=one.ref, plural=plural, version=version, fingerprint=None, digest=""
                )
            elif entry is not None and restored and live.labels.get(PART_OF) == target.id:
                entry = replace(entry, uid=live.uid, fingerprint=None)
        if entry is not None:
            found[one.ref] = entry
    return found


def recovered_entries(
    lives: Iterable[LiveObject],
    resources: Mapping[GroupKind, Resource],
    *,
    but: Collection[Ref] = (),
    ownership: Ownership = Ownership.ADOPTED,
) -> Iterator[InventoryEntry]:
    """Yield an entry for each object that bears the set's marks and is not in ``but``."""
    for live in lives:
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

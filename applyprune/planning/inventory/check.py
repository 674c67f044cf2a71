"""The inventory held against the cluster: what differs, and what mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.model.inventory import (
    Inventory,
    InventoryEntry,
    Mismatch,
    MismatchType,
    Ownership,
    Repair,
)
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.planning.applyset import MANAGERS, PART_OF
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import Owner, owner_of
from applyprune.planning.snapshot import is_restored, recovered_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.model.identity import Ref
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.snapshot import ClusterSnapshot


def check(
    inventory: Inventory,
    damage: Sequence[str],
    strays: Sequence[str],
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    *,
    ownership: Ownership,
) -> tuple[Mismatch, ...]:
    """Return every difference; ``world.marked`` are all objects that bear the set's marks.

    ``damage`` says what could not be read of the inventory and ``strays`` names shards that it
    does not. ``ownership`` is how an unlisted object of the set is to be recorded.
    """
    restored = is_restored(inventory, world)
    found: list[Mismatch] = [*_of_inventory(inventory, damage, strays, world, restored=restored)]
    for _, entry in sorted(inventory.entries.items()):
        found.extend(_of_entry(entry, world, target, restored=restored))
    uids = {entry.uid for entry in inventory.entries.values()}
    unlisted = [live for live in world.marked if live.uid not in uids]
    listed = inventory.entries.keys()
    for entry in recovered_entries(unlisted, world.resources, but=listed, ownership=ownership):
        what = f"it has the set's label and field manager; it will be recorded as {ownership}"
        found.append(Mismatch(MismatchType.UNLISTED, Repair.LIST, what, entry.ref, entry))
    found.extend(
        Mismatch(MismatchType.UNKNOWN, Repair.NONE, f"could not be looked at: {what}")
        for what in world.unseen
    )
    return tuple(found)


def repaired(inventory: Inventory, findings: Sequence[Mismatch]) -> Mapping[Ref, InventoryEntry]:
    """Return the entries as they are once every finding has had its remedy."""
    entries = dict(inventory.entries)
    for one in findings:
        if one.ref is None:
            continue
        if one.repair is Repair.UNLIST:
            entries.pop(one.ref, None)
        elif one.repair is Repair.LIST and one.entry is not None:
            entries[one.ref] = one.entry
    return entries


def _of_inventory(
    inventory: Inventory,
    damage: Sequence[str],
    strays: Sequence[str],
    world: ClusterSnapshot,
    *,
    restored: bool,
) -> Iterator[Mismatch]:
    for what in damage:
        yield Mismatch(MismatchType.DAMAGED, Repair.REWRITE, what)
    if not inventory.exists and world.marked:
        what = f"{len(world.marked)} objects bear its marks"
        yield Mismatch(MismatchType.LOST, Repair.REWRITE, what)
    if restored:
        what = "its ConfigMap, or every object that it lists, has another UID than it says"
        yield Mismatch(MismatchType.COPIED, Repair.REWRITE, what)
    for name in strays:
        what = f"configmap/{name} is a shard that the inventory does not name"
        yield Mismatch(MismatchType.STRAY_SHARD, Repair.REWRITE, what)


def _of_entry(
    entry: InventoryEntry, world: ClusterSnapshot, target: ApplySetIdentity, *, restored: bool
) -> Iterator[Mismatch]:
    ref, state = entry.ref, world.states[entry.ref]
    resource = world.resources.get(ref.group_kind)
    if isinstance(state, Unknown):
        yield Mismatch(MismatchType.UNKNOWN, Repair.NONE, str(state.problem), ref)
    elif isinstance(state, Absent):
        if resource is None:
            what = "the server does not know its kind any more, and no CRD defines it"
            yield Mismatch(MismatchType.KIND_GONE, Repair.UNLIST, what, ref)
        elif entry.uid:
            what = "the next run creates it if it is in the input, and otherwise unlists it"
            yield Mismatch(MismatchType.GONE, Repair.NONE, what, ref)
    else:
        yield from _of_live(entry, state, world, target, restored=restored)


def _of_live(
    entry: InventoryEntry,
    live: LiveObject,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    *,
    restored: bool,
) -> Iterator[Mismatch]:
    ref, owner = entry.ref, owner_of(live, entry, target)
    label = live.labels.get(PART_OF, "")
    resource = world.resources.get(ref.group_kind)
    if owner is Owner.OTHER:
        what = f"its label names another set: {label}"
        yield Mismatch(MismatchType.TWO_OWNERS, Repair.UNLIST, what, ref)
    elif owner is Owner.RECORDED and not label:
        if not entry.uid:
            what = "it was to be adopted, and never was"
            yield Mismatch(MismatchType.UNLABELLED, Repair.UNLIST, what, ref)
        elif entry.orphaning and own_apply_entry(live, target.manager) is None:
            what = "it was orphaned, and that was not recorded"
            yield Mismatch(MismatchType.UNLABELLED, Repair.UNLIST, what, ref)
        else:
            what = f"somebody has taken off its label {PART_OF}"
            yield Mismatch(
                MismatchType.UNLABELLED, Repair.MARK, what, ref, live=live, resource=resource
            )
    elif owner is Owner.RECORDED:
        for manager in _other_sets(live, target):
            what = f"it is this set's by its label, and {manager} owns fields of it"
            yield Mismatch(MismatchType.TWO_OWNERS, Repair.NONE, what, ref)
    elif owner is Owner.CLAIMED or (restored and label):
        ownership = entry.ownership if restored else Ownership.ADOPTED
        fresh = replace(
            entry,
            uid=live.uid,
            uid_before_apply=live.uid,
            ownership=ownership,
            digest="",
            fingerprint=None,
        )
        what = f"it was created again and has the set's marks; it will be recorded as {ownership}"
        yield Mismatch(
            MismatchType.OTHER_UID, Repair.LIST, what, ref, fresh, live=live, resource=resource
        )
    elif entry.uid:
        what = "it was created again by somebody else, and bears no mark of the set"
        yield Mismatch(MismatchType.OTHER_UID, Repair.UNLIST, what, ref)


def _other_sets(live: LiveObject, target: ApplySetIdentity) -> Sequence[str]:
    """Return the field managers of other sets that have applied the object."""
    managers = {
        str(one.get("manager", ""))
        for one in live.managed_fields
        if one.get("operation") == "Apply"
    }
    ours = {target.manager, target.yielded}
    return sorted(one for one in managers if one.startswith(MANAGERS) and one not in ours)

"""Compare an inventory with the cluster: the mismatches, and the repair of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import (
    Inventory,
    InventoryEntry,
    Mismatch,
    MismatchType,
    Ownership,
    Repair,
)
from applyprune.model.live import KindDeleted, LiveObject, Missing, Resource, Unknown
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.applyset import (
    GROUP_KINDS,
    MANAGERS,
    OWNED_BY,
    PART_OF,
    ApplySetIdentity,
)
from applyprune.planning.ownership.foreign_label import (
    UNREAD,
    OtherSet,
    is_label_unproven,
    what_is_known,
)
from applyprune.planning.ownership.managed_fields import is_applied
from applyprune.planning.ownership.owner import Owner, has_witness, owner_of, ownership_of
from applyprune.planning.snapshot import (
    ClusterSnapshot,
    is_restored,
    recovered_entries,
    unfounded_orphan_mark,
)
from applyprune.values import replace


def check(
    inventory: Inventory,
    damage: Sequence[str],
    strays: Sequence[str],
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    *,
    ownership: Ownership,
    unserved: Mapping[GroupKind, str],
) -> tuple[Mismatch, ...]:
    """Return every mismatch.

    ``snapshot.marked`` are all objects with the set's label and field manager. ``damage`` are the
    parts of the inventory that could not be read, in words. ``strays`` are shards that the
    inventory does not name. ``ownership`` is how to record an unlisted object. ``unserved`` are
    kinds that only the annotation names and the server does not serve, with the reason to keep
    them there; empty for none.
    """
    restored = is_restored(inventory, snapshot)
    owns = ownership is Ownership.OWNED
    found: list[Mismatch] = [*_of_inventory(inventory, damage, strays, snapshot, restored=restored)]
    for _, entry in sorted(inventory.entries.items()):
        found.extend(_of_entry(entry, snapshot, applyset, restored=restored, owns=owns))
    uids = {entry.uid for entry in inventory.entries.values()}
    unlisted = [live for live in snapshot.marked if live.uid not in uids]
    listed = inventory.entries.keys()
    by_ref = {live.ref: live for live in unlisted}
    for entry in recovered_entries(unlisted, snapshot.resources, but=listed, ownership=ownership):
        message = f"it has the set's label and field manager; it will be recorded as {ownership}"
        found.append(
            Mismatch(
                MismatchType.UNLISTED,
                Repair.LIST,
                message,
                entry.ref,
                entry,
                live=by_ref[entry.ref]
                if owns and not has_witness(by_ref[entry.ref], applyset)
                else None,
                resource=snapshot.resources.get(entry.ref.group_kind),
                owned=owns,
            )
        )
    found.extend(
        Mismatch(MismatchType.UNKNOWN, Repair.NONE, f"could not be read: {message}")
        for message in snapshot.unseen
    )
    found.extend(_of_unserved(unserved))
    return tuple(found)


def unsearched_problem(unseen: str) -> Problem:
    """Return the warning about kinds that were not searched, in groups that the set does not use.

    ``unseen`` says which, and why.
    """
    return Problem(
        ProblemKind.UNAVAILABLE,
        f"not searched for unlisted objects: {unseen}",
        reason="the inventory lists no object of that API group, so this is not a mismatch",
    )


def repaired(inventory: Inventory, mismatches: Sequence[Mismatch]) -> Mapping[Ref, InventoryEntry]:
    """Return the entries after every repair."""
    entries = dict(inventory.entries)
    for mismatch in mismatches:
        if mismatch.ref is None:
            continue
        if mismatch.repair is Repair.UNLIST:
            entries.pop(mismatch.ref, None)
        elif mismatch.repair in {Repair.LIST, Repair.ADOPT} and mismatch.entry is not None:
            entries[mismatch.ref] = mismatch.entry
    return entries


def _of_inventory(
    inventory: Inventory,
    damage: Sequence[str],
    strays: Sequence[str],
    snapshot: ClusterSnapshot,
    *,
    restored: bool,
) -> Iterator[Mismatch]:
    for message in damage:
        yield Mismatch(MismatchType.DAMAGED, Repair.REWRITE, message)
    if not inventory.exists and snapshot.marked:
        message = f"{len(snapshot.marked)} objects have its label and field manager"
        yield Mismatch(MismatchType.LOST, Repair.REWRITE, message)
    if restored:
        message = "its ConfigMap's UID, or every listed UID, differs from the recorded UID"
        yield Mismatch(MismatchType.COPIED, Repair.REWRITE, message)
    for name in strays:
        message = f"configmap/{name} is a shard that the inventory does not name"
        yield Mismatch(MismatchType.STRAY_SHARD, Repair.REWRITE, message)


def _of_unserved(unserved: Mapping[GroupKind, str]) -> Iterator[Mismatch]:
    """Yield the mismatches of kinds that only the annotation of the inventory names."""
    for kind, reason in unserved.items():
        named = f"its annotation {GROUP_KINDS} names {kind}, and no entry has that kind"
        if reason:
            message = f"{named}: {reason}; --allow-partial removes it from the annotation"
            yield Mismatch(MismatchType.UNKNOWN, Repair.NONE, message)
        else:
            message = f"{named}; it will be removed from the annotation"
            yield Mismatch(MismatchType.KIND_GONE, Repair.REWRITE, message)


def _of_entry(
    entry: InventoryEntry,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    *,
    restored: bool,
    owns: bool,
) -> Iterator[Mismatch]:
    ref, state = entry.ref, snapshot.states[entry.ref]
    if isinstance(state, Unknown):
        yield Mismatch(MismatchType.UNKNOWN, Repair.NONE, str(state.problem), ref)
    elif isinstance(state, KindDeleted):
        yield Mismatch(MismatchType.KIND_GONE, Repair.UNLIST, state.reason, ref)
    elif isinstance(state, Missing):
        if entry.uid:
            message = (
                "the next run creates it if it is in the input, or removes it from the inventory"
            )
            yield Mismatch(MismatchType.GONE, Repair.NONE, message, ref)
    else:
        if not restored and (reason := unfounded_orphan_mark(entry, state, applyset)):
            message = f"only the inventory says that it is to be orphaned ({reason})"
            yield Mismatch(MismatchType.TO_ORPHAN, Repair.NONE, message, ref)
        yield from _of_live(entry, state, snapshot, applyset, restored=restored, owns=owns)


def _of_live(
    entry: InventoryEntry,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    *,
    restored: bool,
    owns: bool,
) -> Iterator[Mismatch]:
    ref, owner = entry.ref, owner_of(live, entry, applyset)
    label = live.labels.get(PART_OF, "")
    resource = snapshot.resources.get(ref.group_kind)
    applied = is_applied(live, applyset.manager)
    if is_label_unproven(entry, live, snapshot.others, applyset):
        yield _unproven(entry, live, resource, snapshot.others, applyset)
    elif owner is Owner.OTHER:
        message = f"its label names another set: {label}"
        yield Mismatch(MismatchType.TWO_OWNERS, Repair.UNLIST, message, ref)
    elif owner is Owner.RECORDED and not label:
        if not entry.uid:
            message = "its adoption did not happen"
            yield Mismatch(MismatchType.UNLABELLED, Repair.UNLIST, message, ref)
        elif entry.orphaning and not applied:
            message = "it was orphaned, but that was not recorded"
            yield Mismatch(MismatchType.UNLABELLED, Repair.UNLIST, message, ref)
        elif not applied:  # guard: unmarked-stays-unmarked
            message = "it has neither the set's label nor its field manager: the inventory alone "
            message += "says that it belongs to the set"
            yield Mismatch(MismatchType.UNLABELLED, Repair.NONE, message, ref)
        else:
            message = f"somebody has removed its label {PART_OF}"
            yield Mismatch(
                MismatchType.UNLABELLED, Repair.MARK, message, ref, live=live, resource=resource
            )
    elif owner is Owner.RECORDED:
        yield from _of_member(entry, live, resource, applyset, owns=owns)
    elif label and (applied or restored or entry.uid):
        ownership = Ownership.OWNED if owns else Ownership.ADOPTED
        if restored and has_witness(live, applyset):
            ownership = entry.ownership
        fresh = replace(
            entry,
            uid=live.uid,
            uid_before_apply=live.uid,
            ownership=ownership,
            digest="",
            fingerprint=None,
        )
        message = f"it was recreated with the set's label; it will be recorded as {ownership}"
        yield Mismatch(
            MismatchType.OTHER_UID,
            Repair.LIST,
            message,
            ref,
            fresh,
            live=live,
            resource=resource,
            owned=owns,
        )
    elif entry.uid:
        yield _recreated(ref, applied=applied)


def _of_member(
    entry: InventoryEntry,
    live: LiveObject,
    resource: Resource | None,
    applyset: ApplySetIdentity,
    *,
    owns: bool,
) -> Iterator[Mismatch]:
    """Yield the mismatches of the listed object, which has the set's label."""
    for manager in _other_sets(live, applyset):
        message = f"it has this set's label, but {manager} owns some of its fields"
        yield Mismatch(MismatchType.TWO_OWNERS, Repair.NONE, message, entry.ref)
    if entry.uid and ownership_of(entry, live, applyset) is not entry.ownership:
        yield _without_witness(entry, live, resource, owns=owns)
    elif entry.uid and not is_applied(live, applyset.manager):
        message = f"{applyset.manager} is not among its field managers; the next apply with it in "
        message += "the input adds it again"
        yield Mismatch(MismatchType.NOT_APPLIED, Repair.NONE, message, entry.ref)


def _recreated(ref: Ref, *, applied: bool) -> Mismatch:
    """Return the mismatch of another object of that name, without the set's label."""
    kept = "label" if applied else "label and field manager"
    message = f"somebody else has recreated it, without the set's {kept}"
    repair = Repair.NONE if applied else Repair.UNLIST
    return Mismatch(MismatchType.OTHER_UID, repair, message, ref)


def _unproven(
    entry: InventoryEntry,
    live: LiveObject,
    resource: Resource | None,
    others: Mapping[str, OtherSet],
    applyset: ApplySetIdentity,
) -> Mismatch:
    """Return the mismatch of an object of ours whose label names a set that does not list it.

    The label is never taken from a set that could not be read, nor by a record alone.
    """
    label = live.labels.get(PART_OF, "")
    message = f"its label is {label}, and {what_is_known(label, others)}"
    applied = is_applied(live, applyset.manager)
    is_safe = applied and entry.uid == live.uid and others.get(label, UNREAD).is_read
    repair = Repair.MARK if is_safe else Repair.NONE
    kind = MismatchType.TWO_OWNERS
    return Mismatch(kind, repair, message, entry.ref, live=live, resource=resource)


def _without_witness(
    entry: InventoryEntry, live: LiveObject, resource: Resource | None, *, owns: bool
) -> Mismatch:
    """Return the mismatch of an object that the inventory alone says the set created."""
    message = f"it is listed as owned, but it has no annotation {OWNED_BY} of this set"
    return Mismatch(
        MismatchType.NO_WITNESS,
        Repair.OWN if owns else Repair.ADOPT,
        message,
        entry.ref,
        replace(entry, ownership=Ownership.ADOPTED),
        live=live if owns else None,
        resource=resource,
        owned=owns,
    )


def _other_sets(live: LiveObject, applyset: ApplySetIdentity) -> Sequence[str]:
    """Return the field managers of other sets that have applied the object."""
    managers = {
        str(entry.get("manager", ""))
        for entry in live.managed_fields
        if entry.get("operation") == "Apply"
    }
    ours = {applyset.manager, applyset.yielded}
    return sorted(name for name in managers if name.startswith(MANAGERS) and name not in ours)

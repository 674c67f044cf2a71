"""The state that a plan is based on; the repair of a lost, copied or edited inventory.

An object with a set's label and its manager's Apply entry belongs to the set, but without the
inventory it is unknown whether the set created or adopted it. So it is recorded as adopted, and an
adopted object is never deleted unless the user says so. The run that records it prunes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.errors import (
    ApplypruneError,
    InventoryError,
    InventoryLocked,
    PruneRefused,
    RunFailed,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import (
    HolderObservation,
    Inventory,
    InventoryEntry,
    Mismatch,
    MismatchType,
    Ownership,
    Repair,
)
from applyprune.model.kinds import AUTOSCALER, HOLDERS, IN_EACH_NAMESPACE
from applyprune.model.live import (
    Absent,
    KindDeleted,
    LiveObject,
    Missing,
    Resource,
    Unknown,
)
from applyprune.model.options import Mode
from applyprune.model.plan import Desired
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import (
    MANAGERS,
    OWNED_BY,
    PART_OF,
    SET_ID,
    SHARD_OF,
    ApplySetIdentity,
)
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.marks import leave_mark, orphan_mark
from applyprune.planning.order import wave_of
from applyprune.planning.own_namespace import HOLDS_INVENTORY
from applyprune.planning.ownership import (
    UNREAD,
    Owner,
    fingerprint_of,
    foreign_label,
    foreign_owner,
    has_witness,
    is_label_unproven,
    is_marked,
    label_problem,
    other_owner,
    other_set,
    owned_by_tool,
    owned_fields_of,
    owner_of,
    ownership_of,
    same_apply_entry,
    what_is_known,
)
from applyprune.planning.uids import is_among, known_as, uid_in
from applyprune.planning.world import World
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.plan import ApplyStep, Plan


CHANGING = -1
"""The generation of a CRD that the run is about to change: nothing was applied under it yet."""
_SHOWN = 3
# A single recreated object says nothing about the others.
_FEWEST = 2


def current_entries(world: World, *, restored: bool) -> Mapping[Ref, InventoryEntry]:
    """Return the current entry of each desired object.

    With a restored inventory, an object with the set's label is the listed object with a new UID:
    a restore removes our managedFields. An object that is listed with the same UID under another
    group is the same object.
    """
    listed = world.inventory.entries
    twins: dict[str, InventoryEntry] | None = None
    found: dict[Ref, InventoryEntry] = {}
    for member in world.desired:
        entry = listed.get(member.ref)
        if (live := world.live(member.ref)) is not None:
            if entry is None and twins is None:
                twins = {uid_in(ref.group, one.uid): one for ref, one in listed.items() if one.uid}
            if entry is None and (twin := (twins or {}).get(known_as(live, twins or ()))):
                plural, version = member.resource.plural, member.resource.version
                entry = replace(
                    twin,
                    ref=member.ref,
                    plural=plural,
                    version=version,
                    fingerprint=None,
                    digest="",
                )
            elif entry is not None and restored and live.labels.get(PART_OF) == world.applyset.id:
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


def recovered_problem(entries: Sequence[InventoryEntry], world: World) -> Problem:
    """Return the warning about objects that are recorded in a new inventory.

    ``entries`` are those that are not in the input.
    """
    seen = ""
    if world.unseen:
        seen = f"; some could not be read: {'; '.join(world.unseen[:_SHOWN])}"
    applyset = world.applyset
    marked = sorted(live.ref for live in world.marked)
    hints = [f"To make these prunable again: {owning_command(applyset, marked)}"]
    if entries:
        hints.append(
            f"{len(entries)} of them are not in the input: the next run orphans these, or "
            "deletes them with --prune-also adopted."
        )
    return InventoryError(
        f"the inventory of the set {applyset.name} was lost, and {len(world.marked)} "
        "objects have its label and field manager",
        reason=f"they are recorded again as adopted, and this run prunes nothing{seen}",
        hint="\n  ".join(hints),
    ).problem


def is_restored(world: World) -> bool:
    """Return whether the inventory lists other objects than the live ones.

    This happens after a restore from a backup, or in a clone of the cluster. Then the UID in the
    ConfigMap's header is wrong, or every listed object has another UID.
    """
    if world.inventory.copied:
        return True
    uids = [(entry.uid, live.uid) for entry, live in world.recorded if entry.uid]
    return len(uids) >= _FEWEST and all(ours != theirs for ours, theirs in uids)


def restored_problem(inventory: Inventory, mode: Mode = Mode.APPLY) -> Problem:
    """Return the problem that a restored inventory prunes nothing, and what to do."""
    return PruneRefused(
        f"the {mode.removal} was refused: the inventory is a copy, or was restored from a backup",
        reason="its ConfigMap's UID, or every listed UID, differs from the recorded UID",
        hint="To record the current objects instead: "
        f"applyprune inventory repair {inventory.name} -n {inventory.namespace} --dry-run",
    ).problem


def unlisted(world: World) -> Sequence[Ref]:
    """Return the objects with the set's label and field manager that are not listed."""
    listed = world.inventory.entries
    known = {member.ref for member in world.desired} | listed.keys()
    found = [
        state
        for ref, state in world.states.items()
        if ref not in known and isinstance(state, LiveObject)
    ]
    uids = _listed_uids(world) if found else ()
    return sorted(live.ref for live in found if not is_among(live, uids))


def _listed_uids(world: World) -> Collection[str]:
    return {uid_in(ref.group, entry.uid) for ref, entry in world.inventory.entries.items()}


def unlisted_problem(world: World) -> Problem | None:
    """Return a warning about unlisted objects with the set's label and field manager.

    For example, a create request may reach the server after its run was killed, or somebody may
    have removed entries from the inventory.
    """
    strays = unlisted(world)
    unread = f"not searched: {'; '.join(world.unseen[:_SHOWN])}" if world.unseen else ""
    if not strays:
        return None
    applyset = world.applyset
    return InventoryError(
        f"{counted(len(strays), 'object', 'has', 'have')} the label and field manager of the set "
        f"{applyset.name}, but are not in its inventory",
        reason="; ".join(part for part in (and_more(strays, _SHOWN), unread) if part),
        hint="To see how to repair this: applyprune inventory repair "
        f"{applyset.arguments} --dry-run",
    ).problem


def may_lose_objects(world: World) -> bool:
    """Return whether a removal of the whole set may lose unlisted objects that are its own.

    A run lists an object, and with it the namespace, before it creates the object. In a namespace
    that the inventory does not name, anybody else may have made one that looks like the set's.
    """
    inventory = world.inventory
    places = {ref.namespace for ref in inventory.entries} | inventory.hinted_namespaces
    places |= {inventory.namespace, ""}
    # guard: look-alike -> bool(world.unseen) or any(True for _ in unlisted(world))
    return bool(world.unseen) or any(ref.namespace in places for ref in unlisted(world))


def to_orphan_problem(world: World) -> Problem | None:
    """Return a warning about entries that only the inventory marks to be orphaned.

    An apply removes the marks of what it applies.
    """
    applies = world.options.mode is Mode.APPLY
    applied = {member.ref for member in world.desired if applies}
    marked = sorted(
        entry.ref
        for entry, live in world.recorded
        if entry.ref not in applied and unfounded_orphan_mark(entry, live, world.applyset)
    )
    if not marked:
        return None
    return InventoryError(
        f"the inventory of the set {world.applyset.name} says that "
        f"{counted(len(marked), 'object', 'is', 'are')} to be "
        "orphaned, and nothing on the objects says so",
        reason=and_more(marked, _SHOWN),
        hint="An interrupted run, or somebody who has edited the inventory, has marked them. "
        "An apply with them in the input removes the mark.",
    ).problem


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


# The mismatches between an inventory and the cluster, and the repair of each.


def find_mismatches(
    world: World, damage: Sequence[str], strays: Sequence[str], *, ownership: Ownership
) -> tuple[Mismatch, ...]:
    """Return every mismatch.

    ``world.marked`` are all objects with the set's label and field manager. ``damage`` are the
    parts of the inventory that could not be read, in words. ``strays`` are shards that the
    inventory does not name. ``ownership`` is how to record an unlisted object.
    """
    restored = is_restored(world)
    owns = ownership is Ownership.OWNED
    found: list[Mismatch] = [*_of_inventory(world, damage, strays, restored=restored)]
    entries = world.inventory.entries
    for _, entry in sorted(entries.items()):
        found.extend(_of_entry(entry, world, restored=restored, owns=owns))
    uids = _listed_uids(world)
    unlisted = {live.ref: live for live in world.marked if not is_among(live, uids)}
    kinds = world.resources
    message = f"it has the set's label and field manager; it will be recorded as {ownership}"
    for entry in recovered_entries(unlisted.values(), kinds, but=entries, ownership=ownership):
        live = unlisted[entry.ref]
        mismatch = Mismatch(MismatchType.UNLISTED, Repair.LIST, message, entry.ref, entry)
        if owns and not has_witness(live, world.applyset):
            resource = kinds[entry.ref.group_kind]
            mismatch = replace(mismatch, live=live, resource=resource, owned=True)
        found.append(mismatch)
    found.extend(
        Mismatch(MismatchType.UNKNOWN, Repair.NONE, f"could not be read: {message}")
        for message in world.unseen
    )
    return tuple(found)


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


def unsearched_problem(unseen: str) -> Problem:
    """Return the warning about kinds that were not searched, in groups that the set does not use.

    ``unseen`` says which, and why.
    """
    return Problem(
        ProblemKind.UNAVAILABLE,
        f"not searched for unlisted objects: {unseen}",
        reason="the inventory lists no object of that API group, so this is not a mismatch",
    )


def _of_inventory(
    world: World, damage: Sequence[str], strays: Sequence[str], *, restored: bool
) -> Iterator[Mismatch]:
    for message in (*world.inventory.root.faults, *damage):
        yield Mismatch(MismatchType.DAMAGED, Repair.REWRITE, message)
    if not world.inventory.exists and world.marked:
        message = (
            f"{counted(len(world.marked), 'object', 'has', 'have')} its label and field manager"
        )
        yield Mismatch(MismatchType.LOST, Repair.REWRITE, message)
    if restored:
        message = "its ConfigMap's UID, or every listed UID, differs from the recorded UID"
        yield Mismatch(MismatchType.COPIED, Repair.REWRITE, message)
    for name in strays:
        message = f"configmap/{name} is a shard that the inventory does not name"
        yield Mismatch(MismatchType.STRAY_SHARD, Repair.REWRITE, message)


def _of_entry(
    entry: InventoryEntry, world: World, *, restored: bool, owns: bool
) -> Iterator[Mismatch]:
    ref, state = entry.ref, world.states[entry.ref]
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
        if not restored and (reason := unfounded_orphan_mark(entry, state, world.applyset)):
            message = f"only the inventory says that it is to be orphaned ({reason})"
            yield Mismatch(MismatchType.TO_ORPHAN, Repair.NONE, message, ref)
        resource = world.resources.get(ref.group_kind)
        for found in _of_live(entry, state, world, restored=restored, owns=owns):
            if found.repair in _WRITING:
                owned = owns and found.repair is not Repair.MARK
                yield replace(found, live=state, resource=resource, owned=owned)
            else:
                yield found


_WRITING = {Repair.LIST, Repair.MARK, Repair.OWN}
"""The repairs of a listed object that write to it."""


def _of_live(
    entry: InventoryEntry, live: LiveObject, world: World, *, restored: bool, owns: bool
) -> Iterator[Mismatch]:
    applyset = world.applyset
    ref, owner = entry.ref, owner_of(live, entry, applyset)
    label, applied = live.labels.get(PART_OF, ""), is_applied(live, applyset.manager)
    if is_label_unproven(entry, live, world.others, applyset):
        # The label is never taken from a set that could not be read, nor by a record alone.
        is_read = world.others.get(label, UNREAD).is_read
        repair = Repair.MARK if applied and entry.uid == live.uid and is_read else Repair.NONE
        message = f"its label is {label}, and {what_is_known(label, world.others)}"
        yield Mismatch(MismatchType.TWO_OWNERS, repair, message, ref)
    elif owner is Owner.OTHER:
        message = f"its label names another set: {label}"
        yield Mismatch(MismatchType.TWO_OWNERS, Repair.UNLIST, message, ref)
    elif owner is Owner.RECORDED and label:
        yield from _of_member(entry, live, applyset, owns=owns)
    elif owner is Owner.RECORDED:
        yield _of_unlabelled(entry, applied=applied)
    elif label and (applied or restored or entry.uid):
        ownership = Ownership.OWNED if owns else Ownership.ADOPTED
        if restored and has_witness(live, applyset):
            ownership = entry.ownership
        fresh = replace(entry, uid=live.uid, uid_before_apply=live.uid, ownership=ownership)
        fresh = replace(fresh, digest="", fingerprint=None)
        message = f"it was recreated with the set's label; it will be recorded as {ownership}"
        yield Mismatch(MismatchType.OTHER_UID, Repair.LIST, message, ref, fresh)
    elif entry.uid:
        marks = "label" if applied else "label and field manager"
        message = f"somebody else has recreated it, without the set's {marks}"
        repair = Repair.NONE if applied else Repair.UNLIST
        yield Mismatch(MismatchType.OTHER_UID, repair, message, ref)


def _of_unlabelled(entry: InventoryEntry, *, applied: bool) -> Mismatch:
    repair, message = Repair.MARK, f"somebody has removed its label {PART_OF}"
    if not entry.uid:
        repair, message = Repair.UNLIST, "its adoption did not happen"
    elif entry.orphaning and not applied:
        repair, message = Repair.UNLIST, "it was orphaned, but that was not recorded"
    elif not applied:  # guard: unmarked-stays-unmarked never
        repair = Repair.NONE
        message = "it has neither the set's label nor its field manager: the inventory alone "
        message += "says that it belongs to the set"
    return Mismatch(MismatchType.UNLABELLED, repair, message, entry.ref)


def _of_member(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity, *, owns: bool
) -> Iterator[Mismatch]:
    """Yield the mismatches of the listed object, which has the set's label."""
    managers = {one.manager for one in live.writers if one.operation == "Apply"}
    for manager in sorted(managers - {applyset.manager, applyset.yielded}):
        if manager.startswith(MANAGERS):
            message = f"it has this set's label, but {manager} owns some of its fields"
            yield Mismatch(MismatchType.TWO_OWNERS, Repair.NONE, message, entry.ref)
    if entry.uid and ownership_of(entry, live, applyset) is not entry.ownership:
        message = f"it is listed as owned, but it has no annotation {OWNED_BY} of this set"
        repair = Repair.OWN if owns else Repair.ADOPT
        adopted = replace(entry, ownership=Ownership.ADOPTED)
        yield Mismatch(MismatchType.NO_WITNESS, repair, message, entry.ref, adopted)
    elif entry.uid and not is_applied(live, applyset.manager):
        message = f"{applyset.manager} is not among its field managers; the next apply with it in "
        message += "the input adds it again"
        yield Mismatch(MismatchType.NOT_APPLIED, Repair.NONE, message, entry.ref)


# Which objects of a set become owned, so that a later prune may delete them.
#
# A prune deletes what the inventory and the annotation on the object both call owned. The
# annotation is written first: if the run dies in between, the object still counts as adopted.


GONE = "it is gone"


def why_gone(entry: InventoryEntry) -> str:
    """Return why an object that does not exist leaves the inventory."""
    return GONE if entry.uid else "it does not exist, and no apply of it was confirmed"


class OwnStep(Struct, frozen=True):
    """What is done to one object that becomes owned."""

    entry: InventoryEntry
    resource: Resource | None
    """The endpoint; None if the kind is not served."""
    outcome: Outcome = Outcome.FAILED
    live: LiveObject | None = None
    reason: str = ""
    """Why nothing is sent; empty if that needs no reason."""
    problem: Problem | None = None
    """Why it is refused."""
    is_due: bool = False
    """Whether a patch must be sent for that."""


def own_step(entry: InventoryEntry, world: World) -> OwnStep:
    """Decide about one entry that is to become owned."""
    state, resource = world.states[entry.ref], world.resources.get(entry.ref.group_kind)
    applyset = world.applyset
    if isinstance(state, Absent | KindDeleted):
        return OwnStep(entry, resource, Outcome.SKIPPED, reason=why_gone(entry))
    if isinstance(state, Unknown):
        return OwnStep(entry, resource, problem=state.problem)
    if not isinstance(state, LiveObject) or resource is None:
        unknown = _refused(entry, "it is unknown whether it exists")
        return OwnStep(entry, resource, problem=unknown)
    problem = _ownership_problem(entry, state, world)  # guard: own-only-ours -> None
    if problem is not None:
        return OwnStep(entry, resource, live=state, problem=problem)
    if ownership_of(entry, state, applyset) is Ownership.OWNED:
        return OwnStep(entry, resource, Outcome.UNCHANGED, state, "it is owned already")
    return OwnStep(entry, resource, Outcome.UPDATED, state, is_due=True)


def _ownership_problem(entry: InventoryEntry, live: LiveObject, world: World) -> Problem | None:
    applyset = world.applyset
    if live.terminating:
        return _refused(entry, "it is being deleted")
    if (entry.ref.group_kind, entry.ref.name) in IN_EACH_NAMESPACE:  # guard: own-no-defaults never
        return _refused(entry, "a controller creates it in each Namespace")
    if mark := leave_mark(live.metadata):  # guard: own-nothing-left-alone never
        return _refused(entry, f"it is marked {mark}")
    if (problem := label_problem(entry, live, world.others, applyset)) is not None:
        return problem
    if reason := _not_ours(entry, live, applyset):
        check = f"applyprune inventory check {applyset.arguments}"
        return _refused(entry, reason, f"See: {check}")
    tool = owned_by_tool(live, applyset)
    managed = f"it belongs to {tool}" if tool else other_owner(entry, live, applyset)
    hint = "If that tool no longer manages it, remove its mark, or its entry in managedFields."
    return _refused(entry, managed, hint) if managed else None


def _refused(entry: InventoryEntry, reason: str, hint: str = "") -> Problem:
    return RunFailed(f"{entry.ref} did not become owned", reason=reason, hint=hint).problem


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


def owning_command(applyset: ApplySetIdentity, refs: Sequence[Ref]) -> str:
    """Return the command that makes objects owned; it names them if they are few."""
    named = " ".join(ref.short for ref in refs) if len(refs) <= _SHOWN else "KIND/NAME…"
    return f"applyprune inventory repair {applyset.arguments} --record-as owned {named}"


def owned_text(stays: str) -> str:
    """Return what the run says of an object that becomes owned.

    ``stays`` says why it stays all the same; empty if a later prune deletes it.
    """
    if stays == HOLDS_INVENTORY:
        return f"as owned; only a delete of the whole set deletes it: {stays}"
    if stays:
        return f"as owned; a later prune or delete orphans it: {stays}"
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


# Whether the drift of single objects can be reverted without a look at the whole set.


def part_to_correct(
    inventory: Inventory,
    refs: Collection[Ref],
    desired: Iterable[Desired],
    kinds: Collection[GroupKind],
) -> Inventory:
    """Return the inventory with only the entries of the objects to correct.

    ``desired`` are those of the input, and ``kinds`` the kinds of the whole input. Raises
    WholeSetNeeded if one of them may be more than a listed object with drift.
    """
    entries = {ref: entry for ref, entry in inventory.entries.items() if ref in refs}
    is_sound = inventory.exists and not inventory.copied
    # An autoscaler of the input counts even while it is missing, but it is not read here.
    is_scaled = AUTOSCALER in kinds
    applied = {member.ref for member in desired}
    is_listed = entries.keys() == applied == set(refs) and all(e.uid for e in entries.values())
    holds_others = any(ref.group_kind in HOLDERS for ref in refs)
    if is_scaled or holds_others or not (is_sound and is_listed):
        raise WholeSetNeeded("the whole set must be looked at")  # guard: correction-of-listed
    return replace(inventory, entries=entries)


def refuse_beyond_drift(plan: Plan) -> None:
    """Raise WholeSetNeeded if a plan to correct drift would do more than that."""
    if plan.restored or not all(map(_only_corrects, plan.applies)):
        raise WholeSetNeeded("more than drift was found")  # guard: only-drift


def _only_corrects(step: ApplyStep) -> bool:
    if step.problem is not None:
        return False
    writes = step.fate in {Fate.CHANGE, Fate.CREATE}
    return step.fate is Fate.LEAVE or (writes and step.is_reapplied)


class WholeSetNeeded(ApplypruneError):
    """More than the drift of single objects is to be decided; nothing was written."""


# Who holds an inventory: other tools after its deletion, or another run.


def held_inventory(inventory: Inventory, finalizers: Iterable[str]) -> Problem:
    """Return the warning about a deleted inventory that still exists, and what to do about it."""
    ref = ApplySetIdentity(inventory.name, inventory.namespace).inventory
    return Problem(
        ProblemKind.HELD_INVENTORY,
        f"the inventory of the set {inventory.name} is deleted but not gone yet",
        location=str(ref),
        reason=f"other tools hold it by the finalizers: {', '.join(finalizers)}",
        hint="It no longer lists any object. Until these tools remove their finalizers, the set "
        "cannot be applied again.",
    )


def marks_not_stored(inventory: Inventory) -> InventoryError:
    """Return the error for an inventory that was stored without its label or annotations."""
    applyset = ApplySetIdentity(inventory.name, inventory.namespace)
    return InventoryError(
        f"the inventory of the set {inventory.name} was not stored as it was sent",
        location=str(applyset.inventory),
        reason="; ".join(inventory.root.faults),
        hint="An admission webhook or policy has probably removed that. Let it except "
        f"{applyset.inventory.short}. Then set it again: applyprune inventory repair "
        f"{applyset.arguments}",
    )


def locked_error(
    inventory: Inventory, seen: HolderObservation, watched: float, *, is_alive: bool
) -> InventoryLocked:
    """Return the error of a run that has watched the holder for some seconds, and ends.

    ``is_alive`` says whether it has seen a renewal. After a single look (``watched`` is zero) the
    error contains no time, so that the next look says the same.
    """
    holder, does = seen.holder, "holds the lock"
    if is_alive:
        does = "took or renewed the lock during this wait"
    elif watched:
        does = f"holds the lock, and has not renewed it in the {watched:.1f} s of this wait"
    error = InventoryLocked(
        f"the set {inventory.name} is locked by another run",
        reason=f"{holder.who}, run {holder.run}, {does}",
        hint="Wait for it to end, or wait longer: lock-timeout in applyprune.yaml. A run that has "
        f"crashed loses the lock when it has not renewed it for {holder.lease:g} seconds.",
    )
    error.observation = seen
    return error

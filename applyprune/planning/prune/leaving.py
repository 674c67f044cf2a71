"""Decide about everything that has left the set: the steps of a prune, and its guards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import CRD, GUARDED_KINDS, NAMESPACE, LiveObject
from applyprune.model.options import Approval, Mode, Options
from applyprune.model.plan import ApplyRule, Desired, Fate, Removals, RemoveStep
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.inventory.selection import selected
from applyprune.planning.ownership.owner import (
    Owner,
    is_marked,
    owner_of,
)
from applyprune.planning.prune.cascade import NOTHING, Cascade, Cascades, cascade_of
from applyprune.planning.prune.guarded_prune import GuardedPrune
from applyprune.planning.prune.guards import check_guards, hinted, refusal_of
from applyprune.planning.prune.removal import remove_step
from applyprune.planning.snapshot import ClusterSnapshot
from applyprune.values import replace


def remove_steps(
    entries: Iterable[InventoryEntry],
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    desired: Sequence[Desired],
    listed: Mapping[Ref, InventoryEntry],
    empty_inputs: Sequence[str] = (),
    left_out: Collection[Ref] = (),
) -> tuple[Removals, Removals | None]:
    """Decide about the entries that have left the set, and about the prune as a whole.

    A refused prune comes with what it becomes if exactly its deletions are approved; else None.
    ``desired`` are the objects of the input: two groups may serve the same object, and a desired
    object must not be deleted with its Namespace or CRD. ``listed`` are all entries of the
    inventory. ``empty_inputs`` are the parts of the input without an object, and ``left_out`` its
    chart hooks: nothing is done with them. A Namespace or CRD is refused if it contains objects
    that this prune does not delete itself.
    """
    wanted, released = _uids(desired, snapshot), _released(desired)
    members = [member for member in desired if member.ref not in released]
    kept = _decided(
        entries,
        snapshot,
        applyset,
        options,
        wanted=wanted,
        left_out=left_out,
        released=released,
    )
    deleting = {step.live.uid for step in kept if step.fate is Fate.PRUNE and step.live is not None}
    staying = (_known(listed, snapshot, applyset) | wanted) - deleting  # guard: listed-stays
    found = _cascades(snapshot, deleting, staying, applyset.manager)
    cascades = Cascades(found, listed, _coming(desired, kept, snapshot, wanted))
    steps = [replace(step, cascade=cascades.roots(step)) for step in kept]
    steps.sort(key=lambda step: step.entry.wave, reverse=True)
    # Nothing has left a set of which only a part is applied, whatever that part is.
    if not options.prune.enabled or options.applies_part:
        return Removals(tuple(steps)), None
    refs = {member.ref for member in members}
    own = _own(listed, snapshot, applyset) if deleting else {}
    own_uids = {live.uid for live in own.values()}
    shares = not (refs.isdisjoint(listed) and _uids(members, snapshot).isdisjoint(own_uids))
    passing = {member.ref for member in desired if member.has_ttl}
    prune = GuardedPrune(
        steps=steps,
        cascades=cascades,
        listed=listed,
        own={
            ref: live.uid
            for ref, live in own.items()
            if live.uid in deleting or (ref not in passing and _lasts(live, applyset))
        },
        desired={member.ref for member in desired},
        shares=shares or any(ref in listed for ref in left_out),
        empty=empty_inputs if desired else ("the input",),
        options=options,
    )
    return _guarded(prune)


def _known(
    entries: Mapping[Ref, InventoryEntry], snapshot: ClusterSnapshot, applyset: ApplySetIdentity
) -> set[str]:
    """Return the UIDs of the listed objects, but for those that somebody else has recreated.

    Their owners may make these, so they count like what nobody lists.
    """
    states = ((entry, snapshot.states[ref]) for ref, entry in entries.items())
    return {
        state.uid
        for entry, state in states
        if isinstance(state, LiveObject)
        and owner_of(state, entry, applyset) in {Owner.RECORDED, Owner.OTHER}
    }


def _cascades(
    snapshot: ClusterSnapshot, deleting: Collection[str], staying: Collection[str], manager: str
) -> Mapping[Ref, Cascade]:
    """Return the cascade of each object that has any.

    ``deleting`` and ``staying`` have UIDs. What must stay counts, whatever owns it.
    """
    contents = snapshot.contents
    dependants = {
        ref: replace(
            owned,
            objects=tuple(
                live
                for live in owned.objects
                if live.uid in staying or live.ref.group_kind in GUARDED_KINDS
            ),
        )
        for ref, owned in snapshot.dependants.items()
    }
    return {
        ref: cascade_of(
            contents.get(ref, NOTHING),
            deleting,
            manager,
            dependants.get(ref, NOTHING),
            staying,
        )
        for ref in {*contents, *dependants}
    }


def without_other_uid(step: RemoveStep) -> RemoveStep:
    """Return the step of a restored set, in which every UID differs: that is one problem."""
    if step.fate is not Fate.REFUSE or step.live is None or step.live.uid == step.entry.uid:
        return step
    return replace(step, fate=Fate.LEAVE, reason="it was restored", problem=None)


def left_entries(
    desired: Sequence[Desired], inventory: Inventory, snapshot: ClusterSnapshot, options: Options
) -> list[InventoryEntry]:
    """Return the entries that have left the set: none if the input is only a part of the set.

    An object that must exist, but does not belong to the set, leaves it too: it is orphaned.
    """
    if options.applies_part:  # guard: part-of-input
        return []
    wanted = {member.ref: member for member in desired}
    left: list[InventoryEntry] = []
    for entry in selected(inventory, snapshot.states, options):
        member = wanted.get(entry.ref)
        if member is None:
            left.append(entry)
        elif member.apply is ApplyRule.EXISTS and isinstance(
            snapshot.states[entry.ref], LiveObject
        ):
            # guard: released-is-orphaned
            left.append(replace(entry, orphan_reason=member.apply_mark))
    return left


def _released(desired: Iterable[Desired]) -> frozenset[Ref]:
    """Return the objects of the input that do not belong to the set."""
    return frozenset(member.ref for member in desired if member.apply is ApplyRule.EXISTS)


def objects_to_prune(
    entries: Iterable[InventoryEntry],
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    desired: Sequence[Desired],
    left_out: Collection[Ref],
) -> Sequence[LiveObject]:
    """Return the objects that a prune would delete, before any guard; none if it may not run."""
    if not options.prune.enabled:
        return ()
    wanted, released = _uids(desired, snapshot), _released(desired)
    steps = _decided(
        entries, snapshot, applyset, options, wanted=wanted, left_out=left_out, released=released
    )
    return [step.live for step in steps if step.fate is Fate.PRUNE and step.live is not None]


def _uids(desired: Iterable[Desired], snapshot: ClusterSnapshot) -> set[str]:
    """Return the UIDs of the desired objects that exist."""
    states = (snapshot.states[member.ref] for member in desired)
    return {state.uid for state in states if isinstance(state, LiveObject)}


def _decided(
    entries: Iterable[InventoryEntry],
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    wanted: Collection[str],
    left_out: Collection[Ref],
    released: Collection[Ref],
) -> Sequence[RemoveStep]:
    """Decide about each entry that has left the set, before any guard.

    ``released`` are the objects of the input that do not belong to the set.
    """
    # Only an apply lists the object under its new group; until then the old entry must stay.
    fate = Fate.REMOVE_FROM_INVENTORY if options.mode is Mode.APPLY else Fate.LEAVE
    decided = (remove_step(entry, snapshot, applyset, options) for entry in entries)
    settled = [
        step
        if step.entry.ref in released
        else _unless_hook(_unless_wanted(step, wanted, fate), left_out)
        for step in decided
    ]
    return _each_once(sorted(settled, key=lambda step: step.entry.ref))  # guard: object-once


def _guarded(prune: GuardedPrune) -> tuple[Removals, Removals | None]:
    """Return what the guards leave of a prune, and what an approval of a refused one leaves."""
    allowed, cascades = prune.options.prune.allow_cascade, prune.cascades
    judged = _judged(prune, allowed)
    if judged.refusal is None:
        return judged, None
    # A cascade that could not be counted is not approved: the digest does not contain it.
    refs = (step.entry.ref for step in prune.steps)
    counted = {ref.short for ref in refs if cascades.is_counted(ref)}
    lifted = _judged(replace(prune, approved=True), allowed | counted)
    # An approval of the whole plan covers its deletions too.
    if prune.options.approval is Approval.ALWAYS:
        return lifted, None
    return judged, lifted


def _judged(prune: GuardedPrune, allow_cascade: Collection[str]) -> Removals:
    refused = [_with_cascade(step, prune.cascades, allow_cascade) for step in prune.steps]
    prune = replace(prune, steps=refused)
    results = check_guards(prune)
    refusal = refusal_of(prune, results)
    return Removals(hinted(prune, refusal), results, refusal)


def _own(
    entries: Mapping[Ref, InventoryEntry], snapshot: ClusterSnapshot, applyset: ApplySetIdentity
) -> Mapping[Ref, LiveObject]:
    """Return the set's own live objects, owned or adopted."""
    states = ((entry, snapshot.states[ref]) for ref, entry in entries.items())
    return {
        entry.ref: state
        for entry, state in states
        if isinstance(state, LiveObject) and owner_of(state, entry, applyset) is Owner.RECORDED
    }


def _lasts(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object that this prune leaves alone counts in the size of the set.

    One that is being deleted, or has lost the set's label or field manager, says nothing of it.
    """
    return not live.terminating and is_marked(live, applyset)  # guard: own-live-objects


def _coming(
    desired: Iterable[Desired],
    steps: Iterable[RemoveStep],
    snapshot: ClusterSnapshot,
    wanted: Collection[str],
) -> Mapping[Ref, frozenset[Ref]]:
    """Return the desired objects that would be deleted with each Namespace, CRD and owner.

    ``wanted`` has the UIDs of the desired objects.
    """
    deleting = {step.entry.ref for step in steps if step.fate is Fate.PRUNE}
    namespaces = {ref.name: ref for ref in deleting if ref.group_kind == NAMESPACE}
    kinds = {ref.name: ref for ref in deleting if ref.group_kind == CRD}
    found: dict[Ref, set[Ref]] = {}
    for member in desired if namespaces or kinds else ():
        for place in (namespaces.get(member.ref.namespace), kinds.get(member.resource.full_plural)):
            if place is not None:
                found.setdefault(place, set()).add(member.ref)
    for ref in deleting & snapshot.dependants.keys():
        owned = {live.ref for live in snapshot.dependants[ref].objects if live.uid in wanted}
        if owned:
            found.setdefault(ref, set()).update(owned)
    return {ref: frozenset(inside) for ref, inside in found.items()}


def _unless_wanted(step: RemoveStep, wanted: Collection[str], fate: Fate) -> RemoveStep:
    if step.live is None or step.live.uid not in wanted:
        return step
    reason = "it is in the set, served by another group"
    return replace(step, fate=fate, reason=reason, problem=None, request=None)


def _each_once(steps: Sequence[RemoveStep]) -> Sequence[RemoveStep]:
    """Return the steps; what two groups serve is deleted or orphaned, and counted, once."""
    going = {Fate.PRUNE, Fate.ORPHAN}
    lives = [(step.live, step.entry.ref) for step in steps if step.fate in going]
    first = {live.uid: ref for live, ref in reversed(lives) if live is not None}
    return [_unless_twin(step, first) if step.fate in going else step for step in steps]


def _unless_twin(step: RemoveStep, first: Mapping[str, Ref]) -> RemoveStep:
    uid = step.live.uid if step.live is not None else ""
    if first.get(uid, step.entry.ref) == step.entry.ref:
        return step
    reason = f"it is the same object as {first[uid].short}"
    return replace(step, fate=Fate.REMOVE_FROM_INVENTORY, reason=reason, request=None)


def _unless_hook(step: RemoveStep, left_out: Collection[Ref]) -> RemoveStep:
    """Keep an existing object that is a chart hook now: Helm would not delete it either."""
    # guard: kept-hook
    if step.entry.ref not in left_out or step.fate is Fate.REMOVE_FROM_INVENTORY:
        return step
    return replace(
        step, fate=Fate.LEAVE, reason="a chart hook, left out", problem=None, request=None
    )


def _with_cascade(step: RemoveStep, cascades: Cascades, allowed: Collection[str]) -> RemoveStep:
    if step.fate is not Fate.PRUNE:
        return step
    if problem := cascades.refusal(step.entry.ref, allowed):
        return replace(step, fate=Fate.REFUSE, problem=problem, request=None)
    return replace(step, reason=cascades.described(step.entry.ref))

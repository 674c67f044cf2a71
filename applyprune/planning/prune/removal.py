"""Decide what to do with entries whose objects have left the set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from applyprune.errors import RunFailed, as_problem
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.model.options import Approval, Mode, Options
from applyprune.model.plan import Desired, Fate, Removals, RemoveStep
from applyprune.model.problem import Problem
from applyprune.model.resources import CRD, NAMESPACE, Resource
from applyprune.planning.annotations import DISABLED, PRUNE, not_understood, orphan_mark
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.other_owner import other_owner
from applyprune.planning.ownership.owner import (
    Owner,
    foreign_owner,
    has_witness,
    is_marked,
    owner_of,
)
from applyprune.planning.prune.cascade import Cascades, cascade_of
from applyprune.planning.prune.guarded_prune import GuardedPrune
from applyprune.planning.prune.guards import check_guards, hinted, refusal_of
from applyprune.planning.requests import delete_request, orphan_request
from applyprune.planning.snapshot import ClusterSnapshot

ORPHANED = "as asked"
ADOPTED = "it was adopted, not created, by this set"
NO_WITNESS = f"it has lost the annotation {OWNED_BY}, so it counts as adopted"
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


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
    states = (snapshot.states[member.ref] for member in desired)
    wanted = {state.uid for state in states if isinstance(state, LiveObject)}
    # Only an apply lists the object under its new group; until then the old entry must stay.
    fate = Fate.REMOVE_FROM_INVENTORY if options.mode is Mode.APPLY else Fate.LEAVE
    decided = (remove_step(entry, snapshot, applyset, options) for entry in entries)
    settled = [_unless_hook(_unless_wanted(step, wanted, fate), left_out) for step in decided]
    kept = _each_once(sorted(settled, key=lambda step: step.entry.ref))  # guard: object-once
    deleting = {step.live.uid for step in kept if step.fate is Fate.PRUNE and step.live is not None}
    manager = applyset.manager
    found = {
        ref: cascade_of(contents, deleting, manager) for ref, contents in snapshot.contents.items()
    }
    cascades = Cascades(found, listed, _coming(desired, kept))
    steps = [replace(step, cascade=cascades.roots(step)) for step in kept]
    steps.sort(key=lambda step: step.entry.wave, reverse=True)
    if not options.prune.enabled:
        return Removals(tuple(steps)), None
    refs = {member.ref for member in desired}
    own = _own(listed, snapshot, applyset) if deleting else {}
    shares = not refs.isdisjoint(listed) or not wanted.isdisjoint(live.uid for live in own.values())
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
        desired=refs,
        shares=shares or any(ref in listed for ref in left_out),
        empty=empty_inputs if desired else ("the input",),
        options=options,
    )
    return _guarded(prune)


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
    desired: Iterable[Desired], steps: Iterable[RemoveStep]
) -> Mapping[Ref, frozenset[Ref]]:
    """Return the desired objects that would be deleted with each Namespace and CRD."""
    deleting = {step.entry.ref for step in steps if step.fate is Fate.PRUNE}
    namespaces = {ref.name: ref for ref in deleting if ref.group_kind == NAMESPACE}
    kinds = {ref.name: ref for ref in deleting if ref.group_kind == CRD}
    found: dict[Ref, set[Ref]] = {}
    for member in desired if namespaces or kinds else ():
        for place in (namespaces.get(member.ref.namespace), kinds.get(member.resource.full_plural)):
            if place is not None:
                found.setdefault(place, set()).add(member.ref)
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


def remove_step(
    entry: InventoryEntry, snapshot: ClusterSnapshot, applyset: ApplySetIdentity, options: Options
) -> RemoveStep:
    """Decide about one entry, independent of the other entries."""
    state = snapshot.states[entry.ref]
    resource = snapshot.resources.get(entry.ref.group_kind)
    if isinstance(state, Unknown):
        return RemoveStep(entry, resource, Fate.REFUSE, problem=state.problem)
    if isinstance(state, Absent):
        if state.proven:
            return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, reason="it is gone")
        doubt = RunFailed(
            f"it is unknown whether {entry.ref} exists",
            reason="the server has not confirmed that it is gone",
            hint="Run again.",
        )
        return RemoveStep(entry, resource, Fate.REFUSE, problem=as_problem(doubt))
    if options.mode is Mode.ORPHAN:
        return _orphan(entry, resource, state, applyset)
    return _of_live(entry, resource, state, snapshot, applyset, options)


def _orphan(
    entry: InventoryEntry, resource: Resource | None, live: LiveObject, applyset: ApplySetIdentity
) -> RemoveStep:
    """Orphan an object with our label or field manager; else only remove it from the inventory."""
    owner = owner_of(live, entry, applyset)
    marked = live.labels.get(PART_OF) == applyset.id or own_apply_entry(live, applyset.manager)
    if owner is Owner.OTHER or not marked:
        reason = "it has neither this set's label nor its field manager"
        if owner is Owner.OTHER:
            reason = "it belongs to another set"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    return _orphaned(entry, resource, live, ORPHANED, applyset)


def _of_live(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> RemoveStep:
    owner = owner_of(live, entry, applyset)
    if owner is Owner.OTHER:
        reason = "it belongs to another set now"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    if owner is Owner.CLAIMED and entry.uid:
        problem = RunFailed(
            f"{entry.ref} was recreated with this set's label and field manager",
            reason="its UID differs from the UID in the inventory",
            hint=f"To record the current object: applyprune inventory repair {applyset.arguments}",
        )
        return RemoveStep(entry, resource, Fate.REFUSE, live, problem=as_problem(problem))
    if owner is not Owner.RECORDED:
        reason = "somebody else has recreated it" if entry.uid else "this set did not create it"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    if live.labels.get(PART_OF) != applyset.id:
        return _unlabelled(entry, resource, live, snapshot, applyset, options)
    reason = _why_left(entry, live, snapshot, applyset, options)
    applied = own_apply_entry(live, applyset.manager) is not None
    if not reason and applied and entry.ref.is_among(options.prune.orphan):
        reason = "--orphan"
    if reason:
        return _orphaned(entry, resource, live, reason, applyset)
    refused = _why_refused(entry, live, applyset)
    if refused is not None:
        return RemoveStep(entry, resource, Fate.REFUSE, live, problem=refused)
    # What is being deleted already needs no request, only a wait.
    request = (
        None
        if live.terminating or resource is None
        else delete_request(resource, live, options.prune.propagation)
    )
    return RemoveStep(entry, resource, Fate.PRUNE, live, request=request)


def _unlabelled(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> RemoveStep:
    # An interrupted run may have orphaned it without recording that.
    if (
        entry.ownership is Ownership.ADOPTED
        or not entry.uid
        or entry.orphan_reason
        or entry.orphaning
    ):
        return RemoveStep(
            entry, resource, Fate.REMOVE_FROM_INVENTORY, live, "it has lost the set's label"
        )
    # A forged entry can name any object: nobody must be told to label that.
    problem = _not_applied(entry, live, applyset)  # guard: label-hint
    if problem is None:
        hint = f"To let the next run delete it: kubectl label {_arguments(entry.ref)} "
        lost = RunFailed(
            f"{entry.ref} has lost the set's label",
            reason="without the label, only the inventory shows that this set owns it",
            hint=_to_orphan(entry.ref, applyset)
            if _why_left(entry, live, snapshot, applyset, options)
            else f"{hint}{PART_OF}={applyset.id}",
        )
        problem = as_problem(lost)
    return RemoveStep(entry, resource, Fate.REFUSE, live, problem=problem)


def _why_refused(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> Problem | None:
    """Return why an object with the set's label may not be deleted; None if it may."""
    if (problem := _not_applied(entry, live, applyset)) is not None:
        return problem
    unknown = not_understood(live.metadata)  # guard: mark-before-delete
    if not unknown or live.terminating:
        return None
    # It may mean that the object must stay.
    kind, _, key = unknown.rpartition(" ")
    verb = "label" if kind.endswith("label") else "annotate"
    return as_problem(
        RunFailed(
            f"{entry.ref} was not deleted",
            reason=f"{unknown} is not understood",
            hint=f"To let the next run delete it: kubectl {verb} {_arguments(entry.ref)} {key}-. "
            f"To orphan it: --orphan {entry.ref.short}, or the annotation {PRUNE}: {DISABLED}.",
        )
    )


def _not_applied(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> Problem | None:
    """Return the problem of an object that the set's field manager has not applied.

    An edited inventory, and a label that anybody may set, prove nothing.
    """
    if own_apply_entry(live, applyset.manager) is not None:
        return None
    return as_problem(
        RunFailed(
            f"{entry.ref} was not applied by this set",
            reason=f"{applyset.manager} is not among its field managers",
            hint=_to_orphan(entry.ref, applyset),
        )
    )


def _to_orphan(ref: Ref, applyset: ApplySetIdentity) -> str:
    command = f"applyprune inventory orphan {applyset.arguments} {ref.short}"
    return f"Add it to the input again, or orphan it: {command}"


def _arguments(ref: Ref) -> str:
    """Return the arguments of kubectl that name an object."""
    return f"{ref.short} -n {ref.namespace}" if ref.namespace else ref.short


def _orphaned(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    reason: str,
    applyset: ApplySetIdentity,
) -> RemoveStep:
    request = None if resource is None else orphan_request(resource, live, applyset)
    return RemoveStep(entry, resource, Fate.ORPHAN, live, reason, request=request)


def _why_left(
    entry: InventoryEntry,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> str:
    """Return why an object of ours is orphaned; empty if it may be deleted."""
    if rule := entry.orphan_reason or orphan_mark(live.metadata):
        return f"marked {rule}"
    if entry.ownership is Ownership.ADOPTED and not options.prune.prune_adopted:
        return ADOPTED
    is_applied = own_apply_entry(live, applyset.manager) is not None
    if is_applied and not (has_witness(live, applyset) or options.prune.prune_adopted):
        return NO_WITNESS  # guard: witness
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return "it is the inventory of a set"
    if owner := foreign_owner(live, applyset.manager):
        return f"it belongs to {owner} now, by its ownerReferences"
    if not options.prune.prune_shared and (other := other_owner(entry, live, applyset)):
        return other  # guard: other-owner
    return _why_protected(entry, snapshot, applyset)


def _why_protected(
    entry: InventoryEntry, snapshot: ClusterSnapshot, applyset: ApplySetIdentity
) -> str:
    """Return why a Namespace is never deleted; empty if it may be, and for any other kind."""
    name = entry.ref.name
    if entry.ref.group_kind != NAMESPACE:
        return ""
    if name in _SYSTEM_NAMESPACES:
        return "a system namespace is never deleted"
    if name == applyset.namespace:
        return "it contains this set's inventory"
    return "it contains another set's inventory" if name in snapshot.occupied else ""

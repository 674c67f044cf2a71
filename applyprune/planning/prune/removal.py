"""What becomes of an entry whose object has left the set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.errors import RunFailed, as_problem
from applyprune.model.inventory import Ownership
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.model.options import Mode
from applyprune.model.plan import Action, RemoveStep
from applyprune.model.resources import CRD, NAMESPACE
from applyprune.planning.annotations import orphan_mark
from applyprune.planning.applyset import PART_OF, SET_ID, SHARD_OF
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import Owner, foreign_owner, owner_of
from applyprune.planning.prune.cascade import Cascades, cascade_of
from applyprune.planning.prune.guards import approval_of, check_guards, with_approval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Problem
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.snapshot import ClusterSnapshot

ORPHANED = "as asked"
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class Removals:
    """What becomes of what has left the set; ``approval`` is the plan's, set with ``refusal``."""

    steps: tuple[RemoveStep, ...]
    refusal: Problem | None = None
    approval: str = ""


def remove_steps(
    entries: Iterable[InventoryEntry],
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
    *,
    desired: Sequence[Desired],
    listed: Collection[Ref],
    hollow: Sequence[str] = (),
) -> Removals:
    """Decide about what has left the set, in the order of deletion, and about the prune itself.

    ``desired`` is what the set still wants: one object may be served under two groups, and none may
    go with its Namespace or CRD. ``listed`` is all that the inventory lists, ``hollow`` the parts
    of the input without an object. A Namespace or CRD is refused for what it holds and this prune
    does not delete by itself.
    """
    states = (world.states[one.ref] for one in desired)
    wanted = {state.uid for state in states if isinstance(state, LiveObject)}
    # Only an apply lists it under its new group; until then the old entry is what lists it.
    action = Action.REMOVE_FROM_INVENTORY if options.mode is Mode.APPLY else Action.LEAVE
    decided = (remove_step(entry, world, target, options) for entry in entries)
    steps = [_unless_wanted(step, wanted, action) for step in decided]
    going = {
        step.live.uid for step in steps if step.action is Action.DELETE and step.live is not None
    }
    found = {ref: cascade_of(contents, going) for ref, contents in world.contents.items()}
    cascades = Cascades(found, listed, _coming(desired, steps))
    steps.sort(key=lambda step: step.entry.ref)
    steps.sort(key=lambda step: step.entry.wave, reverse=True)
    empty = hollow if desired else ("the input",)
    refs = [one.ref for one in desired]

    def judged(options: Options) -> tuple[tuple[RemoveStep, ...], Problem | None]:
        with_cascades = [_with_cascade(step, cascades, options) for step in steps]
        return check_guards(with_cascades, cascades, listed, options, empty=empty, desired=refs)

    removals, refusal = judged(options)
    if refusal is None:
        return Removals(removals)
    approval = approval_of(steps, cascades)
    if approval == options.prune.approved:  # guard: one-approval
        removals, refusal = judged(with_approval(options, steps, cascades))
    return Removals(removals, refusal, approval if refusal else "")


def _coming(
    desired: Iterable[Desired], steps: Iterable[RemoveStep]
) -> Mapping[Ref, frozenset[Ref]]:
    """Return what of the input would go with each Namespace and CRD that is to be deleted."""
    going = {step.entry.ref for step in steps if step.action is Action.DELETE}
    homes = {ref.name: ref for ref in going if ref.group_kind == NAMESPACE}
    kinds = {ref.name: ref for ref in going if ref.group_kind == CRD}
    found: dict[Ref, set[Ref]] = {}
    for one in desired if homes or kinds else ():
        for place in (homes.get(one.ref.namespace), kinds.get(one.resource.full_plural)):
            if place is not None:
                found.setdefault(place, set()).add(one.ref)
    return {ref: frozenset(inside) for ref, inside in found.items()}


def _unless_wanted(step: RemoveStep, wanted: Collection[str], action: Action) -> RemoveStep:
    if step.live is None or step.live.uid not in wanted:
        return step
    reason = "it is in the set under another group"
    return replace(step, action=action, reason=reason, problem=None)


def _with_cascade(step: RemoveStep, cascades: Cascades, options: Options) -> RemoveStep:
    if step.action is not Action.DELETE:
        return step
    if problem := cascades.refusal(step.entry.ref, options):
        return replace(step, action=Action.REFUSE, problem=problem)
    return replace(step, reason=cascades.described(step.entry.ref))


def remove_step(
    entry: InventoryEntry, world: ClusterSnapshot, target: ApplySetIdentity, options: Options
) -> RemoveStep:
    """Decide about one entry by itself, whatever becomes of the others."""
    state = world.states[entry.ref]
    resource = world.resources.get(entry.ref.group_kind)
    if isinstance(state, Unknown):
        return RemoveStep(entry, resource, Action.REFUSE, problem=state.problem)
    if isinstance(state, Absent):
        if state.proven:
            return RemoveStep(entry, resource, Action.REMOVE_FROM_INVENTORY, reason="it is gone")
        doubt = as_problem(RunFailed(f"cannot tell whether {entry.ref} exists"))
        return RemoveStep(entry, resource, Action.REFUSE, problem=doubt)
    if options.mode is Mode.ORPHAN:
        return _orphan(entry, resource, state, target)
    step = _of_live(entry, resource, state, world, target, options)
    if step.action is Action.DELETE and entry.ref.is_among(options.prune.orphan):
        return replace(step, action=Action.ORPHAN, reason="--orphan")
    return step


def _orphan(
    entry: InventoryEntry, resource: Resource | None, live: LiveObject, target: ApplySetIdentity
) -> RemoveStep:
    """Orphan what has any of our marks; only remove from the inventory what has none."""
    owner = owner_of(live, entry, target)
    marked = live.labels.get(PART_OF) == target.id or own_apply_entry(live, target.manager)
    if owner is Owner.OTHER or not marked:
        reason = "it is another set's" if owner is Owner.OTHER else "it bears no mark of this set"
        return RemoveStep(entry, resource, Action.REMOVE_FROM_INVENTORY, live, reason)
    return RemoveStep(entry, resource, Action.ORPHAN, live, ORPHANED)


def _of_live(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
) -> RemoveStep:
    owner = owner_of(live, entry, target)
    if owner is Owner.OTHER:
        reason = "it belongs to another set now"
        return RemoveStep(entry, resource, Action.REMOVE_FROM_INVENTORY, live, reason)
    if owner is Owner.CLAIMED and entry.uid:
        problem = RunFailed(
            f"{entry.ref} was created again, and bears this set's marks",
            reason="it has another UID than the inventory says",
            hint=f"To list it as it is now: applyprune inventory repair {target.arguments}",
        )
        return RemoveStep(entry, resource, Action.REFUSE, live, problem=as_problem(problem))
    if owner is not Owner.RECORDED:
        reason = "it was re-created by somebody else" if entry.uid else "this set did not create it"
        return RemoveStep(entry, resource, Action.REMOVE_FROM_INVENTORY, live, reason)
    if live.labels.get(PART_OF) != target.id:
        # Orphaned already, by a run that was cut off before it could record that.
        if (
            entry.ownership is Ownership.ADOPTED
            or not entry.uid
            or entry.orphan_reason
            or entry.orphaning
        ):
            return RemoveStep(
                entry, resource, Action.REMOVE_FROM_INVENTORY, live, "the set's label is off it"
            )
        problem = RunFailed(
            f"{entry.ref} has lost the set's label",
            reason="without it nothing but the inventory says that it is ours",
            hint=f"To have it deleted: kubectl label {entry.ref.short}"
            + (f" -n {entry.ref.namespace}" if entry.ref.namespace else "")
            + f" {PART_OF}={target.id}",
        )
        return RemoveStep(entry, resource, Action.REFUSE, live, problem=as_problem(problem))
    if reason := _why_left(entry, live, world, target, options):
        return RemoveStep(entry, resource, Action.ORPHAN, live, reason)
    if own_apply_entry(live, target.manager) is None:
        # An inventory that somebody has edited, and a label that anybody may set, are no proof.
        problem = RunFailed(
            f"{entry.ref} shows no trace of an apply by this set",
            reason=f"{target.manager} is not among its field managers",
            hint="Put it into the input once more, or orphan it: "
            f"applyprune inventory orphan {target.arguments} {entry.ref.short}",
        )
        return RemoveStep(entry, resource, Action.REFUSE, live, problem=as_problem(problem))
    return RemoveStep(entry, resource, Action.DELETE, live)


def _why_left(
    entry: InventoryEntry,
    live: LiveObject,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
) -> str:
    """Return why an object of ours is orphaned; empty when it may be deleted."""
    if rule := entry.orphan_reason or orphan_mark(live.metadata):
        return f"marked {rule}"
    if entry.ownership is Ownership.ADOPTED and not options.prune.prune_adopted:
        return "it was adopted, not created, by this set"
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return "it is the inventory of a set"
    if owner := foreign_owner(live, target.manager):
        return f"it belongs to {owner} now, by its ownerReferences"
    if entry.ref.group_kind == NAMESPACE:
        name = entry.ref.name
        if name in _SYSTEM_NAMESPACES:
            return "a namespace of the system is never deleted"
        if name == target.namespace:
            return "it holds this set's inventory"
        if name in world.occupied:
            return "it holds another set's inventory"
    return ""

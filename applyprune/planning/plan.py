"""The plan: what the input wants, what the inventory records and what is live, put together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from applyprune.errors import RunFailed, as_problem
from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.model.options import Adopt, Mode, Options
from applyprune.model.plan import Action, ApplyStep, Desired, Plan, RemoveStep
from applyprune.model.resources import CRD
from applyprune.planning.applyset import PART_OF, SET_ID, SHARD_OF
from applyprune.planning.inventory.selection import chosen
from applyprune.planning.ownership.managed_fields import foreign_managers
from applyprune.planning.ownership.owner import Owner, other_set, owner_of, unchanged
from applyprune.planning.prune.removal import remove_steps
from applyprune.planning.schema.crd import defined_kinds
from applyprune.planning.snapshot import is_restored, recorded, recovered_entries, restored_problem
from applyprune.planning.summary import of_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.model.identity import Ref
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.snapshot import ClusterSnapshot

_Step = TypeVar("_Step", ApplyStep, RemoveStep)


def make_plan(
    desired: Sequence[Desired],
    inventory: Inventory,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
    *,
    hollow: Sequence[str] = (),
) -> Plan:
    """Decide about every object of the input and every entry of the inventory.

    What a selector has picked out is not the set: then nothing has left it. ``hollow`` are the
    parts of the input that hold no object.
    """
    restored = is_restored(inventory, world)
    entries = recorded(desired, inventory, world, target, restored=restored)
    applies = _apply_steps(desired, entries, world, target, options)
    wanted = {one.ref for one in desired}
    left = [
        entry
        for entry in chosen(options.select, inventory.entries.values())
        if entry.ref not in wanted and options.apply.selector is None
    ]
    removed = remove_steps(
        left,
        world,
        target,
        options,
        desired=desired,
        listed=inventory.entries.keys(),
        hollow=hollow,
    )
    removals, refusal, approval = removed.steps, removed.refusal, removed.approval
    if removals and restored and options.mode is not Mode.ORPHAN:
        refusal, approval = restored_problem(inventory), ""
    return Plan(
        tuple(_with_exit_code(step) for step in applies),
        tuple(_with_exit_code(step) for step in removals),
        _no_prune(applies, removals, refusal, options),
        refusal,
        tuple(recovered_entries(world.marked, world.resources, but=wanted)),
        restored,
        approval,
    )


def _apply_steps(
    desired: Sequence[Desired],
    entries: Mapping[Ref, InventoryEntry],
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
) -> tuple[ApplyStep, ...]:
    if options.mode is not Mode.APPLY:
        return ()
    definitions = {
        one.ref: _apply_step(one, entries.get(one.ref), world, target, options)
        for one in desired
        if one.ref.group_kind == CRD
    }
    # A definition that is about to change may change what its custom resources hold.
    moving = {
        kind: None
        for step in definitions.values()
        if step.action is not Action.NOTHING
        for kind in defined_kinds(step.desired.body)
    }
    world = replace(world, schemas={**world.schemas, **moving})
    return tuple(
        definitions.get(one.ref) or _apply_step(one, entries.get(one.ref), world, target, options)
        for one in desired
    )


def _apply_step(
    one: Desired,
    entry: InventoryEntry | None,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    state = world.states[one.ref]
    fresh = InventoryEntry(
        ref=one.ref,
        plural=one.resource.plural,
        version=one.resource.version,
        uid_before_apply=None,
        wave=one.wave,
        depends_on=one.depends_on,
        orphan_reason=one.orphan_reason,
    )
    if isinstance(state, Unknown):
        return _refused(one, entry or fresh, state.problem, None)
    if isinstance(state, Absent):
        if entry is not None and state.proven and _has_done_its_work(one, entry):
            return ApplyStep(one, Action.NOTHING, entry, reason="finished, and removed by its TTL")
        return ApplyStep(one, Action.CREATE, fresh)
    if (
        entry is not None
        and state.terminating
        and state.uid == entry.uid
        and _has_done_its_work(one, entry)
    ):
        return ApplyStep(one, Action.NOTHING, entry, state, "finished, and going by its TTL")
    return _existing(one, entry, state, world, target, options)


def _has_done_its_work(one: Desired, entry: InventoryEntry) -> bool:
    """Return whether a Job with a TTL that is gone, or going, needs no second run."""
    return one.once and bool(entry.uid) and entry.digest == one.digest


def _existing(
    one: Desired,
    entry: InventoryEntry | None,
    live: LiveObject,
    world: ClusterSnapshot,
    target: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    owner = owner_of(live, entry, target)
    known = owner is Owner.RECORDED and entry is not None
    fence = known and entry is not None and entry.deleting
    union = InventoryEntry(
        ref=one.ref,
        plural=one.resource.plural,
        version=one.resource.version,
        uid_before_apply=live.uid,
        uid=live.uid if known else "",
        ownership=_ownership(entry, known=known),
        wave=one.wave,
        depends_on=one.depends_on,
        orphan_reason=one.orphan_reason,
        deleting=fence,
    )
    if (problem := _obstacle(one, live, owner, options)) is not None:
        # What was recorded before stays recorded; what is not ours is not recorded at all.
        return _refused(one, entry or replace(union, uid_before_apply=live.uid), problem, live)
    # An adoption is one until a reply has confirmed it.
    adopts = not known or entry is None or (not entry.uid and entry.uid_before_apply is not None)
    # On an object that we created it can only come of wiped managedFields: the server keeps for it
    # what it finds at the next apply, our own fields among it.
    asked = options.apply.take_over if adopts else {*options.apply.take_over, "before-first-apply"}
    migrate = foreign_managers(live, asked, adopts=adopts)
    if (
        known
        and entry is not None
        and not (options.apply.reapply_all or fence or migrate or entry.orphaning)
    ):
        schema = world.schemas.get(one.ref.group_kind)
        knows_schema = one.ref.group_kind not in world.schemas or schema is not None
        if knows_schema and unchanged(one, entry, live, manager=target.manager, schema=schema):
            # Others may have moved it in the order; that is recorded when anything is.
            listed = replace(entry, wave=one.wave, depends_on=one.depends_on)
            return ApplyStep(one, Action.NOTHING, listed, live)
    reason = "" if known else f"adopted: it existed and belonged to {_whom(owner)}"
    return ApplyStep(one, Action.UPDATE, union, live, reason=reason, fence=fence, migrate=migrate)


def _ownership(entry: InventoryEntry | None, *, known: bool) -> Ownership:
    if entry is None or not known:
        return Ownership.ADOPTED
    # An entry that has found its object by UID before any reply confirmed it was an adoption.
    if not entry.uid and entry.uid_before_apply is not None:
        return Ownership.ADOPTED
    return entry.ownership


def _whom(owner: Owner) -> str:
    return {
        Owner.OTHER: "another set",
        Owner.CLAIMED: "this set, whose inventory does not list it",
    }.get(owner, "no set")


def _obstacle(one: Desired, live: LiveObject, owner: Owner, options: Options) -> Problem | None:
    """Return why this object may not be applied, None when it may."""
    if live.terminating:
        held = ", ".join(live.finalizers)
        return _failed(
            one,
            f"{one.ref} is being deleted",
            why=f"its finalizers have not finished: {held}" if held else "",
            hint="Run again when it is gone.",
        )
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return _failed(
            one,
            f"{one.ref} is the inventory of a set",
            hint="Take it out of the input: a set is handed on by `applyprune inventory move`.",
        )
    if owner is Owner.OTHER and options.apply.adopt is not Adopt.ALL:
        label, named = live.labels[PART_OF], other_set(live)
        find = f" To see which set it is: kubectl get cm -A -l {SET_ID}={label}"
        return _failed(
            one,
            f"{one.ref} belongs to another set",
            why=named or f"its label {PART_OF} is {label}",
            hint=f"--adopt=all takes it from there.{'' if named else find}",
        )
    if owner is Owner.NOBODY and options.apply.adopt is Adopt.NONE:
        return _failed(
            one,
            f"{one.ref} exists already and belongs to no set",
            hint="`--adopt=unowned` takes it into this one.",
        )
    return None


def _failed(one: Desired, what: str, *, why: str = "", hint: str = "") -> Problem:
    return as_problem(RunFailed(what, reason=why, hint=hint), where=one.origin)


def _refused(
    one: Desired, entry: InventoryEntry, problem: Problem, live: LiveObject | None
) -> ApplyStep:
    where = problem.location or str(one.origin)
    return ApplyStep(one, Action.REFUSE, entry, live, problem=replace(problem, location=where))


def _with_exit_code(step: _Step) -> _Step:
    """Return a step whose problem has the exit code of a run that fails for it alone."""
    return step if step.problem is None else replace(step, problem=of_object(step.problem))


def _no_prune(
    applies: Sequence[ApplyStep],
    removals: Sequence[RemoveStep],
    refusal: Problem | None,
    options: Options,
) -> str:
    """Return why nothing may be pruned in this run; empty when it may."""
    if not removals:
        return ""
    if not options.prune.enabled:
        return "--no-prune"
    if refusal is not None:
        return "prune refused"
    if any(step.action is Action.REFUSE for step in applies):
        return "not everything in the input can be applied"
    if options.mode in {Mode.APPLY, Mode.PRUNE} and any(
        step.problem is not None for step in removals
    ):
        return "the state of an object to be pruned is not known"
    return ""

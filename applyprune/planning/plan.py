"""Make the plan from the input, the inventory and the state of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import CRD, Absent, LiveObject, Missing, Unknown, deleted_at
from applyprune.model.options import Mode, Options, WaitMode
from applyprune.model.plan import (
    ApplyStep,
    Desired,
    Fate,
    Guard,
    GuardResult,
    GuardVerdict,
    Plan,
    RemoveStep,
)
from applyprune.model.problem import Problem
from applyprune.planning.adoption.existing import existing_step, refused_step
from applyprune.planning.adoption.in_new_namespace import with_controllers_objects
from applyprune.planning.adoption.left_alone import step_of_deleted, step_of_left
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.approval.digests import plan_digest
from applyprune.planning.checks.missing_references import pruned_references
from applyprune.planning.diff.rewritten import rewritten_problem
from applyprune.planning.ownership.default_rules import with_autoscaler
from applyprune.planning.prune.leaving import left_entries, remove_steps, without_other_uid
from applyprune.planning.prune.readiness_first import no_wait_warning, wait_reason
from applyprune.planning.readiness.finished_jobs import (
    DELETED,
    FINISHED,
    LEAVING,
    UNKNOWN_RESULT,
    job_record,
    was_deleted,
)
from applyprune.planning.requests import apply_request
from applyprune.planning.schema.crd import defined_kinds
from applyprune.planning.snapshot import (
    CHANGING,
    ClusterSnapshot,
    is_restored,
    recorded,
    recovered_entries,
    restored_problem,
)
from applyprune.planning.summary import of_object
from applyprune.values import replace

_Step = TypeVar("_Step", ApplyStep, RemoveStep)


def make_plan(
    desired: Sequence[Desired],
    inventory: Inventory,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    empty_inputs: Sequence[str] = (),
    new_namespace: str = "",
    left_out: Collection[Ref] = (),
) -> Plan:
    """Decide about every object of the input and every entry of the inventory.

    If the options select a part of the input, nothing has left the set.
    ``empty_inputs`` are the parts of the input without an object, and ``left_out`` its chart hooks
    that do not belong to the set. ``new_namespace`` is the one that the run creates for the
    inventory; empty if it exists.
    """
    restored = is_restored(inventory, snapshot)
    entries = recorded(desired, inventory, snapshot, applyset, restored=restored)
    leaving = left_entries(desired, inventory, snapshot, options)
    released = {entry.ref for entry in leaving}
    members = [member for member in desired if member.ref not in released]
    applies = with_controllers_objects(
        _apply_steps(members, entries, snapshot, applyset, options),
        applyset,
        options,
        new_namespace=new_namespace,
    )
    # What is left alone and gets no entry of its own must not be lost either.
    unlisted = {step.desired.ref for step in applies if step.is_unlisted}
    listed = {member.ref for member in desired} - unlisted  # guard: left-alone-recovered
    removed, if_approved = remove_steps(
        leaving,
        snapshot,
        applyset,
        options,
        desired=desired,
        listed=inventory.entries,
        empty_inputs=empty_inputs,
        left_out=left_out,
    )
    removals, guards, refusal = removed.steps, removed.guards, removed.refusal
    prunes = options.prune.enabled and options.mode is not Mode.ORPHAN
    if removals and restored and prunes:
        refusal = restored_problem(inventory)
        refused = GuardResult(Guard.RESTORED_INVENTORY, GuardVerdict.REFUSED, refusal.reason)
        guards, if_approved = (*guards, refused), None
        removals = tuple(map(without_other_uid, removals))
    plan = Plan(
        applies,
        removals,
        guards=guards,
        refusal=refusal,
        if_approved=if_approved,
        recovered=tuple(recovered_entries(snapshot.marked, snapshot.resources, but=listed)),
        restored=restored,
        new_set=not (inventory.exists or snapshot.marked),
        inventory=f"{inventory.uid}/{inventory.generation}",
    )
    return settled(plan, options)


def completed(plan: Plan, applyset: ApplySetIdentity, options: Options, *, keeps: str = "") -> Plan:
    """Return a plan, after all checks of its steps, with what follows from them, and its digest.

    The digest reads every object, so it is computed once. See ``settled`` for ``keeps``.
    """
    plan = settled(plan, options, keeps=keeps)
    return replace(
        plan,
        warnings=(*plan.warnings, *_warnings(plan, options)),
        digest=plan_digest(plan, applyset, options),
    )


def settled(plan: Plan, options: Options, *, keeps: str = "") -> Plan:
    """Return a plan with what follows from its steps: exit codes, and whether it prunes.

    ``keeps`` says why it prunes nothing in any case; empty if it may prune.
    """
    refused = "prune refused" if plan.refusal is not None else ""
    kept = (refused or keeps) if plan.removals and keeps else ""
    no_prune = kept or _no_prune(plan.applies, plan.removals, plan.refusal, options)
    waits = options.wait.mode is not WaitMode.NONE and not no_prune
    return replace(
        plan,
        no_prune=no_prune,
        waits_before_prune=wait_reason(plan.applies, plan.removals) if waits else "",
        applies=tuple(_with_exit_code(step) for step in plan.applies),
        removals=tuple(_with_exit_code(step) for step in plan.removals),
    )


def _warnings(plan: Plan, options: Options) -> Iterator[Problem]:
    """Yield what only the fates of a whole plan show."""
    waits = options.wait.mode is not WaitMode.NONE
    if not (waits or plan.no_prune) and (reason := wait_reason(plan.applies, plan.removals)):
        yield no_wait_warning(reason)
    yield from pruned_references(plan)
    if rewritten := rewritten_problem({step.desired.ref: step.rewritten for step in plan.applies}):
        yield rewritten


def with_existing(
    plan: Plan,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> Plan:
    """Return a plan in which an object is decided about again: it exists now, as ``live``."""
    return replace(
        plan,
        applies=tuple(
            existing_step(step.desired, None, live, snapshot, applyset, options)
            if step.desired.ref == live.ref and step.request is not None
            else step
            for step in plan.applies
        ),
    )


def _apply_steps(
    desired: Sequence[Desired],
    entries: Mapping[Ref, InventoryEntry],
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> tuple[ApplyStep, ...]:
    if options.mode is not Mode.APPLY:
        return ()
    definitions = {
        member.ref: _apply_step(member, entries.get(member.ref), snapshot, applyset, options)
        for member in desired
        if member.ref.group_kind == CRD
    }
    # A CRD that will change may change the values of its custom resources.
    moving = {
        kind: CHANGING
        for step in definitions.values()
        if step.fate is not Fate.LEAVE
        for kind in defined_kinds(step.desired.body)
    }
    snapshot = replace(snapshot, schemas={**snapshot.schemas, **moving})
    return tuple(
        definitions.get(member.ref)
        or _apply_step(member, entries.get(member.ref), snapshot, applyset, options)
        for member in desired
    )


def _apply_step(
    desired: Desired,
    entry: InventoryEntry | None,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    state = snapshot.states[desired.ref]
    if not isinstance(state, LiveObject):
        fresh = InventoryEntry(
            ref=desired.ref,
            plural=desired.resource.plural,
            version=desired.resource.version,
            uid_before_apply=None,
            wave=desired.wave,
            depends_on=desired.depends_on,
            orphan_reason=desired.orphan_reason,
        )
        untouched = step_of_left(desired, entry, fresh, state, applyset)
        if untouched is not None:
            return untouched
    if isinstance(state, Unknown):
        refused = refused_step(desired, entry or fresh, state.problem, None)
        return replace(refused, is_unread=True)
    if isinstance(state, Missing):
        # The replicas are sent, but the same manifest has the same digest in the next run.
        off = options.apply.no_default_ignore
        desired = with_autoscaler(desired, snapshot.autoscalers, off)
        request = apply_request(desired, None, applyset, options)
        if entry is None or not isinstance(state, Absent) or not _may_have_finished(desired, entry):
            left = "; ".join(desired.left)
            created = ApplyStep(desired, Fate.CREATE, fresh, reason=left, request=request)
            return step_of_deleted(created, entry, state, options)
        if was_deleted(entry.job, snapshot.now):
            created = ApplyStep(desired, Fate.CREATE, fresh, reason=DELETED, request=request)
            return step_of_deleted(created, entry, state, options)
        completed = entry.job is not None and entry.job.completed
        return ApplyStep(
            desired, Fate.LEAVE, entry, reason=FINISHED if completed else UNKNOWN_RESULT
        )
    if (
        entry is not None
        and state.terminating
        and state.uid == entry.uid
        and _may_have_finished(desired, entry)
        and not was_deleted(job_record(desired, state, entry), deleted_at(state))
    ):
        return ApplyStep(desired, Fate.LEAVE, entry, state, LEAVING)
    return existing_step(desired, entry, state, snapshot, applyset, options)


def _may_have_finished(desired: Desired, entry: InventoryEntry) -> bool:
    """Return whether a Job that is gone, or is going, may have been removed by its TTL."""
    return desired.has_ttl and bool(entry.uid) and entry.digest == desired.digest


def _with_exit_code(step: _Step) -> _Step:
    """Return a step whose problem has the exit code of a run in which nothing else fails."""
    return step if step.problem is None else replace(step, problem=of_object(step.problem))


def _no_prune(
    applies: Sequence[ApplyStep],
    removals: Sequence[RemoveStep],
    refusal: Problem | None,
    options: Options,
) -> str:
    """Return why this run may not prune; empty if it may."""
    if not removals:
        return ""
    if not options.prune.enabled:
        return "--no-prune"
    if refusal is not None:
        return "prune refused"
    if any(step.fate is Fate.REFUSE for step in applies):
        return "some objects in the input cannot be applied"
    if options.mode in {Mode.APPLY, Mode.PRUNE} and any(
        step.problem is not None for step in removals
    ):
        return "the state of an object to prune is unknown"
    return ""

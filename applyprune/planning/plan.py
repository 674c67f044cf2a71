"""Make the plan from the input, the inventory and the state of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import Absent, LiveObject, Missing, Unknown, deleted_at
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
from applyprune.model.resources import CRD
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.approval.digests import plan_digest
from applyprune.planning.checks.missing_references import pruned_references
from applyprune.planning.diff.rewritten import rewritten_problem
from applyprune.planning.inventory.entry_before_apply import entry_before_apply
from applyprune.planning.ownership.default_rules import with_autoscaler
from applyprune.planning.ownership.empty_fields import filled_by_others
from applyprune.planning.ownership.foreign_label import is_label_unproven, unproven_label
from applyprune.planning.ownership.migration import migration_of
from applyprune.planning.ownership.obstacle import obstacle
from applyprune.planning.ownership.owner import (
    Owner,
    owner_of,
    owner_to_apply,
    unchanged,
)
from applyprune.planning.ownership.takings import taken_from
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
from applyprune.planning.requests import apply_request, takes_over
from applyprune.planning.schema.crd import defined_kinds
from applyprune.planning.snapshot import (
    ClusterSnapshot,
    is_restored,
    recorded,
    recovered_entries,
    restored_problem,
)
from applyprune.planning.summary import of_object

_Step = TypeVar("_Step", ApplyStep, RemoveStep)


def make_plan(
    desired: Sequence[Desired],
    inventory: Inventory,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    empty_inputs: Sequence[str] = (),
    left_out: Collection[Ref] = (),
) -> Plan:
    """Decide about every object of the input and every entry of the inventory.

    With a selector, the input is only a part of the set, so nothing has left the set.
    ``empty_inputs`` are the parts of the input without an object, and ``left_out`` its chart hooks
    that do not belong to the set.
    """
    restored = is_restored(inventory, snapshot)
    entries = recorded(desired, inventory, snapshot, applyset, restored=restored)
    applies = _apply_steps(desired, entries, snapshot, applyset, options)
    wanted = {member.ref for member in desired}
    removed, if_approved = remove_steps(
        left_entries(desired, inventory, options),
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
        recovered=tuple(recovered_entries(snapshot.marked, snapshot.resources, but=wanted)),
        restored=restored,
        new_set=not (inventory.exists or snapshot.marked),
        inventory=f"{inventory.uid}/{inventory.generation}",
    )
    return settled(plan, options)


def completed(plan: Plan, applyset: ApplySetIdentity, options: Options) -> Plan:
    """Return a plan, after all checks of its steps, with what follows from them, and its digest.

    The digest reads every object, so it is computed once.
    """
    plan = settled(plan, options)
    return replace(
        plan,
        warnings=(*plan.warnings, *_warnings(plan, options)),
        digest=plan_digest(plan, applyset, options),
    )


def settled(plan: Plan, options: Options) -> Plan:
    """Return a plan with what follows from its steps: exit codes, and whether it prunes."""
    no_prune = _no_prune(plan.applies, plan.removals, plan.refusal, options)
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
            _existing(step.desired, None, live, snapshot, applyset, options)
            if step.desired.ref == live.ref
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
        kind: None
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
    fresh = InventoryEntry(
        ref=desired.ref,
        plural=desired.resource.plural,
        version=desired.resource.version,
        uid_before_apply=None,
        wave=desired.wave,
        depends_on=desired.depends_on,
        orphan_reason=desired.orphan_reason,
    )
    if isinstance(state, Unknown):
        refused = _refused(desired, entry or fresh, state.problem, None)
        return replace(refused, is_unread=True)
    if isinstance(state, Missing):
        request = apply_request(desired, None, applyset, options)
        if entry is None or not isinstance(state, Absent) or not _may_have_finished(desired, entry):
            left = "; ".join(desired.left)
            return ApplyStep(desired, Fate.CREATE, fresh, reason=left, request=request)
        if was_deleted(entry.job, snapshot.now):
            return ApplyStep(desired, Fate.CREATE, fresh, reason=DELETED, request=request)
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
    return _existing(desired, entry, state, snapshot, applyset, options)


def _may_have_finished(desired: Desired, entry: InventoryEntry) -> bool:
    """Return whether a Job that is gone, or is going, may have been removed by its TTL."""
    return desired.has_ttl and bool(entry.uid) and entry.digest == desired.digest


def _existing(
    desired: Desired,
    entry: InventoryEntry | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    desired = with_autoscaler(desired, snapshot.autoscalers, options.apply.no_default_ignore)
    if filled := filled_by_others(desired.body, live, applyset.manager):
        desired = replace(desired, ignored=(*desired.ignored, *filled))
    judged = owner_to_apply(live, entry, applyset)
    # An interrupted adoption has not marked the object yet.
    owner = judged if entry is None or entry.uid else owner_of(live, entry, applyset)
    known = owner is Owner.RECORDED and entry is not None
    fence = known and entry is not None and entry.deleting
    union = entry_before_apply(desired, live, entry if known else None, applyset)
    lost = entry is not None and is_label_unproven(entry, live, snapshot.others, applyset)
    unproven = unproven_label(desired.ref, live, snapshot.others, applyset) if lost else None
    if (problem := obstacle(desired, live, judged, options, unproven)) is not None:
        # An existing entry stays; an object that is not ours gets no entry.
        return _refused(desired, entry or replace(union, uid_before_apply=live.uid), problem, live)
    # An adoption is not complete until a response has confirmed it.
    adopts = not known or entry is None or (not entry.uid and entry.uid_before_apply is not None)
    migration = migration_of(
        live, entry if known else None, options.apply, manager=applyset.manager, adopts=adopts
    )
    takes = takes_over(desired, live, applyset, migration)
    if (
        known
        and entry is not None
        and not (options.apply.reapply_all or fence or takes or entry.orphaning)
        and entry.orphan_reason == desired.orphan_reason
    ):
        schema = snapshot.schemas.get(desired.ref.group_kind)
        knows_schema = desired.ref.group_kind not in snapshot.schemas or schema is not None
        if knows_schema and unchanged(
            desired, entry, live, manager=applyset.manager, schema=schema
        ):
            # Other objects may have changed its wave; this is recorded with the next write.
            listed = replace(
                entry,
                wave=desired.wave,
                depends_on=desired.depends_on,
                job=union.job,
                crd=entry.crd if schema is None else desired.resource.full_plural,
            )
            return ApplyStep(desired, Fate.LEAVE, listed, live)
    request = apply_request(desired, live, applyset, options, migration=migration, fence=fence)
    adopted = () if known else (f"adopted: it existed and belonged to {_whom(owner)}",)
    return ApplyStep(
        desired,
        Fate.CHANGE if known else Fate.ADOPT,
        union,
        live,
        reason="; ".join((*adopted, *desired.left)),
        fence=fence,
        migration=migration,
        takes_over=takes,
        request=request,
        taken_from=taken_from(
            desired, live, owner, applyset, migrate=migration.managers, forced=request.force
        ),
    )


def _whom(owner: Owner) -> str:
    return {
        Owner.OTHER: "another set",
        Owner.CLAIMED: "this set, but is not in its inventory",
    }.get(owner, "no set")


def _refused(
    desired: Desired, entry: InventoryEntry, problem: Problem, live: LiveObject | None
) -> ApplyStep:
    where = problem.location or str(desired.origin)
    return ApplyStep(desired, Fate.REFUSE, entry, live, problem=replace(problem, location=where))


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

"""Check a whole plan before the first write: fields, conflicts, the server's dry run, approvals."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from applyprune.engine.checks.field_conflicts import (
    refuse_visible_conflicts,
    with_drift_decided,
)
from applyprune.engine.checks.fields import with_fields_checked
from applyprune.engine.checks.permissions import with_permissions_checked
from applyprune.engine.preview import NOT_APPLIED
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun
from applyprune.model.plan import Fate, Plan
from applyprune.planning.approval import as_reviewed, with_approval
from applyprune.planning.cascade import deletions_of, with_recreations_judged
from applyprune.planning.plan import completed, unchecked
from applyprune.planning.recovery import refuse_beyond_drift
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.plan_stage import PlanStage
    from applyprune.engine.steps.dry_run import ServerDryRun
    from applyprune.planning.approval import PlanFile


def _with_recreations_judged(plan: Plan, stage: PlanStage, context: RunContext) -> Plan:
    """Return a plan whose recreations are refused if they would delete what must stay."""
    options = context.options
    to_recreate = [
        step.live for step in plan.applies if step.fate is Fate.RECREATE and step.live is not None
    ]
    if not to_recreate:
        return plan
    deletions = deletions_of(to_recreate, {}, options.prune.propagation)
    found = stage.dependants.count(deletions)
    return with_recreations_judged(plan, found, stage.inventory.entries.keys(), options)


def check_plan(
    stage: PlanStage,
    context: RunContext,
    dry_run: ServerDryRun,
    *,
    only: Collection[Ref] | None = None,
    reviewed: PlanFile | None = None,
    continues: bool = False,
) -> Plan:
    """Return the plan with the fates that remain after every check; write nothing.

    The server checks it if the options say so: all of it, or ``only`` these objects. It has checked
    a plan that was ``reviewed``, which this run may continue: then an approval is of the whole.
    """
    options = context.options
    plan = with_fields_checked(stage.plan, context, stage.snapshot)  # guard: field-check
    asks_server = reviewed is None and (
        options.dry_run is DryRun.SERVER or (options.check and options.dry_run is DryRun.OFF)
    )
    plan = with_drift_decided(context, plan, stage.inventory.entries)
    if reviewed is not None:
        plan = as_reviewed(plan, reviewed)
    if asks_server:
        # An approval covers every recreation, so each must be found.
        plan = dry_run.check_applies(plan, only=None if options.prune.approved else only)
    plan = _with_recreations_judged(plan, stage, context)
    whole = reviewed.deletions if reviewed is not None and continues else ""
    plan = with_approval(refuse_visible_conflicts(context, plan), options, deletions=whole)
    if asks_server:
        plan = dry_run.check_removals(plan, only=only)
    if options.dry_run is DryRun.CLIENT:
        plan = unchecked(plan)
    if options.corrects:
        refuse_beyond_drift(plan)
    plan = completed(plan, context.applyset, options, keeps=stage.keeps)
    if stage.unknown and plan.removals and not plan.no_prune:
        plan = replace(plan, no_prune=NOT_APPLIED)
    if asks_server and options.check:
        plan = with_permissions_checked(
            plan, context, stage.inventory, makes_namespace=stage.makes_namespace
        )
    return plan

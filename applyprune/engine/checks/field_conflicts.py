"""Decide about fields that others own: what to do with drift, and what would be a conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.engine.steps.failures import apply_problem
from applyprune.errors import ApplypruneError
from applyprune.model.options import OnDrift
from applyprune.model.plan import Fate
from applyprune.planning.conflicts import may_have_drifted, shares_fields, visible_conflict
from applyprune.planning.decide import with_drift
from applyprune.planning.ownership import foreign_label
from applyprune.planning.plan import again
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from applyprune.engine.context import RunContext
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.plan import ApplyStep, Plan


def with_drift_decided(
    context: RunContext, plan: Plan, entries: Mapping[Ref, InventoryEntry]
) -> Plan:
    """Return the plan with the drift of its steps, and forced requests where only drift is forced.

    An object is read in full if it may have drifted, or if another manager owns a field that its
    manifest sets. ``entries`` are those of the inventory as read.
    """
    applyset, options = context.applyset, context.options
    if options.apply.on_drift is OnDrift.FAIL:
        return plan

    def decided(step: ApplyStep) -> ApplyStep:
        known = live = step.live
        try:
            # What is corrected alone was just read in full; its write guards that version.
            if live is None or live.body is None or not options.corrects:
                live = context.cluster.get(step.desired.resource, step.desired.ref, full=True)
        except ApplypruneError:
            return step  # the apply itself will report it
        if known is None or live.uid != known.uid:
            return step
        # guard: taken-before-the-revert
        if foreign_label(live, applyset) != foreign_label(known, applyset):
            return step
        fresh = replace(step, live=live)
        if step.request is not None:
            fresh = again(step, live, applyset, options)
        return with_drift(fresh, entries.get(step.desired.ref), applyset.manager, options)

    drifting = [
        step
        for step in plan.applies
        if may_have_drifted(step, applyset.manager) or shares_fields(step, applyset)
    ]
    return _with_each(context, plan, drifting, decided)


def refuse_visible_conflicts(context: RunContext, plan: Plan) -> Plan:
    """Return the plan with the steps refused that conflict with another field manager.

    An object is read in full if another manager owns a field that its manifest sets. What the
    server has checked is not judged again.
    """

    def checked(step: ApplyStep) -> ApplyStep:
        desired, live = step.desired, step.live
        try:
            if live is not None and live.body is None:
                live = context.cluster.get(desired.resource, desired.ref, full=True)
        except ApplypruneError:
            return step  # the apply itself will report it
        conflict = visible_conflict(replace(step, live=live), context.applyset)
        if conflict is None:
            return step
        problem = apply_problem(conflict, step, context)
        return replace(step, fate=Fate.REFUSE, request=None, problem=problem)

    shared = [
        step
        for step in plan.applies
        if not step.is_checked and shares_fields(step, context.applyset)
    ]
    return _with_each(context, plan, shared, checked)


def _with_each(
    context: RunContext,
    plan: Plan,
    steps: Sequence[ApplyStep],
    decide: Callable[[ApplyStep], ApplyStep],
) -> Plan:
    """Return the plan with these of its steps decided, in parallel."""
    found = {step.desired.ref: step for step in context.workers.each(decide, steps)}
    return replace(plan, applies=tuple(found.get(step.desired.ref, step) for step in plan.applies))

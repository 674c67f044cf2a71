"""Refuse the objects whose apply would end in a field conflict that can be seen beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.engine.steps.failures import apply_problem
from applyprune.errors import ApplypruneError
from applyprune.model.plan import Fate
from applyprune.planning.checks.visible_conflicts import shares_fields, visible_conflict

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.model.plan import ApplyStep, Plan


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
        problem = apply_problem(conflict, desired, context.cluster)
        return replace(step, fate=Fate.REFUSE, request=None, problem=problem)

    shared = [
        step
        for step in plan.applies
        if not step.is_checked and shares_fields(step, context.applyset)
    ]
    found = {step.desired.ref: step for step in context.workers.each(checked, shared)}
    return replace(plan, applies=tuple(found.get(step.desired.ref, step) for step in plan.applies))

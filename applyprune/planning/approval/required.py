"""Decide which part of a plan must wait for an approval: none, its deletions, or all of it.

An approval is the digest of exactly one plan, or of its deletions. It is compared with the plan
that was just made, so an approval of an earlier revision never lets a later one run.
"""

from __future__ import annotations

from applyprune.errors import NotApproved, as_problem
from applyprune.model.options import Approval, Mode, Options
from applyprune.model.plan import ApplyStep, Fate, Plan
from applyprune.model.problem import ProblemKind
from applyprune.values import replace

_DELETIONS = "the deletions are not approved"
_PLAN = "the plan is not approved"
_NOT_RECREATED = "it must be recreated, and that is not approved"
_UNCHANGED = frozenset({Fate.LEAVE, Fate.REFUSE})


def missing_approval(plan: Plan, options: Options, *, takes_set: bool) -> str:
    """Return the digest that must be approved before all of a plan may run; empty if none.

    ``takes_set`` says whether the set gets another owner.
    """
    if plan.faults or plan.lacks_rights:
        return ""  # nothing of it runs anyway
    if options.approval is Approval.ALWAYS:
        approved = plan.digest == options.approved_plan  # guard: whole-plan-approved
        return "" if approved or not (takes_set or _changes(plan)) else plan.digest
    if options.approval is Approval.PRUNE or plan.refusal is not None:
        approved = plan.deletions == options.prune.approved  # guard: deletions-approved
        return "" if approved else plan.deletions
    return ""


def without_unapproved(plan: Plan, options: Options, *, takes_set: bool) -> Plan:
    """Return the plan as it may run now: without the deletions if they must be approved first.

    With ``Approval.ALWAYS`` nothing of a plan with ``needs_approval`` may run.
    """
    missing = missing_approval(plan, options, takes_set=takes_set)
    plan = replace(plan, needs_approval=missing)
    if not missing or options.approval is Approval.AUTOMATIC:
        return plan
    message = _PLAN if options.approval is Approval.ALWAYS else _DELETIONS
    if options.approval is Approval.PRUNE:
        plan = replace(plan, applies=tuple(map(_not_recreated, plan.applies)))
    problem = as_problem(NotApproved(message, reason=f"it needs an approval of {missing}"))
    return replace(
        plan,
        no_prune=plan.no_prune or (message if plan.removals else ""),  # guard: unapproved-deletions
        refusal=plan.refusal or problem,
    )


def is_held(plan: Plan, options: Options) -> bool:
    """Return whether nothing of a plan may run: for a fault, a refused prune, or no approval."""
    prune_is_refused = (
        options.mode is Mode.APPLY
        and plan.refusal is not None
        and plan.refusal.kind is ProblemKind.PRUNE_REFUSED
        and not plan.restored
        and not options.prune.apply_anyway  # guard: apply-anyway
    )
    is_unapproved = options.approval is Approval.ALWAYS and bool(plan.needs_approval)
    lacks_rights = plan.lacks_rights  # guard: missing-rights
    is_wrong = bool(plan.faults) or lacks_rights or prune_is_refused
    return is_wrong or is_unapproved  # guard: unapproved-plan


def _changes(plan: Plan) -> bool:
    """Return whether a plan changes any object, or which objects the inventory lists."""
    fates = {step.fate for step in plan.applies}
    if not plan.no_prune:
        fates |= {step.fate for step in plan.removals}
    return bool(plan.recovered) or not fates <= _UNCHANGED


def _not_recreated(step: ApplyStep) -> ApplyStep:
    if step.fate is not Fate.RECREATE:
        return step
    return replace(
        step,
        fate=Fate.LEAVE,
        reason=_NOT_RECREATED,
        request=None,
        deletion=None,
        awaits_approval=True,
    )

"""Judge an approval of deletions, once the checks have found everything that would be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.planning.approval.digests import deletions_digest
from applyprune.planning.plan import settled
from applyprune.planning.prune.guards import of_other_approval
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.options import Options
    from applyprune.model.plan import Plan


def with_approval(plan: Plan, options: Options, *, deletions: str = "") -> Plan:
    """Return a plan with the digest of its deletions, and a refused prune lifted if it is approved.

    Call it after the check of the applies, which finds the recreations, and before the check of the
    removals: one that the server refuses stays in the digest. ``deletions`` replaces the digest if
    the plan is the rest of an earlier one, which was interrupted.
    """
    prunes = options.prune.enabled and not plan.restored
    found = deletions or deletions_digest(plan.applies, plan.removals if prunes else ())
    plan = replace(plan, deletions=found)
    lifted, approved = plan.if_approved, options.prune.approved
    if plan.refusal is None or lifted is None or not approved:
        return plan
    exactly = found == approved  # guard: one-approval
    if not exactly:
        return replace(plan, refusal=of_other_approval(plan.refusal, approved, found))
    # Some steps may have been left out since: objects of an API group that does not answer.
    steps = {step.entry.ref: step for step in lifted.steps}
    return settled(
        replace(
            plan,
            removals=tuple(steps[step.entry.ref] for step in plan.removals),
            guards=lifted.guards,
            refusal=lifted.refusal,
            if_approved=None,
        ),
        options,
    )

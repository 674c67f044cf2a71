"""Name the objects of a Bundle, and how a reconcile has left each, to compare it with a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.controller.drift.drift_hint import GONE, Mark
from applyprune.controller.drift.drift_spec import DriftPolicy
from applyprune.controller.task import AppliedObjects

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.result import RunResult
    from applyprune.model.plan import ApplyStep

MOST_WATCHED = 20_000
"""Objects of one Bundle of which drift is seen at once; of more, only the interval shows it."""


def applied_objects(
    bundle: Bundle, run_result: RunResult, *, is_part: bool
) -> AppliedObjects | None:
    """Return the objects of a run; None without a plan."""
    if run_result.plan is None:
        return None
    target = bundle.target
    waits = bool(run_result.waiting)
    steps = [step for step in run_result.plan.applies if not step.is_unlisted]
    is_followed = bundle.spec.drift.policy is not DriftPolicy.IGNORE or waits
    # In another cluster, nothing is watched: there, only the interval triggers.
    is_here = bundle.spec.kube_config is None
    if not (is_followed and is_here) or len(steps) > MOST_WATCHED:
        steps = []
    return AppliedObjects(
        bundle.spec.service_account_name,
        target.id,
        target.manager,
        frozenset((step.desired.resource, step.desired.ref.namespace) for step in steps),
        {step.desired.ref: _mark(step, run_result, target.manager) for step in steps},
        is_part,
        waits,
    )


def _mark(step: ApplyStep, run_result: RunResult, manager: str) -> Mark:
    """Return how a run has left an object; an unknown mark if it was sent without a clear reply."""
    ref = step.desired.ref
    if (fingerprint := run_result.stored.get(ref)) is not None:
        return Mark.applied(fingerprint)
    if ref in run_result.written:
        return Mark()
    return GONE if step.live is None else Mark.of(step.live, manager)

"""Set back the drift of single objects, while nothing else of their Bundle needs a look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.controller.bundle_client import status_of
from applyprune.controller.constants import FINALIZER, Reason
from applyprune.controller.drift.drift_spec import DriftPolicy
from applyprune.controller.result import RunResult
from applyprune.controller.status import ConditionStatus, is_ready
from applyprune.model.options import Approval
from applyprune.planning.annotations import RECONCILE_NOW

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.status import ReconcileResult
    from applyprune.controller.task import Past
    from applyprune.model.live import LiveObject


def may_correct_alone(live: LiveObject, bundle: Bundle, past: Past, revision: str) -> bool:
    """Return whether drift is all that may have changed since the last reconcile.

    ``revision`` is that of the source now. Whatever else there is to decide or to report needs the
    whole set: a change of the Bundle or of its source, a request, a failure, an approval.
    """
    status, spec = status_of(live), bundle.spec
    sets_back = spec.drift.policy is DriftPolicy.CORRECT and spec.approval is Approval.AUTOMATIC
    is_settled = is_ready(status, live.generation) and "pendingPlan" not in status
    requested = live.annotations.get(RECONCILE_NOW, "")
    return (
        sets_back
        and is_settled
        and FINALIZER in live.finalizers
        and not past.failures
        and status.get("lastAppliedRevision") == revision
        and status.get("lastAttemptedRevision") == revision
        and status.get("lastHandledReconcileAt", "") == requested
    )


def result_of_part(live: LiveObject, *, secret: bool) -> RunResult:
    """Return the result to collect of a run about a part of a Bundle's set, whose size is known."""
    objects = status_of(live).get("objects") or {}
    return RunResult(secret, set_size=int(objects.get("total") or 0))


def delay_after(delay: float | None, result: ReconcileResult) -> float | None:
    """Return the seconds until the next reconcile of the whole set, after one of a part of it.

    None leaves the time that is known already.
    """
    if result.ready is ConditionStatus.READY:
        return None
    if result.ready is ConditionStatus.WAITING or result.reason is Reason.CONTENDED:
        return delay
    return 0.0


def leaves_drift(result: ReconcileResult, *, is_for_drift: bool) -> bool:
    """Return whether a reconcile has failed to set back drift for a reason that may pass.

    ``is_for_drift`` says that drift was the reason for it; else only its plan shows drift.
    """
    run = result.run_result
    if result.ready is not ConditionStatus.NOT_READY or not result.retries:
        return False
    if run is None or run.plan is None:
        return is_for_drift and result.reason in {Reason.API_ERROR, Reason.UNREACHABLE}
    drifted = {step.desired.ref for step in run.plan.applies if step.is_reapplied or step.drift}
    passing = {ref for ref, failed in run.failing.items() if failed.passing}
    return not drifted.isdisjoint(passing)

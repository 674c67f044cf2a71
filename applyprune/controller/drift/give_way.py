"""Give way to who wins a fight: before a reconcile in its options, after it in its result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.controller.bundle_client import status_of
from applyprune.controller.constants import Reason
from applyprune.controller.drift.contention import to_leave
from applyprune.controller.drift.drift_report import (
    begins_anew,
    counts_before,
    drift_report,
    limits_of,
)
from applyprune.controller.drift.drift_spec import DriftPolicy
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.model.options import Approval
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.model.live import LiveObject
    from applyprune.model.plan_values.field_writer import FieldWriter

_SOONEST = 1.0


def contended_now(live: LiveObject, bundle: Bundle, revision: str) -> frozenset[FieldWriter]:
    """Return the managers that win in this reconcile if they have changed their fields again."""
    return to_leave(counts_before(live, revision), limits_of(bundle), _now())


def tries_rewritten(live: LiveObject, bundle: Bundle, revision: str) -> bool:
    """Return whether this reconcile sends again what admission has rewritten.

    Once, because whoever has changed or asked for something may have removed the webhook too.
    """
    spec = bundle.spec
    # A plan that waits for an approval would not be the same in the next reconcile.
    may_send = spec.drift.policy is DriftPolicy.CORRECT and spec.approval is not Approval.ALWAYS
    return may_send and bool(status_of(live).get("rewritten")) and begins_anew(live, revision)


def with_drift_reported(
    result: ReconcileResult, live: LiveObject, bundle: Bundle, *, is_part: bool
) -> ReconcileResult:
    """Return the result of a reconcile with what it says about drift.

    A Bundle with an object that is left alone is not ready. With ``is_part``, the reconcile was
    about some of the objects only.
    """
    counts, status = counts_before(live, result.revision), status_of(live)
    report = drift_report(bundle, counts, status, result.run_result, _now(), is_part=is_part)
    result = replace(result, drift=report)
    if result.ready is not ConditionStatus.READY or not report.contended:
        return result
    message = f"left alone: {report.contended}; see the condition Drifted"
    return replace(
        result, ready=ConditionStatus.NOT_READY, reason=Reason.CONTENDED, message=message
    )


def sooner(seconds: float, result: ReconcileResult) -> float:
    """Return the seconds until the next reconcile: at the latest when a contended field is quiet.

    ``seconds`` is without contention.
    """
    due = result.drift.due if result.drift is not None else None
    if due is None:
        return seconds
    return min(seconds, max(_SOONEST, (due - _now()).total_seconds()))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)

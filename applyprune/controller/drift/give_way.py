"""Give way to who wins a fight: before a reconcile in its options, after it in its result."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.controller.bundle_client import status_of
from applyprune.controller.constants import Reason
from applyprune.controller.drift.contention import to_leave
from applyprune.controller.drift.drift_report import counts_before, drift_report, limits_of
from applyprune.controller.status import ConditionStatus, ReconcileResult

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.model.live import LiveObject
    from applyprune.model.plan_values.field_writer import FieldWriter

_SOONEST = 1.0


def contended_now(live: LiveObject, bundle: Bundle, revision: str) -> frozenset[FieldWriter]:
    """Return the managers that win in this reconcile if they have changed their fields again."""
    return to_leave(counts_before(live, revision), limits_of(bundle), _now())


def with_drift_reported(
    result: ReconcileResult, live: LiveObject, bundle: Bundle
) -> ReconcileResult:
    """Return the result of a reconcile with what it says about drift.

    A Bundle with an object that is left alone is not ready.
    """
    counts = counts_before(live, result.revision)
    report = drift_report(bundle, counts, status_of(live), result.run_result, _now())
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

"""Compute a Bundle's status after a reconcile; the same value when nothing has changed.

Times change only together with something else, so an idle reconcile writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from applyprune.controller.constants import STALLING, Condition, Reason
from applyprune.controller.drift.drift_report import DriftReport
from applyprune.controller.pending_plan import PendingPlan
from applyprune.controller.result import RunResult, problem_message
from applyprune.model.events import Outcome
from applyprune.model.holder_observation import HolderObservation
from applyprune.model.problem import ProblemKind

Status = dict[str, Any]

FAILING_SHOWN = 10
_MESSAGE = 1024


class ConditionStatus(StrEnum):
    """The new status of the Ready condition; ``SAME`` keeps the old one, if suspended."""

    READY = "True"
    NOT_READY = "False"
    SAME = ""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of one reconcile of a Bundle."""

    ready: ConditionStatus
    reason: Reason
    message: str
    revision: str = ""
    """The revision of the source; empty if it was not read."""
    run_result: RunResult | None = field(default=None, compare=False)
    """None without a run."""
    pending: PendingPlan | None = None
    """What of the run's plan waits for an approval."""
    retries: bool = False
    """Whether it is retried before ``interval`` is over."""
    observation: HolderObservation | None = None
    """What was seen of another run that holds the inventory; None if none does."""
    done: bool = False
    """Whether nothing is left to do for a removal."""
    drift: DriftReport | None = field(default=None, compare=False)
    """What it says about drift; None if it knows nothing about it."""


def progressing(before: Mapping[str, Any], generation: int, now: str) -> Status:
    """Return the status while a new generation is being applied."""
    status = dict(before)
    # observedGeneration does not change: the new generation has not been applied yet.
    status["conditions"] = _conditions(
        before,
        {
            Condition.READY: ("Unknown", Reason.PROGRESSING, f"generation {generation}"),
            Condition.RECONCILING: ("True", Reason.PROGRESSING, f"generation {generation}"),
        },
        generation,
        now,
    )
    return status


def after(
    before: Mapping[str, Any],
    result: ReconcileResult,
    *,
    generation: int,
    now: str,
    requested: str = "",
    inventory: tuple[str, str] | None = None,
) -> Status:
    """Return the status after a reconcile.

    ``requested`` is the value of the annotation that requested it. ``inventory`` is the
    ConfigMap's name and the set's id. ``now`` is the time of changes, RFC 3339 in UTC.
    """
    status = dict(before)
    status["observedGeneration"] = generation
    if requested:
        status["lastHandledReconcileAt"] = requested
    if inventory is not None:
        status["inventory"] = {"name": inventory[0], "set": inventory[1]}
    if result.revision:
        status["lastAttemptedRevision"] = result.revision
        if result.ready is ConditionStatus.READY:
            status["lastAppliedRevision"] = result.revision
    if (run := result.run_result) is not None and (run.plan is not None or run.failing):
        # An input with errors has no plan, but its other objects were checked.
        known = status.get("objects", {}) if run.plan is None else {"total": run.total}
        status["objects"] = {**known, "failing": len(run.failing)}
        _put(status, "failing", _failing(run))
    if run is not None and run.plan is not None:
        _put(status, "pendingPlan", _pending(before, result, now))
        if run.changed:
            status["lastChange"] = _change(run, now)
    for key, value in (result.drift.fields if result.drift is not None else {}).items():
        _put(status, key, value)
    status["conditions"] = _conditions(before, _wanted(result), generation, now)
    return status


def _wanted(result: ReconcileResult) -> dict[Condition, tuple[str, Reason, str]]:
    explained = (result.reason, result.message)
    stalled = result.reason in STALLING
    wanted = {
        Condition.RECONCILING: ("True", Reason.RETRYING, result.message)
        if result.retries and not stalled
        else ("False", *explained),
        Condition.STALLED: ("True" if stalled else "False", *explained),
    }
    if result.ready is not ConditionStatus.SAME:
        wanted[Condition.READY] = (str(result.ready), *explained)
    if (run := result.run_result) is not None and run.plan is not None:
        wanted[Condition.PRUNE_BLOCKED] = _blocked(run, result.pending)
    if result.drift is not None and result.drift.condition is not None:
        wanted[Condition.DRIFTED] = result.drift.condition
    return wanted


def _blocked(run: RunResult, pending: PendingPlan | None) -> tuple[str, Reason, str]:
    if pending is not None and pending.deletes:
        return "True", pending.reason, pending.message
    if run.refusal is not None and run.refusal.kind is ProblemKind.PRUNE_REFUSED:
        return "True", Reason.PRUNE_REFUSED, problem_message(run.refusal)
    return "False", Reason.NOTHING_TO_DO, "no prune is blocked"


def _conditions(
    before: Mapping[str, Any],
    wanted: Mapping[Condition, tuple[str, Reason, str]],
    generation: int,
    now: str,
) -> list[dict[str, Any]]:
    """Return all conditions; one without a new value keeps its old one, or is Unknown."""
    known = {condition["type"]: condition for condition in before.get("conditions") or ()}
    conditions = []
    for kind in Condition:
        old = known.get(kind)
        if kind not in wanted and old is not None:
            conditions.append(old)
            continue
        unknown = ("Unknown", Reason.PROGRESSING, "not known yet")
        status, reason, message = wanted.get(kind, unknown)
        changed = old is None or old["status"] != status
        conditions.append(
            {
                "type": str(kind),
                "status": status,
                "reason": str(reason),
                "message": _cut(message),
                "lastTransitionTime": now if old is None or changed else old["lastTransitionTime"],
                "observedGeneration": generation,
            }
        )
    return conditions


def is_ready(status: Mapping[str, Any], generation: int | None) -> bool:
    """Return whether a Bundle is ready in its current generation."""
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return status.get("observedGeneration") == generation and any(
        condition.get("type") == Condition.READY and condition.get("status") == "True"
        for condition in conditions
    )


def _failing(run: RunResult) -> list[dict[str, str]]:
    ordered = sorted(run.failing.values(), key=lambda failed: (failed.skipped, failed.ref))
    return [
        {
            "object": failed.ref.short,
            **({"namespace": failed.ref.namespace} if failed.ref.namespace else {}),
            "message": failed.message,
        }
        for failed in ordered[:FAILING_SHOWN]
    ]


def _pending(before: Mapping[str, Any], result: ReconcileResult, now: str) -> dict[str, Any] | None:
    if result.pending is None:
        return None
    known = before.get("pendingPlan") or {}
    return result.pending.status(known, revision=result.revision, now=now)


def _change(run: RunResult, now: str) -> dict[str, Any]:
    counts = run.outcomes
    removed = (Outcome.PRUNED, Outcome.DELETED, Outcome.ORPHANED, Outcome.REMOVED_FROM_INVENTORY)
    return {
        "time": now,
        "seconds": round(run.elapsed, 1),
        "created": counts[Outcome.CREATED],
        "configured": counts[Outcome.CONFIGURED] + counts[Outcome.RECREATED],
        "removed": sum(counts[outcome] for outcome in removed),
    }


def _put(status: Status, key: str, value: object) -> None:
    """Set a field, or remove it when its value is empty."""
    if value:
        status[key] = value
    else:
        status.pop(key, None)


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"

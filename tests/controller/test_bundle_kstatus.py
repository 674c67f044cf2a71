"""What tools read from a Bundle in each of its states: by kstatus' rules, and by ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.controller.pending_plan import PendingPlan, Scope
from applyprune.controller.reasons import STALLED_REASONS, Reason
from applyprune.controller.result import FailedObject, RunResult
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    progressing_status,
    status_after,
)
from applyprune.model.events import Status
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.readiness import assess

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = "2026-01-01T00:00:00Z"
REF = Ref("", "ConfigMap", "shop", "a")
NEW = {"observedGeneration": -1}
"""The status that the CRD gives a new Bundle."""
PENDING = PendingPlan(
    "sha256:d",
    Scope.DELETIONS,
    {"prune": 1},
    ((Fate.PRUNE, REF),),
    Reason.PENDING_APPROVAL,
    "m",
    "s",
)
REFUSAL = Problem(ProblemKind.PRUNE_REFUSED, "refused")
FAILING = {REF: FailedObject(REF, "no", ProblemKind.RUN_FAILED)}


def ended(
    before: Mapping[str, Any], ready: ConditionStatus, reason: Reason, generation: int, **more: Any
) -> dict[str, Any]:
    """Return the status after a reconcile."""
    result = ReconcileResult(ready, reason, "m", **more)
    return status_after(before, result, generation=generation, now=NOW)


def failed(reason: Reason, generation: int = 1, **more: Any) -> dict[str, Any]:
    """Return the status after a failure."""
    return ended(NEW, ConditionStatus.NOT_READY, reason, generation, retries=True, **more)


APPLIED = ended(NEW, ConditionStatus.READY, Reason.APPLIED, 1)
SUSPENDED = ended(APPLIED, ConditionStatus.SAME, Reason.SUSPENDED, 2)
WAITING = ended(NEW, ConditionStatus.NOT_READY, Reason.PENDING_APPROVAL, 1,
    run_result=RunResult(plan=Plan((), ())), pending=PENDING)  # fmt: skip
BLOCKED = failed(Reason.PRUNE_REFUSED, run_result=RunResult(plan=Plan((), ()), refusal=REFUSAL))
BROKEN = failed(Reason.APPLY_FAILED, run_result=RunResult(plan=Plan((), ()), failing=FAILING))
STALLED = failed(Reason.INVALID_SOURCE)
CURRENT, IN_PROGRESS, FAILED = Status.CURRENT, Status.IN_PROGRESS, Status.FAILED
CASES: dict[str, tuple[dict[str, Any], int, Status]] = {
    "no controller runs": (NEW, 1, IN_PROGRESS),
    "it is being applied": (progressing_status(NEW, 1, NOW), 1, IN_PROGRESS),
    "it is applied": (APPLIED, 1, CURRENT),
    "its spec has changed": (APPLIED, 2, IN_PROGRESS),
    "the change is being applied": (progressing_status(APPLIED, 2, NOW), 2, IN_PROGRESS),
    "that of a stalled one is": (progressing_status(STALLED, 2, NOW), 2, IN_PROGRESS),
    "an object fails": (BROKEN, 1, IN_PROGRESS),
    "it failed and is applied now": (
        ended(failed(Reason.APPLY_FAILED), ConditionStatus.READY, Reason.APPLIED, 1), 1, CURRENT
    ),
    "it stalled and is applied now": (
        ended(STALLED, ConditionStatus.READY, Reason.APPLIED, 1), 1, CURRENT
    ),
    "a plan waits": (WAITING, 1, IN_PROGRESS),
    "a guard refuses the prune": (BLOCKED, 1, FAILED),
    "it is created suspended": (
        ended(NEW, ConditionStatus.SAME, Reason.SUSPENDED, 1), 1, IN_PROGRESS
    ),
    "it is changed and suspended in one edit": (SUSPENDED, 2, IN_PROGRESS),
    "it is resumed": (SUSPENDED, 3, IN_PROGRESS),
    "it is resumed and being applied": (progressing_status(SUSPENDED, 3, NOW), 3, IN_PROGRESS),
    "it is resumed and applied": (
        ended(SUSPENDED, ConditionStatus.READY, Reason.APPLIED, 3), 3, CURRENT
    ),
    **{
        f"a failure: {reason}": (
            failed(reason), 1, FAILED if reason in STALLED_REASONS else IN_PROGRESS
        )
        for reason in Reason
    },
}  # fmt: skip


def kstatus(body: Mapping[str, Any]) -> Status:
    """Return what kstatus computes for a custom resource (cli-utils, pkg/kstatus/status)."""
    metadata, status = body["metadata"], body["status"]
    if metadata.get("deletionTimestamp"):
        return Status.TERMINATING
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return Status.IN_PROGRESS
    conditions = status.get("conditions", ())
    for condition in conditions:
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return Status.IN_PROGRESS
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return Status.FAILED
    for condition in conditions:
        if condition["type"] == "Ready":
            return Status.CURRENT if condition["status"] == "True" else Status.IN_PROGRESS
    return Status.CURRENT


def test_tools_read_the_state_of_a_bundle() -> None:
    """Ready only if the last generation is applied, however long nobody writes a status.

    `kubectl wait` reads the condition alone, and ignores one of an older generation.
    """
    for name, (status, generation, expected) in CASES.items():
        metadata = {"name": "web", "namespace": "shop", "generation": generation}
        body = {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Bundle", "metadata": metadata,
                "status": status}  # fmt: skip
        assert kstatus(body) is expected, name
        assert assess(body, waited=3600.0, has_status=True).status is expected, name
        met = any(
            (one["type"], one["status"]) == ("Ready", "True")
            and one["observedGeneration"] >= generation
            for one in status.get("conditions", ())
        )
        assert met is (expected is CURRENT), name
        metadata["deletionTimestamp"] = NOW
        assert kstatus(body) is assess(body).status is Status.TERMINATING, name

"""When drift of single objects is all there is to do for a Bundle."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.controller.reasons import Reason
from applyprune.controller.reconcile import (
    delay_after,
    fails_to_revert,
    may_correct_alone,
    result_of_part,
)
from applyprune.controller.result import FailedObject, RunResult
from applyprune.controller.spec import SPEC, BundleSpec
from applyprune.controller.status import ConditionStatus, ReconcileResult, next_reconcile
from applyprune.controller.task import ReconcileHistory
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problem import ProblemKind
from applyprune.planning.marks import FINALIZER
from applyprune.values import packed, replace
from tests.support.planning import desired, live, recorded

REF = Ref("applyprune.dev", "Bundle", "shop", "web")
READY = {"type": "Ready", "status": "True", "reason": "Applied", "observedGeneration": 2}
STATUS: dict[str, Any] = {
    "observedGeneration": 2,
    "conditions": [READY],
    "lastAppliedRevision": "r",
    "lastAttemptedRevision": "r",
    "lastHandledReconcileAt": "1",
    "objects": {"total": 7, "failing": 0},
}
METADATA: dict[str, Any] = {
    "name": "web",
    "namespace": "shop",
    "generation": 2,
    "finalizers": [FINALIZER],
    "annotations": {"applyprune.dev/reconcile-now": "1"},
}


def may(
    status: dict[str, Any] = STATUS,
    metadata: dict[str, Any] = METADATA,
    history: ReconcileHistory | None = None,
    revision: str = "r",
    **spec: Any,
) -> bool:
    """Return whether the drift of an object of a Bundle may be reverted alone."""
    found = LiveObject.of(REF, "u", "1", metadata, {"metadata": metadata, "status": status})
    parsed = SPEC.validate_python({"source": {"inline": ""}, **spec})
    return may_correct_alone(
        found, BundleSpec("shop", "web", parsed, 1.0, 2), history or ReconcileHistory(), revision
    )


NOT_READY = {**READY, "status": "False", "reason": "Contended"}
CASES: dict[str, dict[str, Any]] = {
    "a policy that leaves drift": {"drift": {"policy": "Report"}},
    "plans that need an approval": {"approval": "Always"},
    "deletions that need an approval": {"approval": "Prune"},
    "another revision": {"revision": "s"},
    "a revision that was never applied": {"status": {**STATUS, "lastAppliedRevision": "q"}},
    "another generation": {"metadata": {**METADATA, "generation": 3}},
    "a request": {"metadata": {**METADATA, "annotations": {}}},
    "no finalizer": {"metadata": {**METADATA, "finalizers": []}},
    "a failure": {"history": ReconcileHistory(failures=1)},
    "a Bundle that is not ready": {"status": {**STATUS, "conditions": [NOT_READY]}},
    "a plan that waits": {"status": {**STATUS, "pendingPlan": {"digest": "d"}}},
    "a Bundle that was never applied": {"status": {}},
}


@pytest.mark.parametrize("what", CASES)
def test_anything_but_drift_needs_the_whole_set(what: str) -> None:
    """It is planned and reported as a whole."""
    assert may()
    assert not may(**CASES[what])


ENDS = {
    "corrected": (ConditionStatus.READY, Reason.APPLIED, None),
    "not ready yet": (ConditionStatus.WAITING, Reason.PROGRESSING, 5.0),
    "contended until somebody is quiet": (ConditionStatus.NOT_READY, Reason.CONTENDED, 5.0),
    "failed": (ConditionStatus.NOT_READY, Reason.APPLY_FAILED, 0.0),
}


@pytest.mark.parametrize("what", ENDS)
def test_part_does_not_postpone_the_whole(what: str) -> None:
    """Only its failure is looked at as a whole at once."""
    ready, reason, expected = ENDS[what]
    assert delay_after(5.0, ReconcileResult(ready, reason, "m")) == expected


def ended(
    reason: Reason = Reason.APPLY_FAILED,
    *,
    passing: bool = True,
    is_drift: bool = True,
    has_plan: bool = True,
    ready: ConditionStatus = ConditionStatus.NOT_READY,
) -> ReconcileResult:
    """Return the result of a reconcile in which one object has failed."""
    one = desired()
    step = ApplyStep(one, Fate.CHANGE, recorded(one, live(one.ref)), is_reapplied=is_drift)
    plan = Plan((step,), ()) if has_plan else None
    failed = FailedObject(one.ref, "m", ProblemKind.CONFLICT, passing=passing)
    run = RunResult(plan=plan, failing={one.ref: failed})
    return ReconcileResult(ready, reason, "m", run_result=run, retries=True)


LEFT = {
    "a write of somebody else in between": (True, ended(), False),
    "a refusal": (False, ended(passing=False), True),
    "a new manifest": (False, ended(is_drift=False), True),
    "no failure": (False, ended(ready=ConditionStatus.READY), True),
    "no answer": (True, ended(Reason.UNREACHABLE, has_plan=False), True),
    "no answer, without a hint of drift": (
        False,
        ended(Reason.UNREACHABLE, has_plan=False),
        False,
    ),
    "no right": (False, ended(Reason.FORBIDDEN, has_plan=False), True),
}


@pytest.mark.holds("reverts-again-soon", row="a write of somebody else in between")
@pytest.mark.parametrize("what", LEFT)
def test_drift_that_a_passing_failure_leaves_is_tried_again_soon(what: str) -> None:
    """Whatever else fails waits for ``retryInterval``."""
    expected, result, is_for_drift = LEFT[what]
    assert fails_to_revert(result, is_for_drift=is_for_drift) is expected
    about = BundleSpec("shop", "web", SPEC.validate_python({"source": {"inline": ""}}), 1.0, 2)
    delays = []
    history = ReconcileHistory()
    for _ in range(3):
        delay, history = next_reconcile(history, about, result, fails_to_revert=expected)
        delays.append(delay)
    # Each is spread by a tenth.
    assert delays == pytest.approx([1, 2, 4] if expected else [30, 60, 120], rel=0.101)
    assert history.unreverted == (3 if expected else 0)


def test_size_of_the_set_is_the_known_one() -> None:
    """A run of one object does not make it a set of one."""
    found = LiveObject.of(REF, "u", "1", METADATA, {"status": STATUS})
    spec = SPEC.validate_python({"source": {"secretRefs": [{"name": "s"}]}})
    bundle = BundleSpec("shop", "web", spec, 1.0)
    part = result_of_part(found, bundle)
    assert (part.total, part.secret, part.elsewhere) == (7, True, None)
    assert result_of_part(replace(found, packed_body=packed({})), bundle).total == 0

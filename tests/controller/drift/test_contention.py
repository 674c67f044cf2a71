"""Who wins a fight about an object, and when drift of single objects is all there is to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applyprune.controller.drift import (
    MOST_COUNTS,
    RevertCount,
    WriteSighting,
    count_status,
    read_counts,
    updated_counts,
    winning_writers,
)
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
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problem import ProblemKind
from applyprune.planning.marks import FINALIZER
from applyprune.values import packed, replace
from tests.support.planning import desired, live, recorded

LIMIT = 3
START = datetime(2026, 1, 1, tzinfo=UTC)
WRITER = ObjectWriter("configmap/a", "shop", "kubectl-patch")
RIVAL = replace(WRITER, manager="other")
SCALER = ObjectWriter("deployment.apps/web", "shop", "kube-controller-manager")


ALL = {(f"configmap/{name}", "shop") for name in ("a", *range(MOST_COUNTS))} | {
    (SCALER.object, SCALER.namespace)
}


def at(minutes: float) -> datetime:
    """Return a time after the start."""
    return START + timedelta(minutes=minutes)


def reverted(writer: ObjectWriter = WRITER) -> WriteSighting:
    """Return an object that a run has reverted."""
    return WriteSighting(writer, is_reverted=True)


def left(minutes: float | None, writer: ObjectWriter = WRITER) -> WriteSighting:
    """Return a contended object, which its manager has changed at a time."""
    return WriteSighting(writer, is_reverted=False, time=None if minutes is None else at(minutes))


def after(
    counts: tuple[RevertCount, ...], now: float, *sightings: WriteSighting
) -> tuple[RevertCount, ...]:
    """Return the counts after a run that was about all objects."""
    return updated_counts(counts, sightings, ALL, LIMIT, at(now))


def fought(*minutes: float) -> tuple[RevertCount, ...]:
    """Return the counts after the object was reverted at these times."""
    counts: tuple[RevertCount, ...] = ()
    for minute in minutes:
        counts = after(counts, minute, reverted())
    return counts


LEFT_ALONE = {
    "never reverted": ((), 0.0, False),
    "reverted less often": ((0, 1), 1.0, False),
    "reverted as often as allowed": ((0, 1, 2), 2.0, True),
    "until its manager was quiet": ((0, 1, 2), 12.9, True),
    "and not afterwards": ((0, 1, 2), 13.0, False),
    "reverted slowly": ((0, 10, 20), 20.0, True),
    "reverted after its manager was quiet": ((0, 1, 12), 12.0, False),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_manager_wins_after_so_many_reverts_without_a_quiet_time(name: str) -> None:
    """Then its next change of the object stays."""
    times, now, expected = LEFT_ALONE[name]
    assert winning_writers(fought(*times), LIMIT, at(now)) == ({WRITER} if expected else set())


@pytest.mark.holds("contended-until-quiet")
def test_contended_object_stays_left_until_its_manager_is_quiet() -> None:
    """Each of its changes begins the time again."""
    counts = after(fought(0, 1, 2), 12, left(12))
    assert winning_writers(counts, LIMIT, at(22.9)) == {WRITER}
    assert [count.quiet_at for count in counts] == [at(23)]
    assert winning_writers(counts, LIMIT, at(23)) == frozenset()
    # It is reverted, and counted from one.
    assert after(counts, 23, reverted()) == (RevertCount(WRITER, 1, at(23)),)


def test_news_of_a_fight_that_goes_on_are_few() -> None:
    """A status is written once in a minute at most, however often the manager writes."""
    counts = fought(0, 1, 2)
    assert after(counts, 2.9, left(2.9)) == counts
    assert after(counts, 3, left(3)) != counts


def test_change_without_a_time_holds_an_object_no_longer() -> None:
    """The server's record has none for the scale subresource."""
    counts = (RevertCount(SCALER, LIMIT, at(2)),)
    assert after(counts, 12, left(None, SCALER)) == counts


def test_time_of_the_future_does_not_hold_an_object_longer() -> None:
    """A managedFields entry can be edited."""
    (one,) = after(fought(0, 1, 2), 3, left(999))
    assert one.last == at(3)


def test_contended_object_without_a_count_gets_one() -> None:
    """Another process may have read it."""
    assert after((), 3, left(2)) == (RevertCount(WRITER, LIMIT, at(2)),)
    assert after((), 3, left(None)) == (RevertCount(WRITER, LIMIT, at(3)),)


def test_idle_run_changes_no_count() -> None:
    """Until its manager was quiet."""
    for counts in (fought(0, 1), fought(0, 0.5, 1)):
        assert after(counts, 11.9) == counts
        assert after(counts, 12) == ()


def test_each_manager_has_one_count_for_an_object() -> None:
    """Whatever it changes together."""
    counts = after((), 0, reverted(), reverted(RIVAL), reverted())
    assert {(one.writer, one.reverts) for one in counts} == {(WRITER, 1), (RIVAL, 1)}


def test_counts_are_bounded() -> None:
    """The contended and the latest ones stay."""
    many = (
        reverted(replace(WRITER, object=f"configmap/{number}")) for number in range(MOST_COUNTS)
    )
    counts = after(fought(0, 1, 2), 4, left(4), *many)
    assert len(counts) == MOST_COUNTS
    assert counts[0].writer == WRITER


def test_objects_outside_the_run_keep_their_counts() -> None:
    """A run may be about one object only."""
    counts = fought(0, 1, 2)
    place = {(SCALER.object, "shop")}
    scaled = updated_counts(counts, [reverted(SCALER)], place, LIMIT, at(30))
    assert scaled == (*counts, RevertCount(SCALER, 1, at(30)))


def test_counts_survive_the_status() -> None:
    """In whole seconds, as every time of the API."""
    gone = RevertCount(ObjectWriter("configmap/a", "", ""), 1, at(0))
    stored = {"contention": [count_status(count) for count in (*fought(0, 1, 2), gone)]}
    assert read_counts(stored) == (*fought(0, 1, 2), gone)
    assert read_counts({}) == ()
    assert stored["contention"][1] == {
        "object": "configmap/a",
        "reverts": 1,
        "last": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    "time",
    [
        pytest.param("9999-12-31T23:59:59Z", marks=pytest.mark.holds("forged-time")),
        "0001-01-01T00:00:00+14:00",
        "x",
        "",
    ],
)
def test_forged_time_is_ignored(time: str) -> None:
    """Whoever may write the status may write one with which nothing can be calculated."""
    stored = {**count_status(RevertCount(WRITER, LIMIT, at(0))), "last": time}
    counts = read_counts({"contention": [stored]})
    assert counts == ()
    assert winning_writers(counts, LIMIT, at(0)) == frozenset()


def test_forged_number_is_ignored() -> None:
    """A status may hold anything."""
    stored = {**count_status(RevertCount(WRITER, LIMIT, at(0))), "reverts": "many"}
    assert read_counts({"contention": [stored]}) == (RevertCount(WRITER, 0, at(0)),)


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

"""When a Bundle is reconciled again: exact times, on a clock that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.controller.reasons import Reason
from applyprune.controller.spec import SPEC, BundleSpec
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    ended_at_limit,
    next_reconcile,
    unwritten_answer,
)
from applyprune.controller.task import ReconcileHistory
from applyprune.model.inventory import HolderObservation, LockHolder
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    Next = Callable[[ReconcileHistory], tuple[float | None, ReconcileHistory]]

TIMEOUT = 60.0
BUNDLE = BundleSpec("shop", "web", SPEC.validate_python({"source": {"inline": ""}}), TIMEOUT, 2)
SPREAD = 0.1
"""By how much of itself a pause may differ."""

LOOKS = {
    "the first look": (ReconcileHistory(), 1.0, SPREAD),
    "the third": (ReconcileHistory(waiting_since=1000.0, ready_checks=3), 4.0, SPREAD),
    "at most": (ReconcileHistory(ready_checks=30), 15.0, SPREAD),
    "shortly before the end": (ReconcileHistory(waiting_since=940.5, ready_checks=30), 0.5, 0.0),
    "at the end": (ReconcileHistory(waiting_since=940.0, ready_checks=30), 0.0, 0.0),
    "long after it": (ReconcileHistory(waiting_since=1.0, ready_checks=30), 0.0, 0.0),
}


@pytest.mark.parametrize("case", LOOKS)
def test_looks_at_what_is_not_ready_come_less_often_until_the_end(case: str) -> None:
    """The last one is at the end of the timeout, not later."""
    history, expected, near = LOOKS[case]
    result = ReconcileResult(ConditionStatus.WAITING, Reason.PROGRESSING, "m", retries=True)
    found, known = next_reconcile(history, BUNDLE, result, clock=ManualClock(begin=1000.0))
    assert found == pytest.approx(expected, rel=near)
    assert known == history


@pytest.mark.parametrize(("now", "expected"), [(1000.0, 15.0), (1013.0, 2.0), (1015.0, 1.0)])
def test_locked_inventory_is_looked_at_when_its_lease_is_over(now: float, expected: float) -> None:
    """Or in a second."""
    holder = LockHolder("run", "who", lease=15.0)
    seen = HolderObservation("uid", 1, holder, since=1000.0)
    result = ReconcileResult(
        ConditionStatus.NOT_READY, Reason.INVENTORY_LOCKED, "m", retries=True, observation=seen
    )
    found, known = next_reconcile(ReconcileHistory(), BUNDLE, result, clock=ManualClock(begin=now))
    assert (found, known) == (expected, ReconcileHistory(observation=seen))


def test_wait_begins_with_the_first_look() -> None:
    """Of this replica, or of another one before."""
    first = ReconcileHistory().after_ready_check(1000.0)
    assert first == ReconcileHistory(waiting_since=1000.0, ready_checks=1)
    assert not ReconcileHistory().has_waited(TIMEOUT, 1000.0)
    again = first.after_ready_check(1059.9, waited=TIMEOUT)
    assert again == ReconcileHistory(waiting_since=1000.0, ready_checks=2)
    assert not again.has_waited(TIMEOUT, 1059.9)
    assert again.has_waited(TIMEOUT, 1060.0)
    assert ReconcileHistory().after_ready_check(1000.0, waited=TIMEOUT).has_waited(TIMEOUT, 1000.0)


NEAR = 0.101
"""Each is spread by a tenth."""


def failing(reason: Reason, *, removes: bool = False, **spec: Any) -> Next:
    """Return what decides after a reconcile that has failed for a reason."""
    parsed = SPEC.validate_python({"source": {"inline": ""}, **spec})
    bundle = BundleSpec("shop", "web", parsed, parsed.timeout, 1)
    result = ReconcileResult(ConditionStatus.NOT_READY, reason, "m", retries=True)
    return lambda history: next_reconcile(history, bundle, result, removes=removes)


def unanswered(history: ReconcileHistory) -> tuple[float | None, ReconcileHistory]:
    """Decide after a reconcile that could not even write a status."""
    answer = unwritten_answer(history)
    return answer.delay, answer.history


def exceeding(history: ReconcileHistory) -> tuple[float | None, ReconcileHistory]:
    """Decide after a reconcile that was ended at a limit."""
    answer = ended_at_limit(history)
    return answer.delay, answer.history


PAUSES: dict[str, tuple[Next, list[float]]] = {
    "a failure": (failing(Reason.APPLY_FAILED), [30, 60, 120, 240, 480, 600, 600]),
    "a failure, often retried": (
        failing(Reason.APPLY_FAILED, retryInterval="1s", interval="10s"),
        [1, 2, 4, 8, 10, 10],
    ),
    "something missing": (failing(Reason.SOURCE_NOT_FOUND), [30, 60, 120, 120]),
    "a removal": (failing(Reason.REMOVAL_FAILED, removes=True), [30, 60, 120, 120]),
    "a lost inventory of a removal": (
        failing(Reason.INVENTORY_UNREADABLE, removes=True),
        [30, 60, 120, 120],
    ),
    "what somebody must change": (failing(Reason.INVALID_SOURCE), [600, 600]),
    "the lock of another run": (failing(Reason.INVENTORY_LOCKED), [1, 2, 4, 8]),
    "no status": (unanswered, [1, 2, 4, 8, 16, 32, 60, 60]),
    "a limit": (exceeding, [5, 10, 20, 40, 80, 160, 320, 600, 600]),
}


@pytest.mark.parametrize("after", PAUSES)
def test_pause_grows_after_each_failure(after: str) -> None:
    """The first is ``retryInterval``, and the longest is ``interval`` or a bound of its own."""
    decide, expected = PAUSES[after]
    history, pauses = ReconcileHistory(), []
    for _ in expected:
        pause, history = decide(history)
        pauses.append(pause)
    assert pauses == pytest.approx(expected, rel=NEAR)

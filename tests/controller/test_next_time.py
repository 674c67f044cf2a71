"""When a Bundle is reconciled again: exact times, on a clock that stands still."""

from __future__ import annotations

import pytest

from applyprune.controller.reasons import Reason
from applyprune.controller.spec import SPEC, BundleSpec
from applyprune.controller.status import ConditionStatus, ReconcileResult, next_reconcile
from applyprune.controller.task import ReconcileHistory
from applyprune.model.inventory import HolderObservation, LockHolder
from tests.support.clocks import ManualClock

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

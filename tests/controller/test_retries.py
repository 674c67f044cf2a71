"""How soon a failing Bundle is tried again: each pause is the last one doubled, up to a bound."""

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

if TYPE_CHECKING:
    from collections.abc import Callable

    Next = Callable[[ReconcileHistory], tuple[float | None, ReconcileHistory]]

SPREAD = 0.101
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
    assert pauses == pytest.approx(expected, rel=SPREAD)

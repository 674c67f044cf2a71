"""The reports between the events of a run: it stays in step with its consumer."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event as Flag
from typing import TYPE_CHECKING

import pytest

from applyprune.api import sets
from applyprune.api.sets import with_retries
from applyprune.engine.ports import Cancellation
from applyprune.errors import RunFailed
from applyprune.model.events import Finished, ObjectDone, RetryReported
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from applyprune.model.events import Event

END = Finished({}, 0, 0.0)


def done(number: int, outcome: Outcome) -> ObjectDone:
    """Return the event about one object."""
    return ObjectDone(Ref("", "ConfigMap", "home", f"c{number}"), outcome)


def test_run_goes_on_only_when_it_is_asked() -> None:
    """Somebody may be asked for an approval in between; unchanged objects need no such care."""
    made: list[Event] = []

    def run() -> Iterator[Event]:
        for number in range(3):
            made.append(done(number, Outcome.CREATED))
            yield made[-1]
        for number in range(100):
            yield done(number, Outcome.UNCHANGED)
        yield END

    events = with_retries(run(), lambda: (), Cancellation())
    for number in range(3):
        assert next(events) == done(number, Outcome.CREATED)
        assert len(made) == number + 1
    assert [*events] == [*(done(number, Outcome.UNCHANGED) for number in range(100)), END]


def test_reports_come_while_the_run_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a higher number of tries than the last; the others are the same news."""
    monkeypatch.setattr(sets, "_TICK", 0.01)
    answered = Flag()
    tries = iter([4, 4, 5, 6, 6])

    def unanswered() -> list[RetryReported]:
        number = next(tries, 0)
        if not number:
            answered.set()
            return []
        return [RetryReported("the API server", "it does not answer", number, 1.0)]

    def run() -> Iterator[Event]:
        assert answered.wait(HANG)
        yield END

    *reports, end = with_retries(run(), unanswered, Cancellation())
    assert end == END
    assert [one.tries for one in reports if isinstance(one, RetryReported)] == [4, 5, 6]


def test_failure_of_the_run_is_raised() -> None:
    """After the events before it."""

    def run() -> Iterator[Event]:
        yield done(1, Outcome.CREATED)
        raise RunFailed("no")

    events = with_retries(run(), lambda: (), Cancellation())
    assert next(events) == done(1, Outcome.CREATED)
    with pytest.raises(RunFailed, match="no"):
        next(events)


@pytest.mark.parametrize("outcome", [Outcome.CREATED, Outcome.UNCHANGED])
def test_consumer_that_stops_ends_the_run(outcome: Outcome) -> None:
    """The run gives its lock back before the consumer goes on."""
    closed = Flag()
    stop = Cancellation()

    def run() -> Iterator[Event]:
        try:
            while True:
                yield done(1, outcome)
        finally:
            closed.set()

    events = with_retries(run(), lambda: (), stop)
    assert next(events) == done(1, outcome)
    assert isinstance(events, Iterator)
    events.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert not stop.requested

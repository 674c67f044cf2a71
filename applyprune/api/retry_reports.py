"""Report requests that are not answered while a run goes on: a run yields nothing meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from applyprune.model.events import Event, ObjectDone, ObjectStatus, Outcome, RetryReported
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation

Unanswered: TypeAlias = Callable[[], Sequence[RetryReported]]

_TICK = 0.5


def with_retries(
    events: Iterator[Event], unanswered: Unanswered, cancellation: Cancellation
) -> Iterator[Event]:
    """Yield the events of a run, and in between what is not answered: once for each new try.

    The run gets a thread of its own. It goes on only when the consumer asks for the next event, as
    it would without this; only after an unchanged object, or a status, does it not wait, because a
    handover for each of 100,000 objects takes seconds.
    """
    run, reports = _Run(events), _Reports(unanswered)
    run.thread.start()
    try:
        while True:
            try:
                item = run.next(_TICK)
            except BaseException:
                cancellation.request()  # Ctrl-C of a program that does not handle it
                raise
            yield from reports.due()
            if item is None:
                continue
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
            if not _is_bulk(item):
                run.go_on()
    finally:
        run.end()


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None = None


@dataclass(slots=True)
class _Run:
    """A run on a thread of its own."""

    events: Iterator[Event]
    closing: bool = False
    thread: Thread = field(init=False)
    _resume: SimpleQueue[None] = field(default_factory=SimpleQueue)
    _queue: SimpleQueue[Event | _End] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self._work, name="applyprune-run", daemon=True)

    def next(self, seconds: float) -> Event | _End | None:
        """Return the next event or the end; None if there is none yet."""
        try:
            return self._queue.get(timeout=seconds)
        except Empty:
            return None

    def go_on(self) -> None:
        """Let the run produce its next event."""
        self._resume.put(None)

    def end(self) -> None:
        """End the run at its next event, if it has not ended."""
        self.closing = True
        self.go_on()
        self.thread.join()

    def _work(self) -> None:
        try:
            for event in self.events:
                self._queue.put(event)
                if not _is_bulk(event):
                    self._resume.get()
                if self.closing:
                    break
            self._close()
        except BaseException as error:  # noqa: BLE001 -- the consumer gets it
            self._queue.put(_End(error))
        else:
            self._queue.put(_End())

    def _close(self) -> None:
        if (close := getattr(self.events, "close", None)) is not None:
            close()


@dataclass(slots=True)
class _Reports:
    """What was reported of requests that are not answered."""

    unanswered: Unanswered
    _told: dict[str, int] = field(default_factory=dict)
    _asked_at: float = field(default_factory=time.monotonic)

    def due(self) -> Iterator[Event]:
        """Yield each report whose number of tries has risen since the last time."""
        now = time.monotonic()
        if now - self._asked_at < _TICK:
            return
        self._asked_at = now
        found = {report.what: report for report in self.unanswered()}
        self._told = {what: tries for what, tries in self._told.items() if what in found}
        for what, report in found.items():
            if report.tries > self._told.get(what, 0):
                self._told[what] = report.tries
                yield report


def _is_bulk(event: Event) -> bool:
    """Return whether this is one of many events on which no consumer acts."""
    if isinstance(event, ObjectDone):
        return event.outcome is Outcome.UNCHANGED
    return isinstance(event, ObjectStatus)

"""Keep account of the requests that are not answered: what is tried again, and for how long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from applyprune.clock import BOOT_CLOCK, Clock
from applyprune.errors import ApiError
from applyprune.model.events import RetryReported
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.errors import AccessError

SERVER = "the API server"
_WEBHOOK = r'failed calling webhook ("(?:[^"\\]|\\.){1,253}")'
_BUSY = 429
# A blip is not worth a line: report from this try on, or after that many seconds without an answer.
_FROM_TRY = 4
_SLOW = 5.0


def is_busy(error: AccessError) -> bool:
    """Return whether the server answers, and asks for patience: that costs a run nothing."""
    return isinstance(error, ApiError) and error.code == _BUSY


@dataclass(slots=True)
class OpenRequest:
    """A request without a usable answer so far."""

    began: float
    tries: int = 1
    """The number of the present try."""
    failure: AccessError | None = None
    """Why the last try failed."""
    spends: RetryBudget | None = None
    """The budget that its retries spend."""

    def failed(self, error: AccessError, budget: RetryBudget | None, now: float) -> None:
        """Note that the present try has failed, and that there will be another one."""
        self.failure = error
        self.tries += 1
        if self.spends is None and budget is not None:
            self.spends = budget
            budget.begin(now)

    def report(self, now: float) -> RetryReported | None:
        """Return what is worth reporting; None if this is nothing unusual."""
        elapsed = now - self.began
        if self.tries < _FROM_TRY and elapsed < _SLOW:
            return None
        error = self.failure
        reason = "" if error is None else error.message
        what, problem = SERVER, "does not answer"
        if isinstance(error, ApiError):
            webhook = re.search(_WEBHOOK, error.message)
            if webhook is not None:
                what = f"the webhook {webhook[1]}"
            elif is_busy(error):
                problem = "has too many requests"
            else:
                problem = f"answers with an error ({error.code})"
        return RetryReported(what, f"{what} {problem}", self.tries, elapsed, reason)


@dataclass(slots=True)
class OpenRequests:
    """The requests of one transport that have no usable answer yet; thread-safe."""

    clock: Clock = BOOT_CLOCK
    _open: dict[int, OpenRequest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def request(self) -> Iterator[OpenRequest]:
        """Keep account of one request while the block runs."""
        request = OpenRequest(self.clock.now())
        with self._lock:
            self._open[id(request)] = request
        try:
            yield request
        finally:
            with self._lock:
                del self._open[id(request)]
            if request.spends is not None:
                request.spends.end(self.clock.now())

    def reports(self) -> Sequence[RetryReported]:
        """Return a report for each webhook or server that does not answer: of the latest try."""
        now = self.clock.now()
        with self._lock:
            reports = [report for one in self._open.values() if (report := one.report(now))]
        latest: dict[str, RetryReported] = {}
        for report in sorted(reports, key=lambda report: report.tries):
            latest[report.what] = report
        return list(latest.values())


@dataclass(slots=True)
class RetryBudget:
    """The time that all requests of one run may spend on retries together; thread-safe.

    It is spent while at least one of them is being retried. So a dead webhook costs it once, and
    not once for each object.
    """

    seconds: float
    _spent: float = 0.0
    _users: int = 0
    _since: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def begin(self, now: float) -> None:
        """Note that one more request is being retried."""
        with self._lock:
            if not self._users:
                self._since = now
            self._users += 1

    def end(self, now: float) -> None:
        """Note that a request is no longer being retried."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._spent += now - self._since

    def left(self, now: float) -> float:
        """Return how many seconds are left."""
        with self._lock:
            return self.seconds - self._spent - (now - self._since if self._users else 0.0)

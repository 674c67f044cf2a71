"""The work queue: keys of Bundles, each held by at most one worker at a time.

It also decides when a Bundle is reconciled again. A little randomness spreads the load.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from dataclasses import dataclass, field
from itertools import count
from threading import Condition

from applyprune.controller.constants import Key

MIN_GAP = 0.25
"""Seconds between the end of one reconcile of a Bundle and the next, whatever triggers it."""


@dataclass(slots=True)
class WorkQueue:
    """Keys with the time at which each is due; thread-safe.

    A key that is added while a worker holds it is due again when that worker is done. A key that is
    added twice is due once, at the earlier time.
    """

    min_gap: float = MIN_GAP
    _due: dict[Key, float] = field(default_factory=dict)
    _heap: list[tuple[float, int, Key]] = field(default_factory=list)
    _busy: set[Key] = field(default_factory=set)
    _rests: dict[Key, float] = field(default_factory=dict)
    _tickets: count[int] = field(default_factory=count)
    _changed: Condition = field(default_factory=Condition)
    _last_done: float = field(default_factory=time.monotonic)
    _closed: bool = False

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Make a key due in ``delay`` seconds, unless it is already due earlier."""
        with self._changed:
            now = time.monotonic()
            self._rests = {known: rest for known, rest in self._rests.items() if rest > now}
            due = max(now + delay, self._rests.get(key, 0.0))
            if self._closed or self._due.get(key, due + 1) <= due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._tickets), key))
            self._changed.notify()

    def get(self) -> Key | None:
        """Wait for the next key that is due and return it; None when the queue is closed."""
        with self._changed:
            while not self._closed:
                wait = self._settle()
                if wait is not None and wait <= 0:
                    key = heapq.heappop(self._heap)[2]
                    del self._due[key]
                    self._busy.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def done(self, key: Key) -> None:
        """Release a key after its work is done."""
        with self._changed:
            self._busy.discard(key)
            self._last_done = time.monotonic()
            rest = self._last_done + self.min_gap
            self._rests[key] = rest
            if key in self._due:
                self._due[key] = max(self._due[key], rest)
                heapq.heappush(self._heap, (self._due[key], next(self._tickets), key))
            self._changed.notify()

    def forget(self, key: Key) -> None:
        """Remove the key of a Bundle that no longer exists."""
        with self._changed:
            self._due.pop(key, None)

    def close(self) -> None:
        """Return no more keys, and wake every waiting worker."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Return how many keys are due and not held by a worker."""
        with self._changed:
            now = time.monotonic()
            return sum(due <= now for due in self._due.values())

    @property
    def overdue(self) -> float:
        """Return for how many seconds the first key that no worker holds has been due."""
        with self._changed:
            due = (due for key, due in self._due.items() if key not in self._busy)
            return max(0.0, time.monotonic() - min(due, default=math.inf))

    @property
    def quiet(self) -> float:
        """Return for how many seconds no work has ended."""
        return time.monotonic() - self._last_done

    @property
    def busy(self) -> int:
        """Return how many keys workers hold now."""
        return len(self._busy)

    def _settle(self) -> float | None:
        """Drop outdated heap items; return the seconds until the first key is due."""
        while self._heap:
            due, _, key = self._heap[0]
            # A key that a worker holds is added again by `done`.
            if self._due.get(key) != due or key in self._busy:
                heapq.heappop(self._heap)
                continue
            return due - time.monotonic()
        return None


_JITTER = 0.1
_MOST_DOUBLINGS = 20


def backoff(failures: int, *, first: float, longest: float) -> float:
    """Return the seconds before the next try after ``failures`` failures in a row, 1 or more.

    It doubles from ``first`` up to ``longest``, which is never less than ``first``.
    """
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return float(min(first * 2**doublings, max(first, longest)))


def spread(seconds: float) -> float:
    """Return a delay, changed at random by up to 10 %, so that Bundles do not run all at once."""
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 -- no secret depends on it

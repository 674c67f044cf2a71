"""The queue of the Bundles that are due, and whose turn it is; and the delay before a retry."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from itertools import count
from threading import Condition

from msgspec import Struct, field

from applyprune.clock import CLOCK, Clock
from applyprune.controller.reasons import Key

MIN_GAP = 0.25
"""Seconds between the end of one reconcile of a Bundle and the next, whatever triggers it."""
# While both wait, changes get three turns of four.
_NEWS_PER_ROUTINE = 3
_MANY_RESTS = 1000
_MOST_DOUBLINGS = 20
_JITTER = 0.1


class WorkQueue(Struct):
    """Keys with the time at which each is due; thread-safe.

    A key that is added while a worker holds it is due again when that worker is done. A key that is
    added twice is due once, at the earlier time. Only what is due for a part of a Bundle leaves the
    time at which all of it is due.

    Namespaces take turns. A change goes before a retry and a periodic reconcile. The last ``kept``
    free ones of ``workers`` are for namespaces that no worker serves, so that no tenant holds all.
    Each other cluster, or silent host, gets a quarter of the workers, and all of these together
    leave ``kept`` free: they may hang.
    """

    workers: int = 64
    kept: int = 1
    min_gap: float = MIN_GAP
    clock: Clock = CLOCK
    """The clock of all that serves the queue."""
    _due: dict[Key, tuple[float, bool]] = field(default_factory=dict)
    _whole: dict[Key, float] = field(default_factory=dict)
    _heap: list[tuple[float, int, Key]] = field(default_factory=list)
    _ready: dict[Key, bool] = field(default_factory=dict)
    _ready_since: dict[Key, float] = field(default_factory=dict)
    _lines: dict[bool, NamespaceQueues] = field(
        default_factory=lambda: {True: NamespaceQueues(), False: NamespaceQueues()}
    )
    _busy: dict[str, int] = field(default_factory=Counter)
    _processing: dict[Key, bool] = field(default_factory=dict)
    _clusters: dict[Key, str] = field(default_factory=dict)
    _used: dict[Key, str] = field(default_factory=dict)
    _rests: dict[Key, float] = field(default_factory=dict)
    _tickets: count[int] = field(default_factory=count)
    _turn: int = 0
    _changed: Condition = field(default_factory=Condition)
    _last_done: float = 0.0
    _closed: bool = False

    def __post_init__(self) -> None:
        self._last_done = self.clock.now()

    def add(
        self, key: Key, delay: float = 0.0, *, news: bool = False, is_part: bool = False
    ) -> None:
        """Make a key due in ``delay`` seconds, unless it is already due earlier.

        ``news`` says that something has changed, and ``is_part`` that only a part of the Bundle is
        due.
        """
        with self._changed:
            if self._closed:
                return
            now = self.clock.now()
            if not is_part:
                self._whole[key] = min(now + delay, self._whole.get(key, math.inf))
            if key in self._ready:
                if news and not self._ready[key]:
                    self._lines[False].remove(key)
                    self._put(key, news=True)
                return
            due = max(now + delay, self._rests.get(key, 0.0))
            known, was_news = self._due.get(key, (due + 1, False))
            self._due[key] = (min(due, known), news or was_news)
            if due < known:
                heapq.heappush(self._heap, (due, next(self._tickets), key))
            self._changed.notify()

    def get(self) -> Key | None:
        """Wait for the next key that is due and return it; None when the queue is closed."""
        with self._changed:
            while not self._closed:
                wait = self._settle()
                if (key := self._take()) is not None:
                    return key
                if wait is None:
                    self._changed.wait()
                else:
                    self.clock.wait(self._changed, wait)
            return None

    def takes_whole(self, key: Key) -> bool:
        """Return whether all of a Bundle was due when the worker that holds it got its key."""
        with self._changed:
            return self._processing[key]

    def done(self, key: Key) -> None:
        with self._changed:
            self._processing.pop(key, None)
            self._used.pop(key, None)
            self._busy[key[0]] -= 1
            if not self._busy[key[0]]:
                del self._busy[key[0]]
            self._last_done = now = self.clock.now()
            rest = now + self.min_gap
            if len(self._rests) >= _MANY_RESTS:
                self._rests = {known: ends for known, ends in self._rests.items() if ends > now}
            self._rests[key] = rest
            if key in self._whole:
                due, news = self._due.get(key, (math.inf, False))
                self._due[key] = (min(due, self._whole[key]), news)
            if key in self._due:
                due, news = self._due[key]
                self._due[key] = (max(due, rest), news)
                heapq.heappush(self._heap, (self._due[key][0], next(self._tickets), key))
            self._changed.notify_all()

    def forget(self, key: Key) -> None:
        with self._changed:
            self._due.pop(key, None)
            self._whole.pop(key, None)
            self._clusters.pop(key, None)
            if key in self._ready:
                self._lines[self._ready.pop(key)].remove(key)
                del self._ready_since[key]

    def set_cluster(self, key: Key, cluster: str) -> None:
        """Say which other cluster, or silent host, a key needs a worker for; empty for none."""
        with self._changed:
            if cluster:
                self._clusters[key] = cluster
            else:
                self._clusters.pop(key, None)

    def close(self) -> None:
        """Return no more keys, and wake every waiting worker."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Return how many keys are due and not held by a worker."""
        with self._changed:
            now = self.clock.now()
            return len(self._ready) + sum(due <= now for due, _ in self._due.values())

    @property
    def oldest(self) -> float:
        """Return for how many seconds the first key that no worker holds has been due."""
        with self._changed:
            now = self.clock.now()
            return max(0.0, now - min(self._waiting_since().values(), default=now))

    @property
    def overdue(self) -> float:
        """Return for how many seconds the first key that a worker may hold has been due."""
        with self._changed:
            fits = self._fitting()
            served = (due for key, due in self._waiting_since().items() if fits(key))
            first = min(served, default=math.inf)
            return max(0.0, self.clock.now() - first)

    def _waiting_since(self) -> Mapping[Key, float]:
        """Return since when each key is due that no worker holds, or when it will be."""
        due = {key: at for key, (at, _) in self._due.items() if key not in self._processing}
        return {**due, **self._ready_since}

    @property
    def quiet(self) -> float:
        """Return for how many seconds no work has ended."""
        return self.clock.now() - self._last_done

    @property
    def busy(self) -> int:
        return len(self._processing)

    def _settle(self) -> float | None:
        """Move what is due into the lines; return the seconds until the next key is due."""
        now = self.clock.now()
        while self._heap:
            due, _, key = self._heap[0]
            # A key that a worker holds is added again by `done`.
            outdated = self._due.get(key, (None,))[0] != due or key in self._processing
            if not outdated and due > now:
                return due - now
            heapq.heappop(self._heap)
            if not outdated:
                self._put(key, news=self._due.pop(key)[1])
        return None

    def _put(self, key: Key, *, news: bool) -> None:
        self._ready[key] = news
        self._ready_since.setdefault(key, self.clock.now())
        self._lines[news].add(key)

    def _take(self) -> Key | None:
        """Return the key whose turn it is; None if there is none."""
        fits = self._fitting()
        news_first = self._turn % (_NEWS_PER_ROUTINE + 1) != _NEWS_PER_ROUTINE
        for news in (news_first, not news_first):
            key = self._lines[news].take(self._may_have, fits)
            if key is not None:
                self._turn += 1
                del self._ready[key], self._ready_since[key]
                self._processing[key] = self._whole.get(key, math.inf) <= self.clock.now()
                if self._processing[key]:
                    del self._whole[key]
                if cluster := self._clusters.get(key):
                    self._used[key] = cluster
                self._busy[key[0]] += 1
                return key
        return None

    def _may_have(self, namespace: str) -> bool:
        # guard: kept-worker -> True
        return self.workers - len(self._processing) > self.kept or namespace not in self._busy

    def _fitting(self) -> Callable[[Key], bool]:
        """Return what says whether the other cluster of a Bundle may have another worker."""
        if len(self._used) >= max(1, self.workers - self.kept):
            return lambda key: key not in self._clusters
        used = Counter(self._used.values())
        full = {one for one, count in used.items() if count >= max(1, self.workers // 4)}
        return lambda key: self._clusters.get(key) not in full  # guard: share-of-a-cluster -> bool


class NamespaceQueues(Struct):
    """Keys of Bundles in one line for each namespace; not thread-safe."""

    _lines: OrderedDict[str, OrderedDict[Key, None]] = field(default_factory=OrderedDict)

    def add(self, key: Key) -> None:
        self._lines.setdefault(key[0], OrderedDict())[key] = None

    def take(self, may: Callable[[str], bool], fits: Callable[[Key], bool] = bool) -> Key | None:
        """Return the first key that ``fits``, of the next namespace that ``may`` have a turn.

        None if there is none. That namespace is last from then on.
        """
        for namespace, line in self._lines.items():
            if may(namespace) and (key := next(filter(fits, line), None)) is not None:
                break
        else:
            return None
        del line[key], self._lines[key[0]]
        if line:
            self._lines[key[0]] = line
        return key

    def remove(self, key: Key) -> None:
        line = self._lines.get(key[0])
        if line is not None:
            line.pop(key, None)
            if not line:
                del self._lines[key[0]]


def retry_delay(failures: int, *, first: float, longest: float) -> float:
    """Return the seconds before the next try after ``failures`` failures in a row, 1 or more.

    It doubles from ``first`` up to ``longest``, which is never less than ``first``.
    """
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return float(min(first * 2**doublings, max(first, longest)))


def with_jitter(seconds: float) -> float:
    """Return a delay, changed at random by up to 10 %, so that Bundles do not run all at once."""
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 -- no secret depends on it

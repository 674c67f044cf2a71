"""Clocks that a test moves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from applyprune.clock import Instant, Waitable

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK = 0.005
MOMENT = 0.02
AGES = 86_400.0
"""A timeout that no test reaches, on whatever clock: something else must end the wait."""


@dataclass(slots=True)
class MovedClock:
    """Boot time and the wall clock: a test moves them as a sleep or a pause of the machine does."""

    boot: float = 0.0
    wall: float = 0.0

    def __call__(self) -> Instant:
        """Return what they show now."""
        return Instant(1_000.0 + self.boot, 1_800_000_000.0 + self.wall)


@dataclass(slots=True)
class ManualClock:
    """A `Clock` on which a wait ends at once, and has taken all of its time.

    For code on the thread of the test. ``meanwhile`` is called at each wait, before its event is
    looked at, with the seconds since the clock was made: so a test says what happens when.
    """

    meanwhile: Callable[[float], object] = lambda _: None
    begin: float = 1000.0
    passed: float = 0.0
    """Seconds since the clock was made."""
    waits: list[float] = field(default_factory=list)
    """The seconds of each wait that nothing ended."""

    def now(self) -> float:
        """Return the time in seconds."""
        return self.begin + self.passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Let the time pass, unless the event has happened; return whether it has."""
        self.meanwhile(self.passed)
        if event.wait(0):
            return True
        self.waits.append(seconds)
        self.passed += seconds
        return event.wait(0)


@dataclass(slots=True)
class HeldClock:
    """A `Clock` that stands still until the test advances it, for code on other threads."""

    time: float = 1000.0
    waiting: list[float] = field(default_factory=list)
    """The ends of the waits under way, on this clock."""

    def now(self) -> float:
        """Return the time in seconds."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass: every wait that is over then ends."""
        self.time += seconds

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait until the event happens, or the test has advanced the clock that far."""
        ends = self.time + seconds
        self.waiting.append(ends)
        try:
            while self.time < ends:
                if event.wait(_LOOK):
                    return True
            return event.wait(0)
        finally:
            self.waiting.remove(ends)


@dataclass(slots=True)
class QuickClock:
    """A `Clock` that runs ahead: each wait lasts a moment at most, and has then taken all its time.

    For stories with a server, which gets real time to answer; any thread may wait by it.
    """

    moment: float = MOMENT
    time: float = 1000.0
    last: float = math.inf
    """The time at which it stands still, so that nothing later can be what ends a wait."""
    asks: float = math.inf
    """How often a thread may ask for the time before it waits: a loop without a wait fails."""
    _asked: dict[int, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def now(self) -> float:
        """Return the time in seconds."""
        asked = self._asked.get(get_ident(), 0) + 1
        self._asked[get_ident()] = asked
        assert asked < self.asks, "nothing waits by this clock"
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self.time = min(self.time + seconds, self.last)

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait for a moment, and let the time pass, unless the event happens; return whether."""
        self._asked[get_ident()] = -math.inf
        if event.wait(min(seconds, self.moment)):
            return True
        self.advance(seconds)
        return False

"""The real clocks, moved by a test."""

from __future__ import annotations

from dataclasses import dataclass

from applyprune.clock import Instant, read_clock


@dataclass(slots=True)
class MovedClock:
    """The real clocks, which a test can move as a sleep or a pause of the machine does."""

    boot: float = 0.0
    wall: float = 0.0

    def __call__(self) -> Instant:
        """Return what they show now."""
        now = read_clock()
        return Instant(now.boot + self.boot, now.wall + self.wall)

"""The clocks. Whatever counts time or waits is given one, so that a test can give its own.

A lease needs the clock that counts the time that the machine sleeps: a monotonic clock of Linux and
of Python on macOS stops while a laptop sleeps. No clock inside a virtual machine counts while its
host has paused it, but the wall clock is corrected afterwards: so a pause is noticed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct


class Clock(Protocol):
    """Time, and the waiting for it."""

    def now(self) -> float:
        """Return the time in seconds; only differences mean anything."""

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait until the event happens, at most that long; return whether it has."""


class Waitable(Protocol):
    """What can be waited for: an event, a condition, a cancellation."""

    def wait(self, seconds: float, /) -> bool:
        """Wait until it happens, at most that long; return whether it has."""


class SystemClock(Struct, frozen=True):
    """A clock of the machine."""

    now: Callable[[], float]

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait until the event happens, at most that long; return whether it has."""
        return event.wait(seconds)


# Linux has a clock for it; on macOS this one counts sleep, unlike ``time.monotonic()``.
_COUNTS_SLEEP: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Return the seconds on the clock that counts sleep."""
    return time.clock_gettime(_COUNTS_SLEEP)


CLOCK: Clock = SystemClock(time.monotonic)
"""How long something lasts while the machine is awake: waits, pauses, what is measured."""
BOOT_CLOCK: Clock = SystemClock(boot_time)
"""How long something lasts in the world: leases, deadlines of requests."""


class Lease(Protocol):
    """A right to write that ends by itself unless it is renewed; every write is sent under one."""

    def ensure(self) -> None:
        """Make sure that a write may be sent now, renewing if necessary; InventoryLocked if not."""

    def left(self) -> float:
        """Return for how many seconds a write may still be sent; never waits."""


class Instant(Struct, frozen=True):
    """What two clocks showed at one moment; only differences of either mean anything."""

    boot: float
    """Seconds on the clock that counts sleep."""
    wall: float
    """Seconds on the wall clock."""


def read_clock() -> Instant:
    """Return the present instant."""
    return Instant(boot_time(), time.time())


MOST_DRIFT = 5.0
"""Seconds by which the wall clock may advance further than boot time before that means a pause."""


def seconds_held(since: Instant, now: Instant) -> float:
    """Return for how long a lease has been held; infinity if the machine was paused meanwhile.

    A wall clock that was set back, or by a few seconds forward, changes nothing.
    """
    held = now.boot - since.boot
    if (now.wall - since.wall) - held > MOST_DRIFT:  # guard: paused-machine never
        return math.inf
    return held

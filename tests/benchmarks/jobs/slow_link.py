"""A slow way to the server: 50 ms more for each request, and 429 for some of them."""

from __future__ import annotations

import time
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from tests.support.fault_proxy import FaultProxy, faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.fault_proxy import Fault
    from tests.support.fault_proxy.exchange import Wire

DELAY = 0.05
_FIRST_REFUSED, _EVERY = 5, 100
"""The first request that is answered with 429, and after how many more the next one is."""

Interval = tuple[float, float]
"""When a request arrived, and when its reply was sent."""


@dataclass(slots=True)
class SlowLink:
    """The proxy, and when each request was under way."""

    kubeconfig: Path
    intervals: list[Interval] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def restart(self) -> None:
        """Count from the beginning, also to the next request that is refused."""
        self.intervals.clear()
        self._numbers = count(1)

    def is_refused(self) -> bool:
        """Count a request, and return whether it is answered with 429."""
        return next(self._numbers) % _EVERY == _FIRST_REFUSED

    def round_trips(self) -> int:
        """Return how many requests waited for each other."""
        return longest_chain(self.intervals)


@contextmanager
def slow_link(plane: Plane, folder: Path) -> Iterator[SlowLink]:
    """Run the proxy in front of a plane; only requests are slow, not the handshakes before them."""
    folder.mkdir(parents=True, exist_ok=True)
    with FaultProxy(plane) as proxy:
        link = SlowLink(proxy.kubeconfig(folder))
        proxy.rule = lambda _: _slowly(link)
        yield link


def longest_chain(intervals: Iterable[Interval]) -> int:
    """Return how many intervals follow each other at the most, each after the end of the last."""
    ends: list[float] = []
    for began, ended in sorted(intervals, key=lambda one: one[1]):
        if bisect_right(ends, began) == len(ends):
            ends.append(ended)
    return len(ends)


def _slowly(link: SlowLink) -> Fault:
    is_refused = link.is_refused()
    refuse = faults.status(
        429, "TooManyRequests", "too many requests", headers=(("Retry-After", "1"),)
    )

    def fault(wire: Wire) -> None:
        began = time.monotonic()
        time.sleep(DELAY)
        if is_refused:
            refuse(wire)
        else:
            wire.reply(wire.forward())
        link.intervals.append((began, time.monotonic()))

    return fault

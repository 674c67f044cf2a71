"""How long the watches of a run pause, exactly: a server that ends each of them meets no storm."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event as Flag
from typing import Any

import pytest

from applyprune.engine.waiting import Informer, WatchScope
from applyprune.errors import ApplypruneError, Expired, Forbidden, Unavailable
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, LiveObject, WatchEvent, WatchEventType
from tests.support.clocks import ManualClock

CHANGE = WatchEvent(
    WatchEventType.MODIFIED, LiveObject.of(Ref("", "ConfigMap", "n", "a"), "u", "2", {})
)


class Poor:
    """A server whose lists and watches end as the test says, at once."""

    def __init__(self, on_list: ApplypruneError | None, on_watch: ApplypruneError | int) -> None:
        """``on_watch`` is an error, or the number of changes before the end."""
        self.on_list, self.on_watch, self.asked = on_list, on_watch, list[str]()

    def list_at(self, *_: object, **__: object) -> tuple[list[LiveObject], str]:
        self.asked.append("list")
        if self.on_list is not None:
            raise self.on_list
        return [], "1"

    def watch(self, *_: object, **__: object) -> Iterator[WatchEvent]:
        self.asked.append("watch")
        if isinstance(self.on_watch, ApplypruneError):
            raise self.on_watch
        yield from [CHANGE] * self.on_watch


GONE, REFUSED = Expired("too old", code=410), Forbidden("no right", code=403)
DOWN = Unavailable("no answer", code=503)


@pytest.mark.parametrize(
    ("on_list", "on_watch", "pause", "asked"),
    [
        (DOWN, 0, 1.0, ["list"]),
        (REFUSED, 0, 5.0, ["list"]),
        (None, DOWN, 1.0, ["list", "watch"]),
        (None, REFUSED, 5.0, ["list", "watch"]),
        (None, GONE, 1.0, ["list", "watch"]),
        # Only a list shows what has changed, if every watch ends before it says anything.
        (None, 0, 1.0, ["list", "watch"]),
        (None, 1, 0.2, ["watch"]),
    ],
    ids=["list fails", "no list", "watch fails", "no watch", "410", "silent", "ends"],
)
def test_watch_that_ends_is_followed_by_a_pause(
    on_list: ApplypruneError | None, on_watch: ApplypruneError | int, pause: float, asked: list[str]
) -> None:
    cluster: Any = Poor(on_list, on_watch)
    enough, closed = Flag(), Flag()

    def meanwhile(_: float) -> None:
        if len(clock.waits) == 3:
            enough.set()
            closed.wait()

    clock = ManualClock(meanwhile)
    informer = Informer(cluster, clock=clock)
    informer.open(WatchScope(CONFIG_MAPS, "n"))
    enough.wait()
    informer.close(0)
    closed.set()
    assert clock.waits == [pause] * 3
    assert cluster.asked[-len(asked) * 3 :] == asked * 3

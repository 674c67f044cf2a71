"""An API server of lists and watches that says what a test tells it, when the test tells it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

from applyprune.model.live import LiveObject, WatchEvent, WatchEventType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.model.live import Resource

_LOOK = 0.005


@dataclass(slots=True)
class ToldCluster:
    """For code that waits by a clock: whatever is told has been taken when the test goes on."""

    objects: list[LiveObject] = field(default_factory=list)
    """What a list returns."""
    _news: defaultdict[str, Queue[WatchEvent]] = field(default_factory=lambda: defaultdict(Queue))
    _watched: defaultdict[str, Flag] = field(default_factory=lambda: defaultdict(Flag))

    @staticmethod
    def masked(text: str) -> str:
        """Return the text of others: this cluster has no Secret."""
        return text

    def list_at(self, resource: Resource, **_: Any) -> tuple[Sequence[LiveObject], str]:
        """Return the objects of a kind."""
        kind = resource.group_kind
        return [live for live in self.objects if live.ref.group_kind == kind], "1"

    def list(self, resource: Resource, **_: Any) -> Sequence[LiveObject]:
        """Return the objects of a kind."""
        return self.list_at(resource)[0]

    def watch(
        self, resource: Resource, *, stop: Callable[[], bool], **_: Any
    ) -> Iterator[WatchEvent]:
        """Yield what the test tells."""
        news = self._news[resource.plural]
        self._watched[resource.plural].set()
        while not stop():
            try:
                event = news.get(timeout=_LOOK)
            except Empty:
                continue
            yield event
            news.task_done()

    def is_watched(self, plural: str) -> bool:
        """Return whether somebody has listed a kind, taken the list, and watches."""
        return self._watched[plural].is_set()

    def await_watch(self, plural: str) -> None:
        """Return once somebody has listed a kind, taken the list, and watches."""
        self._watched[plural].wait()

    def tell(self, plural: str, live: LiveObject) -> None:
        """Say that an object has changed; return once whoever watches has taken that."""
        self._news[plural].put(WatchEvent(WatchEventType.MODIFIED, live))
        self._news[plural].join()

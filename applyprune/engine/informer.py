"""Objects as they change: a list and a watch on a thread of its own, for those who wait."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from applyprune.errors import ApplypruneError, Expired, Forbidden, NotFound
from applyprune.model.live import WatchEventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from applyprune.engine.ports import Cluster
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.resources import Resource

_WATCH = 300.0
_PAUSE = 1.0
_BREATH = 0.2
_PATIENCE = 1.0
_FEW_NAMESPACES = 3


@dataclass(frozen=True, slots=True)
class WatchScope:
    """What is watched: a resource, in one namespace or in all, all of it or a selection.

    ``name`` selects one object; with ``full`` off it is watched by its metadata only.
    """

    resource: Resource
    namespace: str = ""
    selector: str = ""
    name: str = ""
    full: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """Everything that there is of a source now; what was there before and is not in it is gone."""

    source: WatchScope
    lives: Mapping[Ref, LiveObject]


@dataclass(frozen=True, slots=True)
class Upserted:
    """One object of a source as it is now; None when it is gone."""

    source: WatchScope
    ref: Ref
    live: LiveObject | None


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """A source cannot be read or watched now; it is tried again."""

    source: WatchScope
    error: ApplypruneError


Change: TypeAlias = Listed | Upserted | WatchFailed


def sources(wanted: Iterable[tuple[Resource, Ref]], selector: str) -> Iterator[WatchScope]:
    """Yield one source for each kind, or for each of its namespaces while these are few.

    A ``selector`` of our own label keeps what is not the set's out of it.
    """
    namespaces: dict[Resource, set[str]] = {}
    for resource, ref in wanted:
        namespaces.setdefault(resource, set()).add(ref.namespace)
    for resource, homes in namespaces.items():
        for home in sorted(homes) if len(homes) <= _FEW_NAMESPACES else [""]:
            yield WatchScope(resource, home, selector)


def narrower(news: Change, refs: Iterable[Ref]) -> Iterator[WatchScope]:
    """Yield a source for each namespace where one for all of them is not allowed."""
    if not isinstance(news, WatchFailed) or not isinstance(news.error, Forbidden):
        return
    source = news.source
    if source.resource.namespaced and not source.namespace:
        kind = source.resource.group_kind
        for home in sorted({ref.namespace for ref in refs if ref.group_kind == kind}):
            yield replace(source, namespace=home)


@dataclass(slots=True)
class Informer:
    """Any number of sources, their news in one queue; ``close`` ends their threads."""

    cluster: Cluster
    queue: SimpleQueue[Change] = field(default_factory=SimpleQueue)
    _over: Flag = field(default_factory=Flag)
    _threads: dict[WatchScope, Thread] = field(default_factory=dict)

    def open(self, source: WatchScope) -> None:
        """Begin to read and watch a source; one that is open already stays as it is."""
        if source in self._threads:
            return
        thread = Thread(target=self._feed, args=(source,), name="applyprune-watch", daemon=True)
        self._threads[source] = thread
        thread.start()

    def news(self, seconds: float) -> Iterator[Change]:
        """Yield what has come in, after waiting so long for the first of it at the most."""
        try:
            yield self.queue.get(timeout=seconds)
            while True:
                yield self.queue.get_nowait()
        except Empty:
            return

    def close(self, patience: float = _PATIENCE) -> None:
        """End every watch; it takes a moment, for which ``patience`` seconds are waited.

        A list that does not come is not waited for: its thread ends with it, or with the process.
        """
        self._over.set()
        until = time.monotonic() + patience
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))

    def _feed(self, source: WatchScope) -> None:
        while not self._over.is_set():
            try:
                self._follow(source)
            except Expired:
                self._over.wait(_PAUSE)  # and list again
            except ApplypruneError as error:
                self.queue.put(WatchFailed(source, error))
                # Without the right to watch this is what becomes of a watch: a list now and then.
                self._over.wait(5 * _PAUSE if isinstance(error, Forbidden) else _PAUSE)

    def _follow(self, source: WatchScope) -> None:
        lives, version = self.cluster.list_at(
            source.resource,
            namespace=source.namespace,
            selector=source.selector,
            name=source.name,
            full=source.full,
        )
        self.queue.put(Listed(source, {live.ref: live for live in lives}))
        while not self._over.is_set():
            began, silent = time.monotonic(), True
            for change in self.cluster.watch(
                source.resource,
                namespace=source.namespace,
                selector=source.selector,
                name=source.name,
                full=source.full,
                resource_version=version,
                stop=self._over.is_set,
                seconds=_WATCH,
            ):
                silent = False
                version = change.live.resource_version or version
                if change.kind is WatchEventType.DELETED:
                    self.queue.put(self._left(source, change.live.ref))
                elif change.kind is not WatchEventType.BOOKMARK:
                    self.queue.put(Upserted(source, change.live.ref, change.live))
            if silent and time.monotonic() - began < _PAUSE:
                # Something ends every watch at once: only a list tells then what happens.
                self._over.wait(_PAUSE)
                return
            self._over.wait(_BREATH)

    def _left(self, source: WatchScope, ref: Ref) -> Change:
        """Tell an object that is gone from one that has only left the selection."""
        try:
            return Upserted(source, ref, self.cluster.get(source.resource, ref, full=source.full))
        except NotFound:
            return Upserted(source, ref, None)

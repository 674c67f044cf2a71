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

_WATCH_SECONDS = 300.0
_RETRY_PAUSE = 1.0
_BETWEEN_WATCHES = 0.2
_CLOSE_TIMEOUT = 1.0
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
    objects: Mapping[Ref, LiveObject]


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


def watch_scopes(wanted: Iterable[tuple[Resource, Ref]], selector: str) -> Iterator[WatchScope]:
    """Yield one source for each kind, or for each of its namespaces while these are few.

    A ``selector`` of our own label keeps what is not the set's out of it.
    """
    namespaces: dict[Resource, set[str]] = {}
    for resource, ref in wanted:
        namespaces.setdefault(resource, set()).add(ref.namespace)
    for resource, homes in namespaces.items():
        for home in sorted(homes) if len(homes) <= _FEW_NAMESPACES else [""]:
            yield WatchScope(resource, home, selector)


def namespace_scopes(change: Change, refs: Iterable[Ref]) -> Iterator[WatchScope]:
    """Yield a source for each namespace where one for all of them is not allowed."""
    if not isinstance(change, WatchFailed) or not isinstance(change.error, Forbidden):
        return
    source = change.source
    if source.resource.namespaced and not source.namespace:
        kind = source.resource.group_kind
        for namespace in sorted({ref.namespace for ref in refs if ref.group_kind == kind}):
            yield replace(source, namespace=namespace)


@dataclass(slots=True)
class Informer:
    """Any number of sources, their news in one queue; ``close`` ends their threads."""

    cluster: Cluster
    queue: SimpleQueue[Change] = field(default_factory=SimpleQueue)
    _closed: Flag = field(default_factory=Flag)
    _threads: dict[WatchScope, Thread] = field(default_factory=dict)

    def open(self, source: WatchScope) -> None:
        """Begin to read and watch a source; one that is open already stays as it is."""
        if source in self._threads:
            return
        thread = Thread(target=self._run, args=(source,), name="applyprune-watch", daemon=True)
        self._threads[source] = thread
        thread.start()

    def changes(self, seconds: float) -> Iterator[Change]:
        """Yield what has come in, after waiting so long for the first of it at the most."""
        try:
            yield self.queue.get(timeout=seconds)
            while True:
                yield self.queue.get_nowait()
        except Empty:
            return

    def close(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """End every watch; it takes a moment, for which ``patience`` seconds are waited.

        A list that does not come is not waited for: its thread ends with it, or with the process.
        """
        self._closed.set()
        until = time.monotonic() + timeout
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, source: WatchScope) -> None:
        while not self._closed.is_set():
            try:
                self._list_and_watch(source)
            except Expired:
                self._closed.wait(_RETRY_PAUSE)  # and list again
            except ApplypruneError as error:
                self.queue.put(WatchFailed(source, error))
                # Without the right to watch this is what becomes of a watch: a list now and then.
                self._closed.wait(
                    5 * _RETRY_PAUSE if isinstance(error, Forbidden) else _RETRY_PAUSE
                )

    def _list_and_watch(self, source: WatchScope) -> None:
        objects, version = self.cluster.list_at(
            source.resource,
            namespace=source.namespace,
            selector=source.selector,
            name=source.name,
            full=source.full,
        )
        self.queue.put(Listed(source, {live.ref: live for live in objects}))
        while not self._closed.is_set():
            began, silent = time.monotonic(), True
            for change in self.cluster.watch(
                source.resource,
                namespace=source.namespace,
                selector=source.selector,
                name=source.name,
                full=source.full,
                resource_version=version,
                stop=self._closed.is_set,
                seconds=_WATCH_SECONDS,
            ):
                silent = False
                version = change.live.resource_version or version
                if change.kind is WatchEventType.DELETED:
                    self.queue.put(self._after_deletion(source, change.live.ref))
                elif change.kind is not WatchEventType.BOOKMARK:
                    self.queue.put(Upserted(source, change.live.ref, change.live))
            if silent and time.monotonic() - began < _RETRY_PAUSE:
                # Something ends every watch at once: only a list tells then what happens.
                self._closed.wait(_RETRY_PAUSE)
                return
            self._closed.wait(_BETWEEN_WATCHES)

    def _after_deletion(self, source: WatchScope, ref: Ref) -> Change:
        """Tell an object that is gone from one that has only left the selection."""
        try:
            return Upserted(source, ref, self.cluster.get(source.resource, ref, full=source.full))
        except NotFound:
            return Upserted(source, ref, None)

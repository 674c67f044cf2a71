"""List and watch objects, each scope on a thread of its own, and queue the changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from applyprune.clock import CLOCK, Clock
from applyprune.errors import ApplypruneError, Expired, Forbidden, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource, WatchEventType
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster

_WATCH_SECONDS = 300.0
_RETRY_PAUSE = 1.0
_BETWEEN_WATCHES = 0.2
_CLOSE_TIMEOUT = 1.0
_FEW_NAMESPACES = 3


@dataclass(frozen=True, slots=True)
class WatchScope:
    """The objects that one watch covers."""

    resource: Resource
    """The resource to watch."""
    namespace: str = ""
    """The namespace to watch; empty for all namespaces."""
    selector: str = ""
    """The label selector; empty for all objects."""
    name: str = ""
    """The name of a single object; empty for all objects."""
    full: bool = True
    """Whether to watch whole objects; otherwise only their metadata."""


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of a source; an object that is missing here does not exist any more."""

    source: WatchScope
    objects: Mapping[Ref, LiveObject]


@dataclass(frozen=True, slots=True)
class Upserted:
    """One object of a source that has changed; ``live`` is None if it is gone."""

    source: WatchScope
    ref: Ref
    live: LiveObject | None


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """A source that cannot be listed or watched now; the informer retries it."""

    source: WatchScope
    error: ApplypruneError


Change: TypeAlias = Listed | Upserted | WatchFailed


def watch_scopes(wanted: Iterable[tuple[Resource, Ref]], selector: str) -> Iterator[WatchScope]:
    """Yield one source for each kind, or one for each of its namespaces if these are few.

    With a ``selector`` for the set's label, other objects are not watched.
    """
    by_resource: dict[Resource, set[str]] = {}
    for resource, ref in wanted:
        by_resource.setdefault(resource, set()).add(ref.namespace)
    for resource, namespaces in by_resource.items():
        for namespace in sorted(namespaces) if len(namespaces) <= _FEW_NAMESPACES else [""]:
            yield WatchScope(resource, namespace, selector)


def namespace_scopes(change: Change, refs: Iterable[Ref]) -> Iterator[WatchScope]:
    """Yield one source for each namespace if watching all namespaces is forbidden."""
    if not isinstance(change, WatchFailed) or not isinstance(change.error, Forbidden):
        return
    source = change.source
    if source.resource.namespaced and not source.namespace:
        kind = source.resource.group_kind
        for namespace in sorted({ref.namespace for ref in refs if ref.group_kind == kind}):
            yield replace(source, namespace=namespace)


@dataclass(slots=True)
class Informer:
    """Watches any number of sources and queues their changes; ``close`` ends the threads.

    ``keep`` reduces each object to what is needed: the queue, and who reads it, hold no more.
    """

    cluster: Cluster
    queue: SimpleQueue[Change] = field(default_factory=SimpleQueue)
    keep: Callable[[LiveObject], LiveObject] | None = None
    clock: Clock = CLOCK
    """The clock of its waits."""
    _ahead: list[Change] = field(default_factory=list)
    """The change that a wait has found, if it was not yielded yet."""
    _closed: Flag = field(default_factory=Flag)
    _threads: dict[WatchScope, Thread] = field(default_factory=dict)

    def open(self, source: WatchScope) -> None:
        """Start to list and watch a source, unless it is open already."""
        if source in self._threads:
            return
        thread = Thread(target=self._run, args=(source,), name="applyprune-watch", daemon=True)
        self._threads[source] = thread
        thread.start()

    def changes(self, seconds: float) -> Iterator[Change]:
        """Wait up to ``seconds`` for a change, then yield all changes in the queue."""
        if not self.clock.wait(self, seconds):
            return
        try:
            yield self._ahead.pop()
            while True:
                yield self.queue.get_nowait()
        except Empty:
            return

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a change; return whether there is one."""
        try:
            if not self._ahead:
                self._ahead.append(self.queue.get(timeout=seconds))
        except Empty:
            return False
        return True

    def close(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """Stop all watches, waiting up to ``timeout`` seconds for their threads.

        A thread that is waiting for a list ends when the list does, or with the process.
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
                self.clock.wait(self._closed, _RETRY_PAUSE)  # and list again
            except ApplypruneError as error:
                self.queue.put(WatchFailed(source, error))
                # Without the right to watch, this amounts to polling: a list every few seconds.
                pause = 5 * _RETRY_PAUSE if isinstance(error, Forbidden) else _RETRY_PAUSE
                self.clock.wait(self._closed, pause)

    def _list_and_watch(self, source: WatchScope) -> None:
        objects, version = self.cluster.list_at(
            source.resource,
            namespace=source.namespace,
            selector=source.selector,
            name=source.name,
            full=source.full,
            keep=self.keep,
        )
        self.queue.put(Listed(source, {live.ref: live for live in objects}))
        while not self._closed.is_set():
            began, silent = self.clock.now(), True
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
                    self.queue.put(self._upserted(source, change.live))
            if silent and self.clock.now() - began < _RETRY_PAUSE:
                # Something ends every watch at once: only a list can show the changes.
                self.clock.wait(self._closed, _RETRY_PAUSE)
                return
            self.clock.wait(self._closed, _BETWEEN_WATCHES)

    def _after_deletion(self, source: WatchScope, ref: Ref) -> Change:
        """Read the object: it may be gone, or may only have left the selection."""
        try:
            live = self.cluster.get(source.resource, ref, full=source.full)
        except NotFound:
            return Upserted(source, ref, None)
        return self._upserted(source, live)

    def _upserted(self, source: WatchScope, live: LiveObject) -> Upserted:
        return Upserted(source, live.ref, self.keep(live) if self.keep is not None else live)

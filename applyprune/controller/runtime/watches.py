"""Watch what triggers a reconcile: a Bundle, its source, and the Bundles and CRDs it waits for.

Watch events are only hints: a reconcile reads everything again. Events for resourceVersions that
the last reconcile has already read are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING

from applyprune.controller.constants import Key
from applyprune.controller.runtime.impersonation import ServiceAccountClient
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.engine.informer import Change, Informer, Listed, Upserted, WatchFailed, WatchScope
from applyprune.errors import Forbidden
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.resources import BUNDLES, DEFINITIONS, Resource
from applyprune.planning.annotations import APPROVE, ORPHAN, RECONCILE_NOW

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster

MOST_WATCHES = 500
"""How many objects of sources are watched; beyond that, only the interval triggers."""
_TICK = 0.5
_UNTIL_SERVED = 1.0
"""Seconds from a change of a CRD until its kind is served."""
_WAKING = (APPROVE, ORPHAN, RECONCILE_NOW)
"""The annotations of a Bundle whose change needs a reconcile."""
_KEPT_METADATA = ("name", "namespace", "generation", "deletionTimestamp")
_LONGEST_KEPT = 256
"""Characters of an annotation's value; of a longer one, its digest is enough."""


@dataclass(slots=True)
class _Followed:
    """The objects of one Bundle's source, their watches, and the versions read last."""

    account: str
    account_client: ServiceAccountClient
    feeds: Informer
    refs: frozenset[Ref]
    versions: Mapping[Ref, str]
    blind: bool = False


def _ignore(key: Key, generation: int | None) -> None:
    """Do nothing."""


@dataclass(slots=True)
class Watches:
    """Every watch of the controller; ``attend`` turns their events into keys of the queue.

    ``moved`` is called with the generation of every Bundle that has changed.
    """

    queue: WorkQueue
    cluster: Cluster
    connect: Callable[[str, str], ServiceAccountClient]
    namespaces: tuple[str, ...] = ()
    moved: Callable[[Key, int | None], None] = _ignore
    _news: SimpleQueue[Change] = field(default_factory=SimpleQueue)
    _bundles: Informer | None = None
    _marks: dict[Key, tuple[object, ...]] = field(default_factory=dict)
    _sources: dict[Key, _Followed] = field(default_factory=dict)
    _users: dict[Ref, set[Key]] = field(default_factory=dict)
    _waiting: dict[Key, frozenset[str]] = field(default_factory=dict)
    _lack_kinds: set[Key] = field(default_factory=set)
    _definitions: dict[Ref, str] = field(default_factory=dict)
    _listed: set[str] = field(default_factory=set)
    _failures: dict[WatchScope, tuple[str, float]] = field(default_factory=dict)
    _opened: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    @property
    def synced(self) -> bool:
        """Return whether every existing Bundle has been listed."""
        return len(self._listed) == len(self.namespaces or ("",))

    def unseen(self, patience: float) -> str:
        """Return why Bundles have not been seen for so many seconds; empty if they have been."""
        now = time.monotonic()
        for source, (error, since) in list(self._failures.items()):
            if source.resource == BUNDLES and now - since > patience:
                return f"the Bundles cannot be listed or watched for {now - since:.0f} s: {error}"
        if self._opened and not self.synced and now - self._opened > patience:
            return f"the Bundles have not been listed after {now - self._opened:.0f} s"
        return ""

    def open(self) -> None:
        """Start to watch the Bundles."""
        self._opened = time.monotonic()
        self._bundles = Informer(self.cluster, self._news, keep=_slim)
        for namespace in self.namespaces or ("",):
            # A Bundle may be as large as a megabyte; a reconcile reads it itself.
            self._bundles.open(WatchScope(BUNDLES, namespace, full=False))  # guard: bundle-metadata

    def close(self) -> None:
        """Stop every watch."""
        if self._bundles is not None:
            self._bundles.close(0)
        with self._lock:
            found = list(self._sources.values())
            self._sources.clear()
        for followed in found:
            _end(followed)

    def attend(self, is_over: Callable[[], bool]) -> None:
        """Turn watch events into keys of the queue until ``is_over``."""
        feeds = Informer(self.cluster, self._news)
        while not is_over():
            for news in feeds.changes(_TICK):
                self._on_news(news)

    def follow(
        self,
        key: Key,
        account: str,
        refs: Iterable[tuple[Resource, Ref]],
        versions: Mapping[Ref, str],
    ) -> None:
        """Watch, as a ServiceAccount, the objects of a Bundle's source.

        ``versions`` are the resourceVersions that its last reconcile has read. The reconcile at
        the interval covers what cannot be watched.
        """
        wanted = {ref: resource for resource, ref in refs}
        with self._lock:
            known = self._sources.get(key)
            if known is not None:
                known.versions = dict(versions)
                if known.refs == wanted.keys() and known.account == account and not known.blind:
                    return
            old = self._drop(key)
            room = sum(len(other.refs) for other in self._sources.values()) + len(wanted)
            if wanted and room <= MOST_WATCHES:
                account_client = self.connect(key[0], account)
                feeds = Informer(account_client.cluster, self._news, keep=_slim)
                self._sources[key] = _Followed(
                    account, account_client, feeds, frozenset(wanted), dict(versions)
                )
                for ref, resource in wanted.items():
                    self._users.setdefault(ref, set()).add(key)
                    feeds.open(WatchScope(resource, ref.namespace, name=ref.name, full=False))
            elif wanted:
                LOG.warning("too many sources to watch", extra=fields(limit=MOST_WATCHES))
        if old is not None:
            _end(old)

    def wait_for(self, key: Key, names: Iterable[str]) -> None:
        """Reconcile a Bundle when one of these Bundles of its namespace changes."""
        with self._lock:
            if found := frozenset(names):
                self._waiting[key] = found
            else:
                self._waiting.pop(key, None)

    def wait_for_kinds(self, key: Key, *, waits: bool) -> None:
        """Reconcile a Bundle when a CRD changes; the first one that waits opens the watch."""
        with self._lock:
            if not waits:
                self._lack_kinds.discard(key)
                return
            self._lack_kinds.add(key)
            if self._bundles is not None:
                self._bundles.open(WatchScope(DEFINITIONS, full=False))

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        self.wait_for_kinds(key, waits=False)
        with self._lock:
            old = self._drop(key)
            self._marks.pop(key, None)
            self._waiting.pop(key, None)
        if old is not None:
            _end(old)

    def _on_news(self, news: Change) -> None:
        if isinstance(news, WatchFailed):
            self._on_failure(news)
            return
        self._failures.pop(news.source, None)
        if news.source.resource == BUNDLES:
            self._on_bundles(news)
        elif news.source.resource == DEFINITIONS:
            self._on_definitions(news)
        elif isinstance(news, Listed):
            for ref in [ref for ref in self._users if _is_of(ref, news.source)]:
                self._on_source(ref, news.objects.get(ref))
        else:
            self._on_source(news.ref, news.live)

    def _on_bundles(self, news: Listed | Upserted) -> None:
        if isinstance(news, Upserted):
            self._on_bundle((news.ref.namespace, news.ref.name), news.live)
            return
        for ref, live in news.objects.items():
            self._on_bundle((ref.namespace, ref.name), live)
        existing = {(ref.namespace, ref.name) for ref in news.objects}
        with self._lock:
            namespace = news.source.namespace
            gone = [key for key in self._marks if key not in existing and namespace in {"", key[0]}]
            self._listed.add(namespace)
        for key in gone:
            self._on_bundle(key, None)

    def _on_bundle(self, key: Key, live: LiveObject | None) -> None:
        """Queue the Bundles that wait for it, and itself if more than its status has changed."""
        mark = _mark(live) if live is not None else ("gone",)
        with self._lock:
            moved = self._marks.get(key) != mark
            self._marks[key] = mark
            waiting = [
                other
                for other, names in self._waiting.items()
                if other[0] == key[0] and key[1] in names
            ]
        if moved:
            self.queue.add(key)
            if live is not None:
                # What somebody has orphaned is not worked on any longer.
                is_orphaned = live.terminating and ORPHAN in live.annotations
                self.moved(key, None if is_orphaned else live.generation)
        for other in waiting:
            self.queue.add(other)

    def _on_definitions(self, news: Listed | Upserted) -> None:
        """Queue the Bundles that wait for kinds, if a CRD has changed since it was last seen."""
        live = news.objects if isinstance(news, Listed) else {news.ref: news.live}
        seen = {ref: one.resource_version for ref, one in live.items() if one is not None}
        known = self._definitions
        self._definitions = seen if isinstance(news, Listed) else {**known, **seen}
        if self._definitions == known:
            return
        with self._lock:
            waiting = list(self._lack_kinds)
        for key in waiting:
            self.queue.add(key, _UNTIL_SERVED)

    def _on_source(self, ref: Ref, live: LiveObject | None) -> None:
        version = live.resource_version if live is not None else ""
        with self._lock:
            woken = [
                key
                for key in self._users.get(ref, ())
                if (followed := self._sources.get(key)) is not None
                and followed.versions.get(ref) != version
            ]
        for key in woken:
            self.queue.add(key)

    def _on_failure(self, news: WatchFailed) -> None:
        source = news.source
        before, since = self._failures.get(source, ("", time.monotonic()))
        self._failures[source] = (news.error.message, since)
        if before != news.error.message:
            LOG.warning(
                "watch failed",
                extra=fields(
                    resource=source.resource.full_plural,
                    namespace=source.namespace,
                    name=source.name,
                    error=news.error.message,
                ),
            )
        if source.resource == BUNDLES or not isinstance(news.error, Forbidden):
            return
        with self._lock:
            users = [
                key for ref, keys in self._users.items() if _is_of(ref, source) for key in keys
            ]
            for key in users:
                # Try once per reconcile: do not repeat a forbidden watch every few seconds.
                if (followed := self._sources.get(key)) is not None:
                    followed.blind = True
                    followed.feeds.close(0)

    def _drop(self, key: Key) -> _Followed | None:
        old = self._sources.pop(key, None)
        if old is not None:
            for ref in old.refs:
                users = self._users.get(ref, set())
                users.discard(key)
                if not users:
                    self._users.pop(ref, None)
        return old


def _slim(live: LiveObject) -> LiveObject:
    """Return an object with the metadata that a mark needs; the rest may be large."""
    metadata: dict[str, object] = {
        key: live.metadata[key] for key in _KEPT_METADATA if key in live.metadata
    }
    metadata["annotations"] = {
        key: _short(live.annotations[key]) for key in _WAKING if key in live.annotations
    }
    return replace(live, metadata=metadata, body=None)


def _short(value: str) -> str:
    if len(value) <= _LONGEST_KEPT:
        return value
    return sha256(value.encode("utf-8", "replace")).hexdigest()


def _mark(live: LiveObject) -> tuple[object, ...]:
    """Return the parts of a Bundle whose change needs a reconcile."""
    requests = (live.annotations.get(key) for key in _WAKING)
    return (live.uid, live.generation, live.terminating, *requests)


def _is_of(ref: Ref, source: WatchScope) -> bool:
    return (ref.namespace, ref.name, ref.group, ref.kind) == (
        source.namespace,
        source.name,
        source.resource.group,
        source.resource.kind,
    )


def _end(followed: _Followed) -> None:
    followed.feeds.close(0)
    followed.account_client.close()

"""What wakes a Bundle: a change of its own, of what its source is read from, of what it waits for.

Watches give hints only; a pass reads everything anew. What a pass has read is compared with what a
watch tells, so that news of what is known already wakes nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING

from applyprune.controller.logs import LOG, fields
from applyprune.controller.names import APPROVE_PRUNE, RECONCILE_NOW
from applyprune.engine.feeding import Broken, Feeds, Listed, News, Seen, Source
from applyprune.errors import Forbidden
from applyprune.model.builtin import BUNDLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from applyprune.controller.identity import Acting
    from applyprune.controller.queue import Key, WorkQueue
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import Live
    from applyprune.model.refs import Ref
    from applyprune.model.resources import Resource

MOST_WATCHES = 500
"""How many objects of sources are watched; beyond that the periodic pass has to do."""
_TICK = 0.5


@dataclass(slots=True)
class _Followed:
    """What one Bundle's source is read from, who watches it, and what its last pass has read."""

    account: str
    acting: Acting
    feeds: Feeds
    refs: frozenset[Ref]
    versions: Mapping[Ref, str]
    blind: bool = False


def _nobody(key: Key, generation: int | None) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Watches:
    """Every watch of the controller; its news are turned into keys of the queue by ``attend``.

    ``moved`` is told the generation of every Bundle that has changed.
    """

    queue: WorkQueue
    cluster: Cluster
    connect: Callable[[str, str], Acting]
    namespaces: tuple[str, ...] = ()
    moved: Callable[[Key, int | None], None] = _nobody
    _news: SimpleQueue[News] = field(default_factory=SimpleQueue)
    _bundles: Feeds | None = None
    _marks: dict[Key, tuple[object, ...]] = field(default_factory=dict)
    _sources: dict[Key, _Followed] = field(default_factory=dict)
    _users: dict[Ref, set[Key]] = field(default_factory=dict)
    _waiting: dict[Key, frozenset[str]] = field(default_factory=dict)
    _listed: set[str] = field(default_factory=set)
    _troubles: dict[Source, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def synced(self) -> bool:
        """Return whether every Bundle that there is has been heard of."""
        return len(self._listed) == len(self.namespaces or ("",))

    def open(self) -> None:
        """Begin to watch the Bundles."""
        self._bundles = Feeds(self.cluster, self._news)
        for namespace in self.namespaces or ("",):
            self._bundles.open(Source(BUNDLES, namespace))

    def close(self) -> None:
        """End every watch."""
        if self._bundles is not None:
            self._bundles.close(0)
        with self._lock:
            found = list(self._sources.values())
            self._sources.clear()
        for one in found:
            _end(one)

    def attend(self, is_over: Callable[[], bool]) -> None:
        """Turn news into keys of the queue until ``is_over``."""
        feeds = Feeds(self.cluster, self._news)
        while not is_over():
            for one in feeds.news(_TICK):
                self._hear(one)

    def follow(
        self,
        key: Key,
        account: str,
        refs: Iterable[tuple[Resource, Ref]],
        versions: Mapping[Ref, str],
    ) -> None:
        """Watch, as a ServiceAccount, what a Bundle's source is read from.

        ``versions`` are the resourceVersions that its last pass has read. What cannot be watched
        is looked at by the periodic pass.
        """
        wanted = {ref: resource for resource, ref in refs}
        with self._lock:
            known = self._sources.get(key)
            if known is not None:
                known.versions = dict(versions)
                if known.refs == wanted.keys() and known.account == account and not known.blind:
                    return
            old = self._drop(key)
            room = sum(len(one.refs) for one in self._sources.values()) + len(wanted)
            if wanted and room <= MOST_WATCHES:
                acting = self.connect(key[0], account)
                feeds = Feeds(acting.cluster, self._news)
                self._sources[key] = _Followed(
                    account, acting, feeds, frozenset(wanted), dict(versions)
                )
                for ref, resource in wanted.items():
                    self._users.setdefault(ref, set()).add(key)
                    feeds.open(Source(resource, ref.namespace, name=ref.name, full=False))
            elif wanted:
                LOG.warning("too many sources to watch", extra=fields(limit=MOST_WATCHES))
        if old is not None:
            _end(old)

    def wait_for(self, key: Key, names: Iterable[str]) -> None:
        """Wake a Bundle when one of these of its namespace changes; nobody when there is none."""
        with self._lock:
            if found := frozenset(names):
                self._waiting[key] = found
            else:
                self._waiting.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        with self._lock:
            old = self._drop(key)
            self._marks.pop(key, None)
            self._waiting.pop(key, None)
        if old is not None:
            _end(old)

    def _hear(self, news: News) -> None:
        if isinstance(news, Broken):
            self._hear_trouble(news)
            return
        self._troubles.pop(news.source, None)
        if news.source.resource == BUNDLES:
            self._hear_bundles(news)
        elif isinstance(news, Listed):
            for ref in [ref for ref in self._users if _is_of(ref, news.source)]:
                self._hear_source(ref, news.lives.get(ref))
        else:
            self._hear_source(news.ref, news.live)

    def _hear_bundles(self, news: Listed | Seen) -> None:
        if isinstance(news, Seen):
            self._hear_bundle((news.ref.namespace, news.ref.name), news.live)
            return
        for ref, live in news.lives.items():
            self._hear_bundle((ref.namespace, ref.name), live)
        there = {(ref.namespace, ref.name) for ref in news.lives}
        with self._lock:
            inside = news.source.namespace
            gone = [key for key in self._marks if key not in there and inside in {"", key[0]}]
            self._listed.add(inside)
        for key in gone:
            self._hear_bundle(key, None)

    def _hear_bundle(self, key: Key, live: Live | None) -> None:
        """Wake a Bundle by what is its user's, never by a status of our own; and who waits."""
        mark = _mark(live) if live is not None else ("gone",)
        with self._lock:
            moved = self._marks.get(key) != mark
            self._marks[key] = mark
            waiting = [
                one for one, names in self._waiting.items() if one[0] == key[0] and key[1] in names
            ]
        if moved:
            self.queue.add(key)
            if live is not None:
                self.moved(key, live.generation)
        for one in waiting:
            self.queue.add(one)

    def _hear_source(self, ref: Ref, live: Live | None) -> None:
        version = live.resource_version if live is not None else ""
        with self._lock:
            woken = [
                key
                for key in self._users.get(ref, ())
                if (one := self._sources.get(key)) is not None and one.versions.get(ref) != version
            ]
        for key in woken:
            self.queue.add(key)

    def _hear_trouble(self, news: Broken) -> None:
        source = news.source
        if self._troubles.get(source) != news.error.what:
            self._troubles[source] = news.error.what
            LOG.warning(
                "a watch is broken",
                extra=fields(
                    resource=source.resource.full_plural,
                    namespace=source.namespace,
                    name=source.name,
                    error=news.error.what,
                ),
            )
        if source.resource == BUNDLES or not isinstance(news.error, Forbidden):
            return
        with self._lock:
            users = [
                key for ref, keys in self._users.items() if _is_of(ref, source) for key in keys
            ]
            for key in users:
                # One try a pass: what may not be watched is not asked for every few seconds.
                if (one := self._sources.get(key)) is not None:
                    one.blind = True
                    one.feeds.close(0)

    def _drop(self, key: Key) -> _Followed | None:
        old = self._sources.pop(key, None)
        if old is not None:
            for ref in old.refs:
                users = self._users.get(ref, set())
                users.discard(key)
                if not users:
                    self._users.pop(ref, None)
        return old


def _mark(live: Live) -> tuple[object, ...]:
    """Return what of a Bundle makes it worth a pass when it moves."""
    asked = live.annotations.get(RECONCILE_NOW), live.annotations.get(APPROVE_PRUNE)
    return (live.uid, live.generation, live.terminating, *asked)


def _is_of(ref: Ref, source: Source) -> bool:
    return (ref.namespace, ref.name, ref.group, ref.kind) == (
        source.namespace,
        source.name,
        source.resource.group,
        source.resource.kind,
    )


def _end(one: _Followed) -> None:
    one.feeds.close(0)
    one.acting.close()

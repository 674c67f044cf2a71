"""The watches of the main process: Bundles, sources, and the objects that Bundles have applied.

Watch events are only hints: a reconcile reads everything again. Events for resourceVersions that
the last reconcile has already read are ignored.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from hashlib import sha256
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from applyprune.cluster.many_watches import (
    FailureReport,
    ListReport,
    ManyWatches,
    ObjectReport,
    WatchReport,
    WatchTarget,
)
from applyprune.controller.clients import account_user
from applyprune.controller.hints import ObjectHints, is_in
from applyprune.controller.queue import WorkQueue
from applyprune.controller.reasons import LOG, Key, fields
from applyprune.controller.task import AppliedObjects, SourceObjects, Unwatched
from applyprune.engine.waiting import (
    Informer,
    Listed,
    Upserted,
    WatchChange,
    WatchFailed,
    WatchScope,
)
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, DEFINITIONS, LiveObject
from applyprune.planning.applyset import PART_OF
from applyprune.planning.marks import ACCEPT_CLUSTER, APPROVE, ORPHAN, RECONCILE_NOW

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.engine.ports import Cluster

_TICK = 0.5
_SOON = 1.0
"""Seconds from a change of a CRD until its kind is served, or until another look."""
_NARROW = 3600.0
"""Seconds until a whole namespace is tried again that may not be watched."""
_GONE = ("gone",)
_WAKING = (ACCEPT_CLUSTER, APPROVE, ORPHAN, RECONCILE_NOW)
"""The annotations of a Bundle whose change needs a reconcile."""
_KEPT_METADATA = ("name", "namespace", "generation", "deletionTimestamp")
_LONGEST_KEPT = 256
"""Characters of an annotation's value; of a longer one, its digest is enough."""


class WaitingBundles(Struct):
    """Which Bundles wait for which others; not thread-safe."""

    _waits_for: dict[Key, frozenset[Key]] = field(default_factory=dict)
    _waited_for: dict[Key, set[Key]] = field(default_factory=dict)

    def wait(self, key: Key, others: frozenset[Key]) -> bool:
        """Let a Bundle wait for these others, and for no more; return whether any is new."""
        before = self._waits_for.pop(key, frozenset())
        for other in before - others:
            waiting = self._waited_for[other]
            waiting.discard(key)
            if not waiting:
                del self._waited_for[other]
        if others:
            self._waits_for[key] = others
        for other in others:
            self._waited_for.setdefault(other, set()).add(key)
        return not others <= before

    def waiting_for(self, other: Key) -> frozenset[Key]:
        return frozenset(self._waited_for.get(other, ()))


class Watches:
    """Every watch of the controller; it turns their events into keys of the queue.

    While it does not serve the Bundles, it watches them only to know them when it does. ``moved``
    is called with the generation of one that has changed.
    """

    def __init__(
        self,
        queue: WorkQueue,
        cluster: Cluster,
        access: ClusterAccess,
        agent: str,
        namespaces: tuple[str, ...] = (),
    ) -> None:
        self.queue = queue
        self.cluster = cluster
        self.namespaces = namespaces
        self.serves = True
        self.moved: Callable[[Key, int | None], None] = lambda *_: None
        self._news: SimpleQueue[WatchChange] = SimpleQueue()
        self._bundles: Informer | None = None
        # The Bundles for which there is probably something to do.
        self._marks: dict[Key, tuple[object, ...]] = {}
        self._sources: dict[Key, SourceObjects] = {}
        self._users: dict[Ref, set[Key]] = {}
        # The namespaces that may not be watched as a whole, and when that was seen.
        self._narrow: dict[WatchTarget, float] = {}
        self._hints = ObjectHints(queue.clock)  # guard: clock-of-hints -> ObjectHints()
        self._waiting = WaitingBundles()
        self._lack_kinds: set[Key] = set()
        self._definitions: dict[Ref, str] = {}
        self._listed: set[str] = set()
        self._failures: dict[WatchScope, tuple[str, float]] = {}
        self._opened = 0.0
        self._lock = Lock()
        self.shared = SharedWatches(self._on_object, self._on_lost, self._on_listed, self._on_moved)
        self._hub = self.shared.hub = ManyWatches(access, agent, self.shared.on_report)

    @property
    def synced(self) -> bool:
        """Return whether every existing Bundle has been listed."""
        return len(self._listed) == len(self.namespaces or ("",))

    @property
    def is_alive(self) -> bool:
        """Return whether the thread of the shared watches runs, once it was started."""
        return not self._opened or self._hub.is_alive

    def unseen(self, patience: float) -> str:
        """Return why Bundles have not been seen for so many seconds; empty if they have been."""
        now = self.queue.clock.now()
        for source, (error, since) in list(self._failures.items()):
            if source.resource == BUNDLES and now - since > patience:
                return f"the Bundles cannot be listed or watched for {now - since:.0f} s: {error}"
        if self._opened and not self.synced and now - self._opened > patience:
            return f"the Bundles have not been listed after {now - self._opened:.0f} s"
        return ""

    def open(self) -> None:
        self._opened = self.queue.clock.now()
        self._hub.start()
        self._bundles = Informer(self.cluster, self._news, slim=_slim)
        for namespace in self.namespaces or ("",):
            # A Bundle may be as large as a megabyte; a reconcile reads it itself.
            # guard: bundle-metadata -> WatchScope(BUNDLES, namespace, full=True)
            scope = WatchScope(BUNDLES, namespace, full=False)
            self._bundles.open(scope)

    def close(self) -> None:
        if self._bundles is not None:
            self._bundles.close(0)
        self._hub.close()

    def process_events(self, is_over: Callable[[], bool]) -> None:
        """Turn events of Bundles into keys of the queue until ``is_over``."""
        feeds = Informer(self.cluster, self._news)
        while not is_over():
            for news in feeds.changes(_TICK):
                self.on_report(news)

    def on_report(self, news: WatchChange) -> None:
        """Act on what a watch of Bundles or CRDs has shown."""
        if isinstance(news, WatchFailed):
            self._on_failure(news)
            return
        self._failures.pop(news.source, None)
        if news.source.resource == DEFINITIONS:
            self._on_definitions(news)
        else:
            self._on_bundles(news)

    def _on_bundles(self, news: Listed | Upserted) -> None:
        if isinstance(news, Upserted):
            self._on_bundle((news.ref.namespace, news.ref.name), news.live)
            return
        for ref, live in news.objects.items():
            self._on_bundle((ref.namespace, ref.name), live, listed=True)
        existing = {(ref.namespace, ref.name) for ref in news.objects}
        with self._lock:
            namespace = news.source.namespace
            gone = [key for key in self._marks if key not in existing and namespace in {"", key[0]}]
            self._listed.add(namespace)
        for key in gone:
            self._on_bundle(key, None)

    def _on_bundle(self, key: Key, live: LiveObject | None, *, listed: bool = False) -> None:
        """Queue the Bundles that wait for it, and itself if more than its status has changed."""
        mark = _mark(live) if live is not None else _GONE
        with self._lock:
            moved = self.serves and self._marks.get(key) != mark
            self._marks[key] = mark
            if not self.serves and live is None:
                del self._marks[key]
            waiting = self._waiting.waiting_for(key)
        if moved:
            if live is not None:
                # First of all, or it would end the reconcile that the change itself starts.
                # What somebody has orphaned is not worked on any longer.
                is_orphaned = live.terminating and ORPHAN in live.annotations
                self.moved(key, None if is_orphaned else live.generation)
            self.queue.add(key, news=not listed)
        for other in waiting:
            self.queue.add(other, news=True)

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
            self.queue.add(key, _SOON)

    def _on_failure(self, news: WatchFailed) -> None:
        source = news.source
        before, since = self._failures.get(source, ("", self.queue.clock.now()))
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

    def set_serves(self, *, serves: bool) -> list[Key]:
        """Serve the Bundles from now on, or no longer; return all of them."""
        with self._lock:
            self.serves, known = serves, [*self._marks]
            if not serves:
                self._marks = {key: mark for key, mark in self._marks.items() if mark != _GONE}
            return known

    def in_namespace(self, namespace: str) -> list[Key]:
        """Return the Bundles that exist in a namespace."""
        with self._lock:
            known = self._marks.items()
            return [key for key, mark in known if key[0] == namespace and mark != _GONE]

    def follow_source(self, key: Key, source: SourceObjects) -> None:
        """Watch, as its ServiceAccount, the objects of a Bundle's source."""
        with self._lock:
            self._drop_source(key)
            self._sources[key] = source
            for ref in source.resources:
                self._users.setdefault(ref, set()).add(key)
            wanted = [*self._wanted(key)]
        user = account_user(key[0], source.account)
        if self.shared.want(key, wanted) and any(
            self.shared.recent(user, ref) not in {None, version}
            for ref, version in source.versions.items()
        ):
            # It has changed since this reconcile has read it, before this Bundle was watching.
            self.queue.add(key, news=True)

    def follow_objects(self, key: Key, objects: AppliedObjects) -> None:
        """Watch, as its ServiceAccount, what a Bundle has applied."""
        with self._lock:
            self._hints.follow(key, objects)
            wanted = [*self._wanted(key)]
        self.shared.want(key, wanted)
        self._on_moved((key,))

    def _on_moved(self, keys: Iterable[Key]) -> None:
        """Queue the Bundles whose status does not say how they are watched now."""
        for key in keys:
            with self._lock:
                objects = self._hints.objects_of(key)
            unwatched = self.shared.unwatched(key)
            if objects is None or not objects.kinds or unwatched is None:
                continue
            if unwatched != objects.unwatched:
                self.queue.add(key)

    def drifted(self, key: Key) -> frozenset[Ref]:
        """Return the objects of a Bundle that may have drifted and are due."""
        with self._lock:
            return self._hints.drifted(key)

    def queue_drifted(self, key: Key) -> None:
        """Queue a Bundle for what may still have drifted, or has again."""
        with self._lock:
            seconds = self._hints.next_due(key)
        if seconds is not None:
            self.queue.add(key, seconds, news=True, is_part=True)

    def wait_for(self, key: Key, names: Iterable[str]) -> None:
        """Reconcile a Bundle when one of these Bundles of its namespace changes."""
        with self._lock:
            is_new = self._waiting.wait(key, frozenset((key[0], name) for name in names))
        if is_new:  # guard: dependency-seen-late never
            # One of them may have changed after it was read, while nobody waited for it.
            self.queue.add(key, _SOON)

    def wait_for_kinds(self, key: Key, *, waits: bool) -> None:
        """Reconcile a Bundle when a CRD changes; the first one that waits opens the watch."""
        with self._lock:
            if not waits:
                self._lack_kinds.discard(key)
                return
            is_new = key not in self._lack_kinds
            self._lack_kinds.add(key)
            if self._bundles is not None:
                self._bundles.open(WatchScope(DEFINITIONS, full=False))
        if is_new:  # guard: kind-seen-late never
            # A CRD may have come after the kinds were read, while nobody waited for it.
            self.queue.add(key, _SOON)

    def forget(self, key: Key) -> None:
        self.drop(key)
        with self._lock:
            self._marks.pop(key, None)

    def drop(self, key: Key) -> None:
        """Watch nothing for a Bundle but the Bundle itself."""
        self.wait_for_kinds(key, waits=False)
        with self._lock:
            self._drop_source(key)
            self._hints.forget(key)
            self._waiting.wait(key, frozenset())
        self.shared.want(key, ())

    def _drop_source(self, key: Key) -> None:
        old = self._sources.pop(key, None)
        for ref in old.resources if old is not None else ():
            users = self._users.get(ref, set())
            users.discard(key)
            if not users:
                self._users.pop(ref, None)

    def _wanted(self, key: Key) -> Iterator[WatchTarget]:
        """Yield the watches of a Bundle; whole namespaces, which Bundles can share, if allowed."""
        source = self._sources.get(key)
        if source is not None:
            user = account_user(key[0], source.account)
            for ref, resource in source.resources.items():
                whole = WatchTarget(user, resource, ref.namespace)
                alone = WatchTarget(user, resource, ref.namespace, name=ref.name)
                is_refused = self.queue.clock.now() - self._narrow.get(whole, -_NARROW) < _NARROW
                yield alone if is_refused else whole
        objects = self._hints.objects_of(key)
        if objects is not None:
            user = account_user(key[0], objects.account)
            for resource, namespace in objects.kinds:
                yield WatchTarget(user, resource, namespace, PART_OF)

    def _on_object(self, users: Container[Key], live: LiveObject, gone: bool) -> None:
        version = "" if gone else live.resource_version
        with self._lock:
            woken = [
                key
                for key in self._users.get(live.ref, ())
                if key in users and self._sources[key].versions.get(live.ref) != version
            ]
            requeues = self._hints.observe(live, gone=gone, users=users)
        for key in woken:
            self.queue.add(key, news=True)
        for requeue in requeues:
            self.queue.add(requeue.key, requeue.seconds, news=True, is_part=not requeue.is_whole)

    def _on_lost(self, users: Iterable[Key], watched: WatchTarget) -> None:
        """Watch single objects where the whole namespace may not be watched."""
        if watched.selector or watched.name:
            return
        now = self.queue.clock.now()
        with self._lock:
            recent = {one: since for one, since in self._narrow.items() if now - since < _NARROW}
            self._narrow = {**recent, watched: now}
            wanted = {key: [*self._wanted(key)] for key in users}
        for key, watches in wanted.items():
            self.shared.want(key, watches)

    def _on_listed(self, users: Iterable[Key], listed: ListReport) -> None:
        """Queue the Bundles of which an object is missing: its deletion was not seen."""
        with self._lock:
            lost = [
                key
                for key in users
                if (source := self._sources.get(key)) is not None
                and any(
                    source.versions.get(ref) and is_in(ref, listed.watched)
                    for ref in source.resources.keys() - listed.refs
                )
            ]
            hints = [(key, self._hints.observe_absence(key, listed)) for key in users]
        for key in lost:
            self.queue.add(key, news=True)
        for key, seconds in hints:
            if seconds is not None:
                self.queue.add(key, seconds, news=True, is_part=True)


def _slim(live: LiveObject) -> LiveObject:
    """Return an object with the metadata that a mark needs; the rest may be large."""
    metadata: dict[str, object] = {
        key: live.metadata[key] for key in _KEPT_METADATA if key in live.metadata
    }
    metadata["annotations"] = {
        key: _short(live.annotations[key]) for key in _WAKING if key in live.annotations
    }
    return LiveObject.of(live.ref, live.uid, live.resource_version, metadata)


def _short(value: str) -> str:
    if len(value) <= _LONGEST_KEPT:
        return value
    return sha256(value.encode("utf-8", "replace")).hexdigest()


def _mark(live: LiveObject) -> tuple[object, ...]:
    """Return the parts of a Bundle whose change needs a reconcile."""
    requests = (live.annotations.get(key) for key in _WAKING)
    return (live.uid, live.generation, live.terminating, *requests)


# Watches that Bundles share: one for each identity, kind and scope. Their number is limited; what
# is wanted beyond that waits, and only the interval triggers. All Bundles that want the same watch
# are in one namespace, that of the identity.


MOST_WATCHES = 500
"""How many watches a replica keeps open."""
_REFUSED = frozenset({401, 403, 404, 405})
_MOST_RECENT = 4096
_Place: TypeAlias = "tuple[str, Ref]"
"""A user, and an object that it has seen."""


class SharedWatches(Struct):
    """Watches, each for the Bundles that want it; thread-safe.

    ``seen`` is called with the Bundles that want a watch, an object that it has seen, and whether
    that object is gone. ``lost`` is called with the Bundles of a watch that is refused, and
    ``listed`` with those of a watch that has shown all objects that exist. ``moved`` is called with
    Bundles that may be watched in another way than before.
    """

    seen: Callable[[Container[Key], LiveObject, bool], None]
    lost: Callable[[Iterable[Key], WatchTarget], None]
    listed: Callable[[Iterable[Key], ListReport], None]
    moved: Callable[[Iterable[Key]], None] = lambda _: None
    hub: ManyWatches | None = None
    most: int = MOST_WATCHES
    _wanted: dict[Key, frozenset[WatchTarget]] = field(default_factory=dict)
    _users: dict[WatchTarget, set[Key]] = field(default_factory=dict)
    """The watches that are open, the newest last."""
    _waiting: dict[str, dict[WatchTarget, set[Key]]] = field(default_factory=dict)
    """Those that are wanted and not open, by namespace."""
    _opened: Counter[str] = field(default_factory=Counter)
    """How many are open for each namespace."""
    _listed: set[WatchTarget] = field(default_factory=set)
    """Those that have shown what exists, and were not refused since."""
    _blind: dict[WatchTarget, int] = field(default_factory=dict)
    _recent: OrderedDict[_Place, str] = field(default_factory=OrderedDict)
    _full: set[str] = field(default_factory=set)
    """The namespaces for which it was said that they lack watches."""
    _moved: set[Key] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @property
    def count(self) -> int:
        """Return how many watches are open."""
        return len(self._users)

    @property
    def waiting(self) -> int:
        """Return how many more watches are wanted."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def want(self, key: Key, wanted: Iterable[WatchTarget]) -> bool:
        """Watch this for a Bundle from now on, the first of it first, and nothing else.

        Return whether it has joined a watch that was open: what that has seen is not seen again.
        """
        with self._lock:
            ordered = dict.fromkeys(wanted)
            new, old = frozenset(ordered), self._wanted.get(key, frozenset())
            if new == old:
                return False
            if new:
                self._wanted[key] = new
            else:
                del self._wanted[key]
            for one in old - new:
                self._drop(key, one)
            joins = any(one in self._users for one in new - old)
            for one in ordered:
                if one not in old:
                    self._join(key, one)
            moved, self._moved = self._moved - {key}, set()
            lacking = sorted(self._waiting.keys() - self._full)
            self._full = {*self._waiting}
        for namespace in lacking:
            LOG.warning("too many watches", extra=fields(namespace=namespace, limit=self.most))
        self.moved(moved)
        return joins

    def _join(self, key: Key, watched: WatchTarget) -> None:
        if (users := self._users.get(watched)) is not None:
            users.add(key)
            return
        self._waiting.setdefault(key[0], {}).setdefault(watched, set()).add(key)
        self._open_waiting()

    def _drop(self, key: Key, watched: WatchTarget) -> None:
        waits = self._waiting.get(key[0], {})
        users = waits[watched] if watched in waits else self._users[watched]
        users.discard(key)
        if users:
            return
        if watched in waits:
            self._no_longer_waiting(key[0], watched)
            return
        self._close(key[0], watched)
        self._open_waiting()

    def _open_waiting(self) -> None:
        """Open what waits: the namespace with the fewest watches first.

        Without room, the namespace with the most gives up its newest one, as long as it has more.
        """
        while self._waiting:
            poorest = min(self._waiting, key=self._opened.__getitem__)
            if len(self._users) >= self.most:
                richest = max(self._opened, key=self._opened.__getitem__)
                # guard: share-of-watches always
                if self._opened[richest] <= self._opened[poorest] + 1:
                    return
                newest = next(
                    one for one in reversed(self._users) if _namespace(self._users[one]) == richest
                )
                evicted = self._close(richest, newest)
                self._waiting.setdefault(richest, {})[newest] = evicted
                self._moved |= evicted
            first = next(iter(self._waiting[poorest]))
            self._users[first] = self._no_longer_waiting(poorest, first)
            self._opened[poorest] += 1
            self._moved |= self._users[first]
            if self.hub is not None:
                self.hub.watch(first)

    def _no_longer_waiting(self, namespace: str, watched: WatchTarget) -> set[Key]:
        users = self._waiting[namespace].pop(watched)
        if not self._waiting[namespace]:
            del self._waiting[namespace]
        return users

    def _close(self, namespace: str, watched: WatchTarget) -> set[Key]:
        self._opened[namespace] -= 1
        if not self._opened[namespace]:
            del self._opened[namespace]
        self._blind.pop(watched, None)
        self._listed.discard(watched)
        if self.hub is not None:
            self.hub.end(watched)
        return self._users.pop(watched)

    def unwatched(self, key: Key) -> str | None:
        """Return why not all objects of a Bundle are watched, or "" if they are.

        None means that nobody knows yet.
        """
        with self._lock:
            # Without a selector, it is about a source.
            objects = [one for one in self._wanted.get(key, ()) if one.selector]
            if any(one not in self._users for one in objects):
                return Unwatched.NONE_FREE
            if any(self._blind.get(one) in _REFUSED for one in objects):
                return Unwatched.REFUSED
            return "" if objects and self._listed.issuperset(objects) else None

    def recent(self, user: str, ref: Ref) -> str | None:
        """Return the resourceVersion at which a user has seen an object lately, "" if it was gone.

        None means that it was not seen. A Bundle that joins a watch asks for what came before.
        """
        with self._lock:
            return self._recent.get((user, ref))

    def on_report(self, news: WatchReport) -> None:
        """Pass on what a watch has seen."""
        with self._lock:
            users = [*self._users.get(news.watched, ())]
            if users and not isinstance(news, FailureReport):
                self._blind.pop(news.watched, None)
            if users and isinstance(news, ListReport):
                self._listed.add(news.watched)
            if isinstance(news, ObjectReport) and not news.watched.selector:
                self._note(news)
        if isinstance(news, FailureReport):
            self._on_blind(news)
        elif isinstance(news, ListReport):
            self.listed(users, news)
            self.moved(users)
        elif users:
            self.seen(users, news.live, news.gone)

    def _note(self, news: ObjectReport) -> None:
        place = (news.watched.user, news.live.ref)
        self._recent[place] = "" if news.gone else news.live.resource_version
        self._recent.move_to_end(place)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)

    def _on_blind(self, news: FailureReport) -> None:
        """Say it once for each reason: a server that is away fails all watches at a time."""
        watched = news.watched
        with self._lock:
            users = [*self._users.get(watched, ())]
            known = self._blind.get(watched)
            if users:
                self._blind[watched] = news.code
                if news.code in _REFUSED:
                    self._listed.discard(watched)
        if known == news.code or not users:
            return
        is_refused = news.code in _REFUSED
        LOG.log(
            logging.WARNING if is_refused else logging.DEBUG,
            "watch failed",
            extra=fields(
                resource=watched.resource.full_plural,
                namespace=watched.namespace,
                name=watched.name,
                user=watched.user,
                error=news.reason,
            ),
        )
        if is_refused:
            self.lost(users, watched)
            self.moved(users)


def _namespace(users: Iterable[Key]) -> str:
    """Return the one namespace of the Bundles that share a watch."""
    return next(iter(users))[0]

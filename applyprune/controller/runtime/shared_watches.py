"""Share watches between Bundles: one for each identity, kind and scope, up to a limit."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from applyprune.cluster.many_watches import AllSeen, Blind, News, Seen, Watched
from applyprune.controller.constants import Key
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.cluster.many_watches import ManyWatches
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject

MOST_WATCHES = 500
"""How many watches a replica keeps open; beyond that, only the interval triggers."""
MOST_OF_A_NAMESPACE = 100
"""How many of them the Bundles of one namespace may open, so that no tenant has all."""
_REFUSED = frozenset({401, 403, 404, 405})
_MOST_RECENT = 4096

_Place: TypeAlias = "tuple[str, Ref]"
"""A user, and an object that it has seen."""


@dataclass(slots=True)
class SharedWatches:
    """Watches, each for the Bundles that want it; thread-safe.

    ``seen`` is called with the Bundles that want a watch, an object that it has seen, and whether
    that object is gone. ``lost`` is called with the Bundles of a watch that is refused, and
    ``listed`` with those of a watch that has shown all objects that exist.
    """

    seen: Callable[[Container[Key], LiveObject, bool], None]
    lost: Callable[[Iterable[Key], Watched], None]
    listed: Callable[[Iterable[Key], AllSeen], None]
    hub: ManyWatches | None = None
    most: int = MOST_WATCHES
    most_of_a_namespace: int = MOST_OF_A_NAMESPACE
    _wanted: dict[Key, frozenset[Watched]] = field(default_factory=dict)
    _users: dict[Watched, set[Key]] = field(default_factory=dict)
    _openers: dict[Watched, str] = field(default_factory=dict)
    _opened: Counter[str] = field(default_factory=Counter)
    _blind: dict[Watched, int] = field(default_factory=dict)
    _recent: OrderedDict[_Place, str] = field(default_factory=OrderedDict)
    _full: set[str] = field(default_factory=set)
    """The namespaces for which it was said that they have no more watches."""
    _lock: Lock = field(default_factory=Lock)

    @property
    def count(self) -> int:
        """Return how many watches are open."""
        return len(self._users)

    def want(self, key: Key, wanted: Iterable[Watched]) -> bool:
        """Watch this for a Bundle from now on, and nothing else.

        Return whether it has joined a watch that was open: what that has seen is not seen again.
        """
        with self._lock:
            new, old = frozenset(wanted), self._wanted.get(key, frozenset())
            if new == old:
                return False
            for one in old - new:
                self._leave(key, one)
            joins = any(one in self._users for one in new - old)
            kept = frozenset(one for one in new if one in old or self._join(key, one))
            if kept:
                self._wanted[key] = kept
            else:
                self._wanted.pop(key, None)
            first = len(kept) < len(new) and key[0] not in self._full
            if first:
                self._full.add(key[0])
        if first:
            limits = fields(
                namespace=key[0], limit=self.most, of_namespace=self.most_of_a_namespace
            )
            LOG.warning("too many watches", extra=limits)
        return joins

    def recent(self, user: str, ref: Ref) -> str | None:
        """Return the resourceVersion at which a user has seen an object lately, "" if it was gone.

        None means that it was not seen. A Bundle that joins a watch asks for what came before.
        """
        with self._lock:
            return self._recent.get((user, ref))

    def on_news(self, news: News) -> None:
        """Pass on what a watch has seen."""
        with self._lock:
            users = [*self._users.get(news.watched, ())]
            if isinstance(news, Seen):
                self._blind.pop(news.watched, None)
                if not news.watched.selector:
                    self._note(news)
        if isinstance(news, Blind):
            self._on_blind(news)
        elif isinstance(news, AllSeen):
            self.listed(users, news)
        elif users:
            self.seen(users, news.live, news.gone)

    def _note(self, news: Seen) -> None:
        place = (news.watched.user, news.live.ref)
        self._recent[place] = "" if news.gone else news.live.resource_version
        self._recent.move_to_end(place)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)

    def _on_blind(self, news: Blind) -> None:
        """Say it once for each reason: a server that is away fails all watches at a time."""
        watched = news.watched
        with self._lock:
            users = [*self._users.get(watched, ())]
            known = self._blind.get(watched)
            if users:
                self._blind[watched] = news.code
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

    def _join(self, key: Key, watched: Watched) -> bool:
        if watched not in self._users:
            opened = self._opened[key[0]]
            # guard: watches-of-a-namespace
            if len(self._users) >= self.most or opened >= self.most_of_a_namespace:
                return False
            self._openers[watched] = key[0]
            self._opened[key[0]] += 1
            if self.hub is not None:
                self.hub.watch(watched)
        self._users.setdefault(watched, set()).add(key)
        return True

    def _leave(self, key: Key, watched: Watched) -> None:
        users = self._users.get(watched)
        if users is None:
            return
        users.discard(key)
        if users:
            return
        del self._users[watched]
        opener = self._openers.pop(watched)
        self._opened[opener] -= 1
        if not self._opened[opener]:
            del self._opened[opener]
        self._full.discard(opener)
        self._blind.pop(watched, None)
        if self.hub is not None:
            self.hub.end(watched)

"""What several runs of one command read together: their inventories, then the objects of each kind.

Sets of the same folder mostly have objects of the same kinds. So one request lists the objects of
all of them. Each run gets its part once: whatever it reads again, it reads itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from applyprune.clock import CLOCK, Clock
from applyprune.errors import AccessError
from applyprune.model.live import CONFIG_MAPS
from applyprune.planning.applyset import PART_OF, SET_ID

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject, Resource
    from applyprune.planning.applyset import ApplySetIdentity

MOST = 32
"""How many sets share what they read: many proxies refuse a request line of 8 KiB."""
_LASTS = 5.0
"""Seconds after which a run reads all by itself."""


class Lister(Protocol):
    """What the reads are sent with."""

    def list_among(
        self, resource: Resource, key: str, values: Collection[str], *, full: bool = False
    ) -> Sequence[LiveObject]:
        """Return all objects of a resource whose label has one of some values."""


class SharedReads:
    """The reads of a few runs that begin at about the same time; thread-safe."""

    def __init__(
        self, client: Lister, sets: Sequence[ApplySetIdentity], clock: Clock = CLOCK
    ) -> None:
        """Take the sets; nothing is read yet."""
        self._client = client
        self._sets = {one.id: one for one in sets[:MOST]}
        self._clock = clock
        self._asked: float | None = None
        self._lock = Lock()
        self._locks: dict[tuple[Resource, bool], Lock] = {}
        self._alone: set[str] = set()
        self._roots: dict[Ref, LiveObject] | None = None
        self._parts: dict[tuple[Resource, bool], dict[str, list[LiveObject]]] = {}

    def inventory(self, ref: Ref) -> LiveObject | None:
        """Return the ConfigMap of an inventory; None if it must be read on its own.

        The inventories are read before any object: these may show a run that they do not. So who
        reads the inventory alone reads the objects alone.
        """
        with self._lock:
            if self._roots is None:
                self._asked = self._clock.now()
                lives = self._listed(CONFIG_MAPS, SET_ID, full=True)
                self._roots = {live.ref: live for live in lives or ()}
            found = self._roots.pop(ref, None) if self.is_fresh else None
            if found is None:  # guard: inventory-first never
                self._alone |= {one.id for one in self._sets.values() if one.inventory == ref}
            return found

    def objects(
        self, resource: Resource, selector: str, *, full: bool
    ) -> Sequence[LiveObject] | None:
        """Return the objects of a kind that a label selects; None if this run must read them."""
        key, _, label = selector.partition("=")
        with self._lock:
            is_alone = key != PART_OF or label not in self._sets or label in self._alone
            if is_alone or not self.is_fresh:  # guard: fresh-shares -> is_alone
                return None
            lock = self._locks.setdefault((resource, full), Lock())
        with lock:
            if (resource, full) not in self._parts:
                self._parts[resource, full] = self._parts_of(resource, full=full)
            return self._parts[resource, full].pop(label, None)

    def has(self, resource: Resource, selector: str, *, full: bool) -> bool:
        """Return whether ``objects`` would send no request."""
        label = selector.partition("=")[2]
        return label in self._parts.get((resource, full), ()) and label not in self._alone

    @property
    def is_fresh(self) -> bool:
        """Return whether what was read still counts; true before the first read."""
        return self._asked is None or self._clock.now() - self._asked < _LASTS

    def _parts_of(self, resource: Resource, *, full: bool) -> dict[str, list[LiveObject]]:
        lives = self._listed(resource, PART_OF, full=full)
        if lives is None:
            return {}
        parts: dict[str, list[LiveObject]] = {label: [] for label in self._sets}
        for live in lives:
            parts[live.labels[PART_OF]].append(live)
        return parts

    def _listed(self, resource: Resource, key: str, *, full: bool) -> Sequence[LiveObject] | None:
        try:
            return self._client.list_among(resource, key, self._sets, full=full)
        except AccessError:
            return None  # each run reads on its own, and says what is wrong

"""Turn what is seen of applied objects into hints: this object may have drifted, or be ready now.

Each object has its own patience: the more often it was looked at in a row, the later its next hint
is acted on, so a fight with another writer does not become a storm. Only objects that a reconcile
has named count, so whatever else has the label of a set costs no reconcile and little memory.
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.clock import CLOCK, Clock
from applyprune.controller.reasons import Key
from applyprune.controller.task import ABSENT, AppliedObjects, SeenState, shows_change
from applyprune.model.identity import Ref
from applyprune.planning.applyset import PART_OF
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.cluster.many_watches import ListReport, WatchTarget
    from applyprune.model.live import LiveObject

_EARLY = 10.0
"""Seconds for which what was seen of an unnamed object is kept, if there are many."""
_MOST_EARLY = 1000
READY_DELAY = 0.3
"""Seconds to wait for more changes of what is becoming ready."""
READY_GAP = 2.0
"""Seconds between two looks at what changes all the time while it becomes ready."""
GATHER = 0.2
"""Seconds to wait for hints about other objects, so that one reconcile is about all of them."""
_AT_ONCE = 5
"""How many times in a row an object is looked at at once."""
_QUIET = 60.0
"""Seconds without a look after which an object is looked at at once again."""
_LONGEST = 30.0
_MOST_DOUBLINGS = 10


class ObjectHints(Struct):
    """What is known of the objects of Bundles; not thread-safe."""

    clock: Clock = CLOCK
    _bundles: dict[Key, _Bundle] = field(default_factory=dict)
    _keys: dict[str, Key] = field(default_factory=dict)
    _listing: dict[Ref, frozenset[Key]] = field(default_factory=dict)
    """Of each object, the Bundles that list it; more than one, if another has taken it."""
    _early: dict[Ref, tuple[float, LiveObject, bool]] = field(default_factory=dict)
    """What was seen of objects that no reconcile has named yet; it may be about to."""

    def follow(self, key: Key, objects: AppliedObjects) -> None:
        """Know from now on where the objects of a Bundle are, and how it has left them."""
        self._follow(key, objects)
        for ref in objects.marks.keys() & self._early.keys():
            _, live, gone = self._early.pop(ref)
            self.observe(live, gone=gone, users=(key,))

    def _follow(self, key: Key, objects: AppliedObjects) -> None:
        if objects.kinds:
            # A Bundle with its objects in another cluster may have a set of the same name.
            self._keys[objects.applyset] = key
        old = self._bundles.get(key)
        if old is None or old.objects.applyset != objects.applyset:
            self.forget(key)
            self._bundles[key] = _Bundle(replace(objects, marks={}), dict(objects.marks))
            self._list(key, frozenset(), objects.marks.keys())
            return
        if objects.is_part:
            self._list(key, old.known.keys(), old.known.keys() | objects.marks.keys())
            old.known.update(objects.marks)
        else:
            self._list(key, old.known.keys(), objects.marks.keys())
            old.objects, old.known = replace(objects, marks={}), dict(objects.marks)
            old.hints = {ref: hint for ref, hint in old.hints.items() if ref in old.known}
        old.seen = {
            ref: mark
            for ref, mark in old.seen.items()
            if ref in old.known
            and shows_change(old.known[ref], mark)
            # The reconcile has found what a watch does not show.
            and (mark.version or ref not in objects.marks)
        }

    def forget(self, key: Key) -> None:
        old = self._bundles.pop(key, None)
        if old is None:
            return
        self._list(key, old.known.keys(), frozenset())
        if self._keys.get(old.objects.applyset) == key:
            del self._keys[old.objects.applyset]

    def _list(self, key: Key, before: AbstractSet[Ref], after: AbstractSet[Ref]) -> None:
        """Keep which objects a Bundle lists; Bundles with the same ones share a value."""
        alone = frozenset({key})
        for ref in before - after:
            if others := self._listing[ref] - alone:
                self._listing[ref] = others
            else:
                del self._listing[ref]
        for ref in after - before:
            known = self._listing.get(ref)
            self._listing[ref] = alone if known is None else known | alone

    def objects_of(self, key: Key) -> AppliedObjects | None:
        found = self._bundles.get(key)
        return found.objects if found is not None else None

    def observe(self, live: LiveObject, *, gone: bool, users: Container[Key]) -> list[Requeue]:
        """Take note of an object as a watch shows it; return what to do about it.

        ``users`` are the Bundles whose account has seen it: a label proves nothing.
        """
        owner = self._keys.get(live.labels.get(PART_OF, ""))
        own = self._owners(owner, live, gone=gone, users=users)
        # guard: taken-objects -> [*own]
        return [*own, *self._losers(owner, live, gone=gone, users=users)]

    def _owners(
        self, owner: Key | None, live: LiveObject, *, gone: bool, users: Container[Key]
    ) -> list[Requeue]:
        """Return what to do for the Bundle whose label an object has, if that lists it."""
        if owner is None or live.ref not in self._bundles[owner].known:
            self._remember(live, gone=gone)
            return []
        if owner not in users:  # guard: seen-by-its-account never
            return []
        bundle = self._bundles[owner]
        seconds = self._until_drift_check(bundle, live, gone=gone)
        if seconds is not None:
            return [Requeue(owner, seconds)]
        if bundle.objects.waits:
            return [Requeue(owner, self._until_ready_check(bundle), is_whole=True)]
        return []

    def _losers(
        self, owner: Key | None, live: LiveObject, *, gone: bool, users: Container[Key]
    ) -> list[Requeue]:
        """Return what to do for the other Bundles that list an object: its owner has taken it."""
        losers = [key for key in self._listing.get(live.ref, ()) if key != owner and key in users]
        found = [
            (key, self._until_drift_check(self._bundles[key], live, gone=gone)) for key in losers
        ]
        return [Requeue(key, seconds) for key, seconds in found if seconds is not None]

    def _until_drift_check(self, bundle: _Bundle, live: LiveObject, *, gone: bool) -> float | None:
        """Return the seconds until a look at what may have drifted; None if it has not."""
        mark = SeenState.of(live, bundle.objects.manager)
        if gone:
            mark = SeenState(live.resource_version, exists=False)
        if not shows_change(bundle.known[live.ref], mark):
            bundle.seen.pop(live.ref, None)
            return None
        bundle.seen[live.ref] = mark
        return _delay(bundle.hints.setdefault(live.ref, _Hint()), self.clock.now())

    def _until_ready_check(self, bundle: _Bundle) -> float:
        """Return the seconds until the next look at what is becoming ready."""
        now = self.clock.now()
        if bundle.next_check <= now:
            bundle.next_check = max(now + READY_DELAY, bundle.next_check + READY_GAP)
        return bundle.next_check - now

    @property
    def remembered(self) -> int:
        """Return of how many unnamed objects anything is kept."""
        return len(self._early)

    def _remember(self, live: LiveObject, *, gone: bool) -> None:
        """Keep what was seen of an object for a moment: its reconcile may not have ended yet."""
        now = self.clock.now()
        if len(self._early) >= _MOST_EARLY:  # guard: strangers-are-bounded never
            self._early = {ref: one for ref, one in self._early.items() if now - one[0] < _EARLY}
            if len(self._early) >= _MOST_EARLY:
                self._early.clear()
        self._early[live.ref] = (now, live, gone)

    def observe_absence(self, key: Key, listed: ListReport) -> float | None:
        """Take note of what a watch begins without; return the seconds until a look at it.

        None if nothing of the Bundle is missing.
        """
        bundle = self._bundles.get(key)
        if bundle is None or not listed.watched.selector:
            return None
        missing = [
            ref
            for ref, mark in bundle.known.items()
            if mark.exists and ref not in listed.refs and is_in(ref, listed.watched)
        ]
        for ref in missing:
            bundle.seen[ref] = ABSENT
            _delay(bundle.hints.setdefault(ref, _Hint()), self.clock.now())
        return self.next_due(key) if missing else None

    def drifted(self, key: Key) -> frozenset[Ref]:
        """Return the objects of a Bundle that are due to be looked at now."""
        bundle, now = self._bundles.get(key), self.clock.now()
        if bundle is None:
            return frozenset()
        due = [ref for ref in bundle.seen if bundle.hints[ref].due <= now]
        for ref in due:
            hint = bundle.hints[ref]
            hint.checks = 1 if now - hint.checked > _QUIET else hint.checks + 1
            hint.checked = now
        return frozenset(due)

    def next_due(self, key: Key) -> float | None:
        """Return in how many seconds to look at the next object; None if none may have drifted."""
        bundle = self._bundles.get(key)
        if bundle is None or not bundle.seen:
            return None
        first = min(bundle.hints[ref].due for ref in bundle.seen)
        return max(0.0, first - self.clock.now())


class Requeue(Struct, frozen=True):
    """A reconcile of a Bundle, for which an object is the reason."""

    key: Key
    seconds: float
    """In how many seconds."""
    is_whole: bool = False
    """Whether it is about the whole set, which may be ready now."""


class _Bundle(Struct):
    objects: AppliedObjects
    known: dict[Ref, SeenState]
    """How the last reconcile has left each object."""
    seen: dict[Ref, SeenState] = field(default_factory=dict)
    """What a watch has shown of each object that is not as it was left."""
    hints: dict[Ref, _Hint] = field(default_factory=dict)
    """The hints of the objects that have given any lately."""
    next_check: float = 0.0
    """When the last look at what becomes ready is due, or was."""


class _Hint(Struct):
    """An object that may have drifted."""

    due: float = 0.0
    """When to look at it, by the clock."""
    checks: int = 0
    """How often in a row it was looked at."""
    checked: float = 0.0
    """When it was looked at last."""


def _delay(hint: _Hint, now: float) -> float:
    """Return the seconds after which to look at an object that has given a hint now."""
    if hint.due <= now:
        again = 0 if now - hint.checked > _QUIET else hint.checks - _AT_ONCE + 1
        pause = min(2.0 ** min(again - 1, _MOST_DOUBLINGS), _LONGEST) if again > 0 else 0.0
        hint.due = max(now + GATHER, hint.checked + pause)
    return hint.due - now


def is_in(ref: Ref, watched: WatchTarget) -> bool:
    in_place = ref.namespace == watched.namespace or not watched.namespace
    is_named = not watched.name or ref.name == watched.name
    return ref.group_kind == watched.resource.group_kind and in_place and is_named

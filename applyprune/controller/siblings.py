"""Which Bundles may still take from one another: those of one source, account and namespace.

An object may move from one to another with a commit. What leaves a Bundle is offered as long as a
sibling is undecided: as long as that one has not planned what it has got with the same commit or
later, or would take it and could not. A sibling only ends an offer; the giver's own plan decides
what is pruned then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from threading import RLock

from msgspec import Struct, field

from applyprune.controller.followed_sources import FoundAt
from applyprune.controller.reasons import Key
from applyprune.controller.task import SiblingFacts


class _Reconciled(Struct, frozen=True):
    """The last reconcile of a Bundle that has planned its whole set."""

    began: float
    facts: SiblingFacts


class SiblingBundles(Struct):
    """What is known of the Bundles since this replica leads; thread-safe."""

    found: Callable[[Key], FoundAt]
    """Returns what a Bundle's source has now."""
    in_namespace: Callable[[str], Iterable[Key]]
    """Returns the Bundles of a namespace."""
    _facts: dict[Key, SiblingFacts] = field(default_factory=dict)
    _planned: dict[Key, _Reconciled] = field(default_factory=dict)
    _families: dict[tuple[str, str], set[Key]] = field(default_factory=dict)
    """The Bundles by their namespace and what siblings have in common."""
    _offers: dict[Key, float] = field(default_factory=dict)
    """When the last reconcile has ended of each Bundle that offers something."""
    _lock: RLock = field(default_factory=RLock)

    def undecided(self, key: Key) -> tuple[str, ...] | None:
        """Return the names of those that may still take what leaves a Bundle.

        None means that this Bundle itself is not known yet.
        """
        with self._lock:
            facts = self._facts.get(key)
            if facts is None:
                return None
            return tuple(sorted(other[1] for other in self._undecided(key, facts)))

    def ended(self, key: Key, began: float, now: float, facts: SiblingFacts) -> set[Key]:
        """Keep what a reconcile has told; return the Bundles that may go on, or must look again."""
        with self._lock:
            self._enter(key, facts)
            before = self._planned.get(key)
            if facts.has_planned:
                self._planned[key] = _Reconciled(began, facts)
            woken = set()
            if facts.gives:
                self._offers[key] = now
                woken |= {one for one in self._siblings(key) if self._wants(one, facts.applyset)}
            elif facts.has_planned:
                self._offers.pop(key, None)
            wanted = before.facts.wanted if before is not None else frozenset()
            for giver in self._offers.keys() & {key, *self._siblings(key)}:
                offer = self._facts[giver]
                has_taken = offer.applyset in wanted - facts.wanted
                if has_taken or not any(self._undecided(giver, offer)):
                    woken.add(giver)
                elif offer.applyset in facts.refused and began <= self._offers[giver]:
                    woken.add(key)  # it was offered after this plan was made
            return woken

    def forget(self, key: Key) -> set[Key]:
        """Forget a Bundle; return those that have waited for it."""
        with self._lock:
            siblings = set(self._siblings(key))
            facts = self._facts.pop(key, None)
            if facts is not None:
                self._families[key[0], facts.key].discard(key)
            for known in (self._planned, self._offers):
                known.pop(key, None)
            return self._offers.keys() & siblings

    def _enter(self, key: Key, facts: SiblingFacts) -> None:
        before = self._facts.get(key)
        if before is not None and before.key != facts.key:
            self._families[key[0], before.key].discard(key)
            self._planned.pop(key, None)
        self._facts[key] = facts
        self._families.setdefault((key[0], facts.key), set()).add(key)

    def _siblings(self, key: Key) -> Iterator[Key]:
        facts = self._facts.get(key)
        if facts is not None and facts.key:
            yield from self._families[key[0], facts.key] - {key}

    def _undecided(self, key: Key, facts: SiblingFacts) -> Iterator[Key]:
        if not facts.key:
            return
        yield from (one for one in self._siblings(key) if self._may_take(one, key, facts))
        # Nobody knows yet what these are: they are new, or this replica has just begun to lead.
        yield from (one for one in self.in_namespace(key[0]) if one not in self._facts)

    def _may_take(self, key: Key, giver: Key, offer: SiblingFacts) -> bool:
        if not self._facts[key].takes:  # guard: sibling-that-takes-nothing never
            return False
        last, has = self._planned.get(key), self.found(key)
        has_planned = last is not None and bool(has.content) and last.facts.content == has.content
        # What has not changed with the giver or after it got nothing from there.
        is_old = has.fetch is not None and has.fetch < (self.found(giver).fetch or 0)
        # guard: sibling-without-plan never
        if not (has_planned or is_old):
            return True
        if last is None:
            return False
        if offer.applyset in last.facts.prevented:  # guard: sibling-with-faults never
            return True
        offered = self._offers.get(giver, math.inf)
        # guard: plan-before-offer -> False
        return offer.applyset in last.facts.refused and last.began <= offered

    def _wants(self, key: Key, applyset: str) -> bool:
        last = self._planned.get(key)
        return last is not None and applyset in last.facts.wanted

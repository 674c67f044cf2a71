"""What one replica has seen of the Leases of the others, by its own clock only.

A Lease that has not changed between two looks, this replica's lease duration apart, belongs to a
replica that has ended. What the Lease says about times and durations is not read: clocks of two
machines are never compared, and a Lease from the future, or with an absurd duration, is one that
changes or does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from applyprune.controller.replicas.rendezvous import Replica
from applyprune.model.live import LiveObject
from applyprune.values import dataclass

WATCHES_NAMESPACES = "applyprune.dev/watch-namespaces"
"""On a Lease of a replica: the namespaces whose Bundles it handles; without it, all."""
MOST_REPLICAS = 64
"""With this many others, a replica believes none of them, and serves all Bundles."""
_TERMINATES = "deletionTimestamp"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One state of a Lease, and since when it is the same."""

    replica: Replica
    live: LiveObject
    """The Lease; of its metadata, only whether it is being deleted."""
    since: float
    """When the first reply that shows this state had arrived, in boot time."""


Sightings: TypeAlias = Mapping[str, Sighting]
"""By the name of the Lease."""


def seen(earlier: Sightings, leases: Iterable[LiveObject], answered: float) -> Sightings:
    """Return what is known after a look at all Leases, whose reply came at ``answered``."""
    found = {}
    for live in leases:
        name, known = live.ref.name, earlier.get(live.ref.name)
        same = known is not None and _state(known.live) == _state(live)
        replica = Replica(name, _namespaces(live))
        since = known.since if known is not None and same else answered
        kept = {key: value for key, value in live.metadata.items() if key == _TERMINATES}
        slim = LiveObject.of(live.ref, live.uid, live.resource_version, kept)
        found[name] = Sighting(replica, slim, since)
    return found


def alive(sightings: Sightings, asked: float, duration: float) -> frozenset[Replica]:
    """Return the replicas that live by a look that was asked for at ``asked``."""
    return frozenset(one.replica for one in sightings.values() if asked - one.since < duration)


def believed(others: frozenset[Replica]) -> frozenset[Replica]:
    """Return with whom to share the Bundles: with nobody if somebody forges Leases."""
    return others if len(others) < MOST_REPLICAS else frozenset()  # guard: too-many-replicas


def silent(sightings: Sightings, asked: float, seconds: float) -> list[LiveObject]:
    """Return the Leases to delete: they have not changed for so long; the longest silence first."""
    found = [one for one in sightings.values() if asked - one.since >= seconds]
    ordered = sorted(found, key=lambda one: (one.since, one.live.ref.name))
    return [one.live for one in ordered if not one.live.terminating]


def next_end(sightings: Sightings, asked: float, duration: float) -> float | None:
    """Return when the next live replica will have ended, if its Lease stays the same."""
    ends = (one.since + duration for one in sightings.values() if asked - one.since < duration)
    return min(ends, default=None)


def _state(live: LiveObject) -> tuple[str, str]:
    return live.uid, live.resource_version


def _namespaces(live: LiveObject) -> tuple[str, ...]:
    text = live.annotations.get(WATCHES_NAMESPACES)
    return tuple(sorted(text.split(","))) if isinstance(text, str) and text else ()

"""The replicas of a controller: who lives, and which Bundles are whose.

A replica says that it lives only after it has seen who else does. It stops to serve when it could
not do that for two thirds of the lease duration: that is before the others take its Bundles over.
It goes on when it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeAlias

from applyprune.clock import BOOT_CLOCK, CLOCK, Clock
from applyprune.cluster.client import KubernetesClient
from applyprune.controller.reasons import LOG, Key, fields
from applyprune.engine.ports import Cancellation
from applyprune.errors import AlreadyExists, ApplypruneError, Conflict, NotFound, RunFailed
from applyprune.model.identity import Ref
from applyprune.model.live import LEASES, LiveObject, is_after
from applyprune.planning.requests import delete_request
from applyprune.values import dataclass, field

_LOOKS_PER_LEASE = 6
_LONGEST_PAUSE = 2.5
"""Seconds: replicas with another lease duration must see the Lease change in time."""
_SHORTEST_PAUSE = 0.05
_UNTIL_READY = 0.1
_OF_LEASE = 2 / 3
_KEPT = 4.0
"""Lease durations after which the Lease of a replica that has ended is deleted."""
_DELETED_PER_LOOK = 20
_LONGEST_CLEANING = 1.0
"""Seconds: the next renewal must not be late."""
_SHORTEST_TIMEOUT = 0.5


@dataclass(slots=True)
class Membership:
    """This replica among the others; ``divided`` is called when its share may have changed."""

    own: OwnLease
    share: Share
    divided: Callable[[], None]
    is_ready: Callable[[], bool]
    """Whether it can serve Bundles; if it cannot, it is as good as dead to the others."""
    clock: Clock = CLOCK
    """For how long it has been idle; the Leases have the clock of the share."""
    _sightings: Sightings = field(default_factory=dict)
    _renewals: int = 0
    """How often it has renewed its Lease since it last could not."""
    _error: str = ""
    _idle_since: float = 0.0
    _is_crowded: bool = False
    """Whether there are so many Leases that none of them is believed."""

    def __post_init__(self) -> None:
        self._idle_since = self.clock.now()

    def keep(self, stop: Cancellation) -> None:
        """Look and renew again and again, until ``stop`` is requested."""
        while not stop.requested:
            if self.is_ready():
                self.sync()
                stop.wait(self._pause)
            else:
                self._stop_if_over()
                stop.wait(_UNTIL_READY)

    def sync(self) -> None:
        """See who lives, renew the Lease, and divide the Bundles."""
        self._stop_if_over()
        asked = self.share.clock.now()
        try:
            leases = list_leases(self.own.client, self.own.namespace, self._timeout)
            answered = self.share.clock.now()
            self.own.renew(self._timeout)
        except ApplypruneError as error:
            self._failed(error)
            self._stop_if_over()
            return
        self._error = ""
        self._renewals += 1
        # The renewal was sent after the answer, so the others see it as younger than that.
        self.share.ends = answered + self.own.duration * _OF_LEASE
        others = [one for one in leases if one.ref.name != self.own.replica.name]
        self._sightings = updated_sightings(self._sightings, others, answered)
        self._divide(alive(self._sightings, asked, self.own.duration))
        self._clean(asked)

    def _divide(self, others: frozenset[Replica]) -> None:
        if others and not self.share.replicas and self._renewals == 1:
            return  # by the next look, the others have seen this one, and have stopped
        was_crowded, self._is_crowded = self._is_crowded, len(others) >= MOST_REPLICAS
        if self._is_crowded and not was_crowded:
            LOG.warning("too many Leases of replicas", extra=fields(limit=MOST_REPLICAS))
        if self.share.divide({self.own.replica, *believed(others)}):
            self.divided()

    def _stop_if_over(self) -> None:
        """Serve nothing from now on if the Lease was not renewed in time."""
        if not self._renewals or self.share.is_current:
            return
        self._renewals, self._idle_since = 0, self.clock.now()
        LOG.error("the Lease was not renewed in time", extra=fields(error=self._error))
        if self.share.divide(()):  # guard: lost-lease never
            self.divided()

    def _failed(self, error: ApplypruneError) -> None:
        if error.message != self._error:
            LOG.warning("the Leases cannot be reached", extra=fields(error=error.message))
        self._error = error.message

    def _clean(self, asked: float) -> None:
        """Delete Leases of replicas that ended long ago, exactly as they were seen."""
        for live in expired_leases(self._sightings, asked, self.own.duration * _KEPT)[
            :_DELETED_PER_LOOK
        ]:
            if self.share.clock.now() - asked > _LONGEST_CLEANING:
                return
            try:
                self.own.client.delete(delete_request(LEASES, live), timeout=self._timeout)
            except (Conflict, NotFound):
                continue  # it lives again, or another replica was faster
            except ApplypruneError as error:
                LOG.warning(
                    "a Lease cannot be deleted",
                    extra=fields(name=live.ref.name, error=error.message),
                )
                return
            LOG.info("Lease of an ended replica deleted", extra=fields(name=live.ref.name))

    def leave(self) -> None:
        """Delete the Lease, so that the others take over at once."""
        self.own.release(self._timeout)

    def idle(self, patience: float = 0.0) -> str:
        """Return why it has served no Bundle for so many seconds; empty if that is not so."""
        seconds = self.clock.now() - self._idle_since
        if self.share.replicas or seconds < patience:
            return ""
        if not self._error:
            return "it has not yet divided the Bundles with the other replicas"
        return f"its Lease could not be renewed for {seconds:.0f} s: {self._error}"

    @property
    def _timeout(self) -> float:
        """Return how many seconds a request may take: a late renewal is worth nothing."""
        longest = self.own.duration / 3
        left = self.share.ends - self.share.clock.now() if self.share.replicas else longest
        return max(_SHORTEST_TIMEOUT, min(longest, left))

    @property
    def _pause(self) -> float:
        """Return the seconds until the next look: earlier if another replica may have ended."""
        now, duration = self.share.clock.now(), self.own.duration
        pause = min(duration / _LOOKS_PER_LEASE, _LONGEST_PAUSE)
        ends = next_end(self._sightings, now, duration)
        return max(_SHORTEST_PAUSE, pause if ends is None else min(pause, ends - now))


# The share of this replica: the Bundles that it serves.
#
# By rendezvous hashing, each replica gets a weight for each Bundle, and the highest weight wins. So
# a replica that comes takes only what it wins, and what a replica that goes has served is spread
# over all others. Replicas that see the same others decide the same, without a word between them.


@dataclass(slots=True)
class Share:
    """Which Bundles this replica serves; thread-safe, because one thread replaces whole values.

    That two replicas serve one Bundle is a waste, and not a danger: the lock on its inventory lets
    one of them write.
    """

    replica: Replica
    replicas: tuple[Replica, ...] = ()
    """The live replicas, with this one; empty while it serves nothing."""
    ends: float = math.inf
    """When it must have renewed its Lease to go on, by the clock."""
    clock: Clock = BOOT_CLOCK

    def serves(self, key: Key) -> bool:
        return server_of(key, self.replicas) == self.replica.name

    @property
    def is_current(self) -> bool:
        """Return whether it may begin to work: another one may have taken over since."""
        return self.clock.now() < self.ends

    def divide(self, replicas: Collection[Replica]) -> bool:
        """Divide the Bundles between these replicas; return whether that is a change."""
        ordered = tuple(sorted(replicas))
        changed, self.replicas = ordered != self.replicas, ordered
        return changed


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    name: str
    """Its name, which is the name of its Lease."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose Bundles it handles; empty for all namespaces."""

    def handles(self, namespace: str) -> bool:
        return not self.namespaces or namespace in self.namespaces


def server_of(key: Key, replicas: Iterable[Replica]) -> str:
    """Return the name of the replica that serves a Bundle; empty if none of them may."""
    able = (replica.name for replica in replicas if replica.handles(key[0]))
    return max(able, key=lambda name: (_weight(name, key), name), default="")


def _weight(name: str, key: Key) -> bytes:
    # A change of this moves almost every Bundle. None of these names can contain a slash.
    return blake2b(f"{name}/{key[0]}/{key[1]}".encode("utf-8", "replace"), digest_size=8).digest()


# The Lease of this replica: it says to the others that this one lives.


IDENTITY_LABEL = "applyprune.dev/identity"
"""The label of the Leases of replicas."""
CONTROLLER = "controller"
"""Its value; as kube-apiserver labels the Leases that are the identities of its own replicas."""
WATCHES_NAMESPACES = "applyprune.dev/watch-namespaces"
"""On a Lease of a replica: the namespaces whose Bundles it handles; without it, all."""
_TRIES = 3


@dataclass(slots=True)
class OwnLease:
    """The Lease of one replica; ``duration`` is in seconds."""

    client: KubernetesClient
    replica: Replica
    namespace: str
    duration: float
    _acquired: str = ""
    _stored: LiveObject | None = None

    @property
    def _ref(self) -> Ref:
        return Ref(LEASES.group, LEASES.kind, self.namespace, self.replica.name)

    def renew(self, timeout: float) -> None:
        """Write the Lease as it should be, whatever others have made of it.

        Raises ApplypruneError when it cannot be written within ``timeout`` seconds for each try.
        """
        for _ in range(_TRIES - 1):
            try:
                self._stored = self._write(timeout)
            except (AlreadyExists, Conflict, NotFound):
                self._stored = self._read()
            else:
                return
        self._stored = self._write(timeout)

    def release(self, timeout: float) -> None:
        for _ in range(_TRIES):
            if self._stored is None:
                return
            try:
                self.client.delete(delete_request(LEASES, self._stored), timeout=timeout)
            except Conflict:
                self._stored = self._read()
            except ApplypruneError as error:
                LOG.warning("the Lease cannot be deleted", extra=fields(error=error.message))
                return
            else:
                return

    def _write(self, timeout: float) -> LiveObject:
        stored, version = self._stored, ""
        if stored is None:
            self._acquired = ""
            live = self.client.create(LEASES, self._ref, self._body({}), timeout=timeout)
        else:
            version = stored.resource_version
            was = {"uid": stored.uid, "resourceVersion": version}
            live = self.client.replace(LEASES, self._ref, self._body(was), timeout=timeout)
        if not is_after(live, version):  # guard: lease-is-stored never
            raise RunFailed(f"{self._ref} was not written, though the server answered that it was")
        return live

    def _read(self) -> LiveObject | None:
        """Return the Lease, also without its label; by a list, which is a right that it has."""
        found, _ = self.client.list_at(LEASES, namespace=self.namespace, name=self._ref.name)
        return found[0] if found else None

    def _body(self, was: dict[str, str]) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._acquired = self._acquired or now
        namespaces = ",".join(self.replica.namespaces)
        return {
            "apiVersion": LEASES.gvk.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._ref.name,
                "namespace": self._ref.namespace,
                "labels": {IDENTITY_LABEL: CONTROLLER},
                **({"annotations": {WATCHES_NAMESPACES: namespaces}} if namespaces else {}),
                **was,
            },
            # People read the times; no replica does.
            "spec": {
                "holderIdentity": self.replica.name,
                # The server accepts whole seconds only, and at least one.
                "leaseDurationSeconds": max(1, round(self.duration)),
                "acquireTime": self._acquired,
                "renewTime": now,
            },
        }


def list_leases(client: KubernetesClient, namespace: str, timeout: float) -> Sequence[LiveObject]:
    """Return the Leases of all replicas, of which only the metadata is read."""
    selector = f"{IDENTITY_LABEL}={CONTROLLER}"
    return client.list(LEASES, namespace=namespace, selector=selector, timeout=timeout)


# What one replica has seen of the Leases of the others, by its own clock only.
#
# A Lease that has not changed between two looks, this replica's lease duration apart, belongs to a
# replica that has ended. What the Lease says about times and durations is not read: clocks of two
# machines are never compared, and a Lease from the future, or with an absurd duration, is one that
# changes or does not.


_TERMINATES = "deletionTimestamp"
MOST_REPLICAS = 64
"""With this many others, a replica believes none of them, and serves all Bundles."""


@dataclass(frozen=True, slots=True)
class LeaseSighting:
    """One state of a Lease, and since when it is the same."""

    replica: Replica
    live: LiveObject
    """The Lease; of its metadata, only whether it is being deleted."""
    since: float
    """When the first reply that shows this state had arrived, in boot time."""


Sightings: TypeAlias = Mapping[str, LeaseSighting]
"""By the name of the Lease."""


def updated_sightings(
    earlier: Sightings, leases: Iterable[LiveObject], answered: float
) -> Sightings:
    """Return what is known after a look at all Leases, whose reply came at ``answered``."""
    found = {}
    for live in leases:
        name, known = live.ref.name, earlier.get(live.ref.name)
        same = known is not None and _state(known.live) == _state(live)
        replica = Replica(name, _namespaces(live))
        since = known.since if known is not None and same else answered
        kept = {key: value for key, value in live.metadata.items() if key == _TERMINATES}
        slim = LiveObject.of(live.ref, live.uid, live.resource_version, kept)
        found[name] = LeaseSighting(replica, slim, since)
    return found


def _state(live: LiveObject) -> tuple[str, str]:
    return live.uid, live.resource_version


def _namespaces(live: LiveObject) -> tuple[str, ...]:
    text = live.annotations.get(WATCHES_NAMESPACES)
    return tuple(sorted(text.split(","))) if isinstance(text, str) and text else ()


def alive(sightings: Sightings, asked: float, duration: float) -> frozenset[Replica]:
    """Return the replicas that live by a look that was asked for at ``asked``."""
    return frozenset(one.replica for one in sightings.values() if asked - one.since < duration)


def believed(others: frozenset[Replica]) -> frozenset[Replica]:
    """Return with whom to share the Bundles: with nobody if somebody forges Leases."""
    # guard: too-many-replicas -> others if 1 else frozenset()
    return others if len(others) < MOST_REPLICAS else frozenset()


def expired_leases(sightings: Sightings, asked: float, seconds: float) -> list[LiveObject]:
    """Return the Leases to delete: they have not changed for so long; the longest silence first."""
    found = [one for one in sightings.values() if asked - one.since >= seconds]
    ordered = sorted(found, key=lambda one: (one.since, one.live.ref.name))
    return [one.live for one in ordered if not one.live.terminating]


def next_end(sightings: Sightings, asked: float, duration: float) -> float | None:
    """Return when the next live replica will have ended, if its Lease stays the same."""
    ends = (one.since + duration for one in sightings.values() if asked - one.since < duration)
    return min(ends, default=None)

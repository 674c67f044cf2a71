"""Which replica of the controller leads: the one that holds the Lease. The others stand by.

The leader stops to begin work when it could not renew the Lease for two thirds of the lease
duration: that is before another replica takes it over. It goes on when it holds the Lease again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from applyprune.clock import BOOT_CLOCK, CLOCK, Clock
from applyprune.cluster.client import KubernetesClient
from applyprune.controller.reasons import LOG, fields
from applyprune.engine.ports import Cancellation
from applyprune.errors import AlreadyExists, ApplypruneError, Conflict, NotFound, RunFailed
from applyprune.model.identity import Ref
from applyprune.model.live import LEASES, LiveObject, count, is_after, text

_LOOKS_PER_LEASE = 6
_LONGEST_PAUSE = 2.5
"""Seconds: replicas with another lease duration must see the Lease change in time."""
_SHORTEST_PAUSE = 0.05
_UNTIL_READY = 0.1
_OF_LEASE = 2 / 3
_SHORTEST_TIMEOUT = 0.5
_TRIES = 3
_CHANGED = (AlreadyExists, Conflict, NotFound)
"""What a write is answered if the Lease has changed since it was seen."""
_LONGEST_NAME = 253
"""Characters of a holder in the log: anybody may have written it."""


class Leadership(Struct):
    """Whether this replica serves the Bundles; thread-safe, because one thread replaces values.

    That two replicas serve one Bundle is a waste, and not a danger: the lock on its inventory lets
    one of them write.
    """

    leads: bool = False
    ends: float = math.inf
    """When it must have renewed its Lease to go on, by the clock."""
    clock: Clock = BOOT_CLOCK

    @property
    def is_current(self) -> bool:
        """Return whether it may begin to work: another one may have taken over since."""
        return self.leads and self.clock.now() < self.ends


class Election(Struct):
    """The part of this replica in it; ``changed`` is called when it begins or stops to lead."""

    lease: ControllerLease
    leadership: Leadership
    changed: Callable[[], None]
    is_ready: Callable[[], bool]
    """Whether it can serve Bundles: if it cannot, another replica must."""
    clock: Clock = CLOCK
    """For how long it has not reached the Lease; the Lease itself has that of the leadership."""
    _seen: Sighting | None = None
    _error: str = ""
    """Why it does not reach the Lease."""
    _reached: float = 0.0

    def __post_init__(self) -> None:
        self._reached = self.clock.now()

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
        """Renew the Lease, or take it if it is free."""
        self._stop_if_over()
        try:
            self._renew_or_take()
        except ApplypruneError as error:
            if error.message != self._error:
                LOG.warning("the Lease cannot be reached", extra=fields(error=error.message))
            self._error = error.message
        else:
            self._error, self._reached = "", self.clock.now()
        self._stop_if_over()

    def _renew_or_take(self) -> None:
        for tried in range(_TRIES):
            # The leader knows what it has written.
            looks = tried > 0 or not self.leadership.leads
            if looks and self._is_taken():  # guard: taken-lease never
                self._set_leads(leads=False)  # guard: another-holder
                return
            asked = self.leadership.clock.now()
            try:
                live = self.lease.write(self._seen, self.lease.identity, self._timeout)
            except _CHANGED:
                if tried == _TRIES - 1:
                    raise
                continue
            # For all others it is younger than that.
            self._seen, self.leadership.ends = sighted(None, live, asked), asked + self._lasts
            self._set_leads(leads=True)
            return

    def _is_taken(self) -> bool:
        """Look at the Lease; return whether another replica that may live holds it."""
        before, asked = self._seen, self.leadership.clock.now()
        live = self.lease.read(self._timeout)
        self._seen = seen = sighted(before, live, self.leadership.clock.now())
        if is_free(seen, self.lease.identity, asked, self.lease.duration):
            return False
        if before is None or before.holder != seen.holder:
            LOG.info("another replica leads", extra=fields(holder=seen.holder[:_LONGEST_NAME]))
        return True

    def _stop_if_over(self) -> None:
        """Serve nothing from now on if the Lease was not renewed in time."""
        is_over = self.leadership.leads and not self.leadership.is_current
        if is_over:  # guard: lost-lease never
            LOG.error("the Lease was not renewed in time", extra=fields(error=self._error))
            self._set_leads(leads=False)

    def _set_leads(self, *, leads: bool) -> None:
        if self.leadership.leads != leads:
            self.leadership.leads = leads
            self.changed()

    def resign(self) -> None:
        """Give the Lease up, so that another replica takes it at its next look."""
        try:
            for _ in range(_TRIES):
                seen = self._seen
                if seen is None or seen.live is None or seen.holder != self.lease.identity:
                    return
                try:
                    self.lease.write(seen, "", self._timeout)
                except _CHANGED:
                    self._is_taken()
                else:
                    return
        except ApplypruneError as error:
            LOG.warning("the Lease cannot be given up", extra=fields(error=error.message))

    def unreached(self, patience: float = 0.0) -> str:
        """Return why it has not reached the Lease for so many seconds; empty if that is not so."""
        seconds = self.clock.now() - self._reached
        if self.leadership.leads or not self._error or seconds < patience:
            return ""
        return f"its Lease could not be renewed for {seconds:.0f} s: {self._error}"

    @property
    def _lasts(self) -> float:
        """Return for how many seconds after a renewal it may lead."""
        return self.lease.duration * _OF_LEASE

    @property
    def _timeout(self) -> float:
        """Return how many seconds a request may take: a late renewal is worth nothing."""
        longest = self.lease.duration / 3
        left = self.leadership.ends - self.leadership.clock.now()
        return max(_SHORTEST_TIMEOUT, min(longest, left if self.leadership.leads else longest))

    @property
    def _pause(self) -> float:
        """Return the seconds until the next look: earlier if the holder may have ended then."""
        pause = min(self.lease.duration / _LOOKS_PER_LEASE, _LONGEST_PAUSE)
        if self.leadership.leads or self._error or self._seen is None:
            return pause
        ends = self._seen.since + self.lease.duration
        return max(_SHORTEST_PAUSE, min(pause, ends - self.leadership.clock.now()))


# The Lease, and what this replica has seen of it, by its own clock only.
#
# A Lease that has not changed between two looks, this replica's lease duration apart, belongs to a
# holder that has ended. What the Lease says about times and durations is not read: clocks of two
# machines are never compared, and a Lease from the future, or with an absurd duration, is one that
# changes or does not.


class Sighting(Struct, frozen=True):
    """One state of the Lease, and since when it is the same."""

    live: LiveObject | None
    """None if there is no Lease."""
    holder: str
    """Who holds it: of a Lease that somebody has deleted, who held it before."""
    since: float
    """When the first reply that shows this state had arrived, in boot time."""


def sighted(before: Sighting | None, live: LiveObject | None, answered: float) -> Sighting:
    """Return what is known after a look at the Lease, whose reply came at ``answered``."""
    if before is not None and _state(before.live) == _state(live):
        return before
    if live is not None:
        return Sighting(live, _holder(live), answered)
    # Its holder creates it again at its next renewal.
    return Sighting(None, before.holder if before is not None else "", answered)


def _state(live: LiveObject | None) -> tuple[str, str] | None:
    return None if live is None else (live.uid, live.resource_version)


def _holder(live: LiveObject) -> str:
    return text(live.body or {}, "spec", "holderIdentity")


def is_free(seen: Sighting, identity: str, asked: float, duration: float) -> bool:
    """Return whether a replica may take the Lease after a look that it asked for at ``asked``."""
    return seen.holder in {"", identity} or asked - seen.since >= duration


def lease_name(namespaces: Collection[str]) -> str:
    """Return the name of the Lease of controllers that handle these namespaces, or all if empty.

    Controllers of other namespaces have another one: none of them waits for the others.
    """
    if not namespaces:
        return _NAME
    told = ",".join(sorted(set(namespaces)))
    return f"{_NAME}-{blake2b(told.encode(), digest_size=4).hexdigest()}"


_NAME = "applyprune-controller"
_MOST_TRANSITIONS = 2**31 - 1
"""More, no server stores: then nobody could take the Lease."""


class ControllerLease(Struct):
    """The Lease in the API, for one replica; ``duration`` is in seconds."""

    client: KubernetesClient
    namespace: str
    name: str
    identity: str
    """Who this replica is, as the holder of the Lease."""
    duration: float
    _acquired: str = ""

    @property
    def _ref(self) -> Ref:
        return Ref(LEASES.group, LEASES.kind, self.namespace, self.name)

    def read(self, timeout: float) -> LiveObject | None:
        try:
            return self.client.get(LEASES, self._ref, full=True, timeout=timeout)
        except NotFound:
            return None

    def write(self, seen: Sighting | None, holder: str, timeout: float) -> LiveObject:
        """Write the Lease in place of what was seen, as it should be, whatever others made of it.

        Raises Conflict, NotFound or AlreadyExists when it has changed since.
        """
        before = seen.live if seen is not None else None
        body = self._body(before, holder)
        if before is None:
            live = self.client.create(LEASES, self._ref, body, timeout=timeout)
        else:
            live = self.client.replace(LEASES, self._ref, body, timeout=timeout)
        version = before.resource_version if before is not None else ""
        if not is_after(live, version):  # guard: lease-is-stored never
            raise RunFailed(f"{self._ref} was not written, though the server answered that it was")
        return live

    def _body(self, before: LiveObject | None, holder: str) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = {"name": self.name, "namespace": self.namespace}
        is_new, transitions = True, 0
        if before is not None:
            metadata |= {"uid": before.uid, "resourceVersion": before.resource_version}
            is_new = _holder(before) != self.identity
            transitions = count(before.body or {}, "spec", "leaseTransitions") + is_new
        if is_new or not self._acquired:
            self._acquired = now
        return {
            "apiVersion": LEASES.gvk.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            # People read the times; no replica does.
            "spec": {
                "holderIdentity": holder,
                # The server accepts whole seconds only, and at least one.
                "leaseDurationSeconds": max(1, round(self.duration)),
                "acquireTime": self._acquired,
                "renewTime": now,
                "leaseTransitions": min(transitions, _MOST_TRANSITIONS),
            },
        }

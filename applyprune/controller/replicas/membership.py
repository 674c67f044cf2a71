"""Renew the Lease of this replica, look at those of the others, and divide the Bundles.

A replica says that it lives only after it has seen who else does. It stops to serve when it could
not do that for two thirds of the lease duration: that is before the others take its Bundles over.
It goes on when it can.
"""

from __future__ import annotations

from collections.abc import Callable

from applyprune.clock import CLOCK, Clock
from applyprune.controller.replicas.own_lease import OwnLease, list_leases
from applyprune.controller.replicas.rendezvous import Replica
from applyprune.controller.replicas.share import Share
from applyprune.controller.replicas.sightings import (
    MOST_REPLICAS,
    Sightings,
    alive,
    believed,
    next_end,
    seen,
    silent,
)
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.engine.cancellation import Cancellation
from applyprune.errors import ApplypruneError, Conflict, NotFound
from applyprune.model.resources import LEASES
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
        """Begin to be idle."""
        self._idle_since = self.clock.now()

    def keep(self, stop: Cancellation) -> None:
        """Look and renew again and again, until ``stop`` is requested."""
        while not stop.requested:
            if self.is_ready():
                self.look()
                stop.wait(self._pause)
            else:
                self._stop_if_over()
                stop.wait(_UNTIL_READY)

    def leave(self) -> None:
        """Delete the Lease, so that the others take over at once."""
        self.own.release(self._timeout)

    def idle(self, patience: float = 0.0) -> str:
        """Return why it has served no Bundle for so many seconds; empty if that is not so."""
        seconds = self.clock.now() - self._idle_since
        if self.share.replicas or seconds < patience:
            return ""
        if not self._error:
            return "it has not divided the Bundles with the other replicas yet"
        return f"its Lease could not be renewed for {seconds:.0f} s: {self._error}"

    def look(self) -> None:
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
        self._sightings = seen(self._sightings, others, answered)
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
        if self.share.divide(()):  # guard: lost-lease
            self.divided()

    def _failed(self, error: ApplypruneError) -> None:
        if error.message != self._error:
            LOG.warning("the Leases cannot be reached", extra=fields(error=error.message))
        self._error = error.message

    def _clean(self, asked: float) -> None:
        """Delete Leases of replicas that ended long ago, exactly as they were seen."""
        for live in silent(self._sightings, asked, self.own.duration * _KEPT)[:_DELETED_PER_LOOK]:
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

"""The share of this replica: the Bundles that it serves."""

from __future__ import annotations

import math
from collections.abc import Collection

from applyprune.clock import BOOT_CLOCK, Clock
from applyprune.controller.constants import Key
from applyprune.controller.replicas.rendezvous import Replica, server_of
from applyprune.values import dataclass


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
        """Return whether this replica serves a Bundle."""
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

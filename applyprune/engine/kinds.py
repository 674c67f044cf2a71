"""Get the proof that the list of kinds is complete; give a server that has just started time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import InitVar, dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.errors import ApplypruneError, Forbidden
from applyprune.model.resources import CompleteResourceMap, Registrations, ResourceMap
from applyprune.planning.schema.served_kinds import MissingKinds, cannot_count, prove

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster

_PAUSE = 0.5


@dataclass(slots=True)
class KindProofs:
    """The proofs for one read of the cluster; the CRDs and APIServices are read when needed.

    All waits together take at most ``patience`` seconds.
    """

    cluster: Cluster
    workers: WorkerPool
    resource_map: ResourceMap
    """What the server serves, as last read."""
    patience: float
    known: InitVar[Registrations | None] = None
    """The CRDs and APIServices, if they were read already."""
    _registered: Registrations | MissingKinds | None = field(init=False)
    _gives_up: float | None = None
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self, known: Registrations | None) -> None:
        """Begin with what is known."""
        self._registered = known

    @property
    def registered(self) -> Registrations | None:
        """Return the CRDs and APIServices as last read; None if they were not."""
        return self._registered if isinstance(self._registered, Registrations) else None

    def of(
        self, groups: Collection[str] | None = None, *, but: Collection[str] = ()
    ) -> CompleteResourceMap | MissingKinds:
        """Return the proof for some groups, or for all except ``but``; or what is missing."""

        def proof(registered: Registrations) -> CompleteResourceMap | MissingKinds:
            return prove(self.resource_map, registered, groups=groups, but=but)

        with self._lock:
            return self._retried(proof)

    def for_search(self, groups: Collection[str] | None) -> tuple[ResourceMap, tuple[str, ...]]:
        """Return the list of kinds for a search by label, and what the search may miss, in words.

        ``groups`` are those that may not miss any kind; None stands for all groups that answer.
        Without the right to read CRDs and APIServices, two lists of kinds must agree, and the
        server must be ready. Raises Unavailable.
        """

        def proof(registered: Registrations) -> CompleteResourceMap | MissingKinds:
            found = prove(self.resource_map, registered, groups=groups)
            if groups is None and isinstance(found, MissingKinds) and found.only_silent:
                return prove(self.resource_map, registered, but=found.silent)
            return found

        with self._lock:
            found = self._retried(proof)
            self.workers.check()
            if isinstance(found, MissingKinds) and found.is_forbidden:
                return self._agreed(), (found.reason,)
            if isinstance(found, MissingKinds):  # guard: search-needs-kinds
                raise cannot_count(found.reason)
            return self.resource_map, self._unsearched()

    def _retried(
        self,
        proof: Callable[[Registrations], CompleteResourceMap | MissingKinds],
    ) -> CompleteResourceMap | MissingKinds:
        """Read again until there is a proof, or the patience has ended."""
        while True:
            registered = self._registered = self._registered or self._registrations()
            found = registered if isinstance(registered, MissingKinds) else proof(registered)
            if isinstance(found, CompleteResourceMap) or found.is_forbidden or not self._waits():
                return found
            self.resource_map = self.cluster.resource_map()
            self._registered = None

    def _unsearched(self) -> tuple[str, ...]:
        """Return what is missing in other groups than those of the proof, in words."""
        if self.registered is None:
            return ()
        found = prove(self.resource_map, self.registered)
        return (found.reason,) if isinstance(found, MissingKinds) else ()

    def _registrations(self) -> Registrations | MissingKinds:
        try:
            return self.cluster.registrations()
        except ApplypruneError as error:
            return MissingKinds(unread=error.message, is_forbidden=isinstance(error, Forbidden))

    def _waits(self) -> bool:
        """Wait a moment; return False if the patience has ended, or the run is cancelled."""
        now = time.monotonic()
        if self._gives_up is None:
            self._gives_up = now + self.patience
        return now < self._gives_up and not self.workers.pause(_PAUSE)

    def _agreed(self) -> ResourceMap:
        """Return a list of kinds that the server, which is ready, gives twice."""
        while True:
            before, self.resource_map = self.resource_map, self.cluster.resource_map()
            agree = before == self.resource_map  # guard: lists-agree
            is_ready = self.cluster.is_ready()  # guard: server-ready
            if agree and is_ready:
                return self.resource_map
            if not self._waits():
                self.workers.check()
                raise cannot_count(
                    "two lists of its kinds differ" if is_ready else "the server is not ready"
                )

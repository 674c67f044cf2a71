"""How a whole set is now, with one full LIST for each kind; and how it goes on, by watches."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.engine.informer import (
    Informer,
    Listed,
    Upserted,
    WatchFailed,
    WatchScope,
    narrower,
    sources,
)
from applyprune.engine.preflight import no_set
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.errors import Forbidden, as_problem
from applyprune.model.events import (
    ApplySetListed,
    Event,
    Finished,
    ObjectStatus,
    Status,
    WarningRaised,
)
from applyprune.model.live import Absent, Unknown
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import PART_OF, SET_ID
from applyprune.planning.readiness.object_status import (
    is_waited_for,
    object_status,
    status_warning,
    unattributed_drift,
    verdict,
)
from applyprune.planning.snapshot import ClusterSnapshot, is_restored, restored_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.informer import Change
    from applyprune.engine.ports import Cluster, Readable
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory
    from applyprune.model.live import State
    from applyprune.planning.applyset import ApplySetIdentity

_TURN = 0.5
_DRIFTED = 1


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """What is to be told of a set, and for how long.

    ``drift`` asks for the fields that have drifted; ``fail_on_drift`` makes drift the exit code 1.
    ``watch`` goes on until it is stopped, ``wait`` until everything is ready, something never will
    be, or ``timeout`` seconds are over.
    """

    drift: bool = False
    fail_on_drift: bool = False
    watch: bool = False
    wait: bool = False
    timeout: float = 300.0


def survey(
    target: ApplySetIdentity,
    asked: StatusOptions,
    cluster: Cluster,
    store: Readable,
    stop: Cancellation,
) -> Iterator[Event]:
    """Yield a Standing for each object of a set, then the set itself, then what changes.

    Raises UsageError for a set that there is not, InventoryError, AccessError and Interrupted.
    """
    with WorkerPool(16, stop) as workers, closing(Informer(cluster)) as feeds:
        yield from _Surveyor(target, asked, cluster, store, stop, workers, feeds).events()


def enrolled(inventory: Inventory, *, objects: int, ready: int | None = None) -> ApplySetListed:
    """Return what is told of a set as a whole."""
    return ApplySetListed(
        name=inventory.name,
        namespace=inventory.namespace,
        objects=objects,
        ready=ready,
        last=inventory.last,
        owner=inventory.owner,
        holder=inventory.holder.who if inventory.holder else "",
    )


@dataclass(slots=True)
class _Surveyor:
    target: ApplySetIdentity
    asked: StatusOptions
    cluster: Cluster
    store: Readable
    stop: Cancellation
    workers: WorkerPool
    feeds: Informer
    inventory: Inventory = field(init=False)
    world: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot({}))
    states: dict[Ref, State] = field(default_factory=dict)
    standings: dict[Ref, ObjectStatus] = field(default_factory=dict)

    def events(self) -> Iterator[Event]:
        began = time.monotonic()
        self._look()
        if is_restored(self.inventory, self.world):
            yield WarningRaised(restored_problem(self.inventory))
        for ref, entry in self.inventory.entries.items():
            if (problem := status_warning(entry, self.states[ref], self.target)) is not None:
                yield WarningRaised(problem)
        standings = list(self._changed())
        for one in standings if self.asked.drift else ():
            if (problem := unattributed_drift(one)) is not None:
                yield WarningRaised(problem)
        yield from standings
        yield self._enrolled()
        if self.asked.watch or self.asked.wait:
            yield from self._go_on(began)
        yield self._finished(began)

    def _look(self) -> None:
        """Read the inventory, and every object that it lists."""
        self.inventory = self.store.read()
        if not self.inventory.exists:
            raise no_set(self.target)
        catalogue = self.cluster.catalogue()
        self.world = self._reader.world((), self.inventory, catalogue, prunes=False, full=True)
        self.stop.check()
        listed = self.inventory.entries
        self.states = {ref: self.world.states[ref] for ref in listed}
        self.standings = {ref: one for ref, one in self.standings.items() if ref in listed}

    @property
    def _reader(self) -> SnapshotReader:
        return SnapshotReader(self.cluster, self.workers, self.target)

    def _changed(self) -> Iterator[ObjectStatus]:
        """Yield how each object stands that stands otherwise than when it was told last."""
        now = datetime.now(UTC)
        entries = self.inventory.entries
        for ref in sorted(entries, key=lambda ref: (entries[ref].wave, ref.namespace, ref)):
            fresh = object_status(
                entries[ref], self.states[ref], self.target, now, fields=self.asked.drift
            )
            told = self.standings.get(ref)
            self.standings[ref] = fresh
            if told is None or replace(told, age=None) != replace(fresh, age=None):
                yield fresh

    def _enrolled(self) -> ApplySetListed:
        ready = sum(one.readiness.status is Status.CURRENT for one in self.standings.values())
        return enrolled(self.inventory, objects=len(self.standings), ready=ready)

    def _counted(self) -> list[ObjectStatus]:
        """Return how those objects stand that count for the set's being ready."""
        return [one for ref, one in self.standings.items() if is_waited_for(self.states[ref])]

    def _finished(self, began: float) -> Finished:
        elapsed = time.monotonic() - began
        if self.stop.requested:
            return Finished({}, self.stop.exit_code, elapsed)
        if (error := verdict(self._counted())) is not None:
            return Finished({}, error.exit_code, elapsed, as_problem(error))
        drifted = any(one.drifted for one in self.standings.values())
        return Finished({}, _DRIFTED if self.asked.fail_on_drift and drifted else 0, elapsed)

    def _go_on(self, began: float) -> Iterator[Event]:
        """Yield what changes, until it is time to end."""
        root = WatchScope(CONFIG_MAPS, self.target.namespace, f"{SET_ID}={self.target.id}")
        self.feeds.open(root)
        self._open()
        while not self.stop.requested and not self._is_over(time.monotonic() - began):
            for news in self.feeds.news(_TURN):
                if news.source == root:
                    self._take_in_record(news)
                else:
                    self._take_in(news)
            changed = list(self._changed())
            yield from changed
            if changed:
                yield self._enrolled()

    def _is_over(self, elapsed: float) -> bool:
        if not self.asked.wait:
            return False
        states = {one.readiness.status for one in self._counted()}
        return states <= {Status.CURRENT} or Status.FAILED in states or elapsed > self.asked.timeout

    def _open(self) -> None:
        resources = self.world.resources
        wanted = [
            (resources[ref.group_kind], ref)
            for ref in self.inventory.entries
            if ref.group_kind in resources
        ]
        for source in sources(wanted, f"{PART_OF}={self.target.id}"):
            self.feeds.open(source)

    def _take_in_record(self, news: Change) -> None:
        """Read everything again when another run has written the inventory."""
        if isinstance(news, WatchFailed):
            return
        live = news.live if isinstance(news, Upserted) else news.lives.get(self.target.inventory)
        if live is None or live.resource_version != self.inventory.resource_version:
            before = self.inventory
            fresh = self.store.read()
            if fresh.exists and fresh.entries == before.entries:
                self.inventory = fresh  # held, renewed or let go of: no object is another
                return
            self._look()
            self._open()

    def _take_in(self, news: Change) -> None:
        source, entries = news.source, self.inventory.entries
        if isinstance(news, Upserted):
            if news.ref in entries:
                self.states[news.ref] = news.live or Absent(proven=True)
            return
        concerned = [
            ref
            for ref in entries
            if ref.group_kind == source.resource.group_kind
            and source.namespace in {"", ref.namespace}
        ]
        if isinstance(news, Listed):
            for ref in concerned:
                found = news.lives.get(ref)
                self.states[ref] = found or self._reader.one(source.resource, ref, full=True)
            return
        for one in narrower(news, concerned):
            self.feeds.open(one)
        if not (isinstance(news.error, Forbidden) and source.resource.namespaced):
            self.states.update(dict.fromkeys(concerned, Unknown(as_problem(news.error))))

"""Report the status of a whole set, and follow it by watches; wait until it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from applyprune.engine.check import no_such_set
from applyprune.engine.context import WorkerPool
from applyprune.engine.reader import SnapshotReader
from applyprune.engine.waiting import (
    DeletedObject,
    DeletionWait,
    Informer,
    Listed,
    Read,
    RelatedObjects,
    Upserted,
    WatchChange,
    WatchFailed,
    WatchScope,
    leaving_namespaces,
    namespace_scopes,
    refs_in,
    watch_scopes,
)
from applyprune.errors import ApplypruneError, Forbidden, NotReady, RunFailed
from applyprune.model.events import (
    ApplySetListed,
    ContainerLog,
    Event,
    Finished,
    ObjectStatus,
    Readiness,
    Status,
    Waiting,
    WarningRaised,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    LiveObject,
    Resource,
    State,
    Unknown,
)
from applyprune.model.options import StatusOptions
from applyprune.model.problem import Problem
from applyprune.model.text import and_more
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity
from applyprune.planning.object_status import (
    LINES,
    ContainerInstance,
    by_owner,
    failing_instances,
    is_waited_for,
    log_lines,
    object_status,
    status_error,
    status_warning,
    tree_of,
    unattributed_drift,
    unknown_drift,
    unproven_values,
    unready_objects,
)
from applyprune.planning.readiness import Related, current_pods_of, masked_readiness
from applyprune.planning.recovery import (
    is_restored,
    restored_problem,
    to_orphan_problem,
    unlisted_problem,
)
from applyprune.planning.secrets import KnownSecrets
from applyprune.planning.server_errors import known_secrets
from applyprune.planning.world import World
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation, Cluster, Readable

    Body = Mapping[str, Any]


_POLL_SECONDS = 0.5


def status(
    applyset: ApplySetIdentity,
    options: StatusOptions,
    cluster: Cluster,
    store: Readable,
    cancellation: Cancellation,
) -> Iterator[Event]:
    """Yield an ObjectStatus for each object of a set, then the set itself, then changes.

    With ``options.deleted``, only wait until the set is gone. Raises UsageError for a set that does
    not exist, InventoryError, AccessError and Interrupted.
    """
    if options.deleted:
        yield from _until_deleted(applyset, options, cluster, store, cancellation)
        return
    clock, secrets = cancellation.clock, KnownSecrets()
    cluster = cluster.hiding(secrets)
    with (
        WorkerPool(16, cancellation) as workers,
        closing(Informer(cluster, clock=clock)) as informer,  # guard: clock-of-status
    ):
        yield from _StatusReader(
            applyset, options, cluster, store, cancellation, workers, informer, secrets
        ).events()


@dataclass(slots=True)
class _StatusReader:
    applyset: ApplySetIdentity
    options: StatusOptions
    cluster: Cluster
    store: Readable
    cancellation: Cancellation
    workers: WorkerPool
    informer: Informer
    secrets: KnownSecrets
    inventory: Inventory = field(init=False)
    world: World = field(init=False)
    related: RelatedObjects = field(default_factory=RelatedObjects)
    states: dict[Ref, State] = field(default_factory=dict)
    statuses: dict[Ref, ObjectStatus] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    """The namespaces that are being deleted."""

    def events(self) -> Iterator[Event]:
        began = self.cancellation.now()
        self._read()
        if is_restored(self.world):
            yield WarningRaised(restored_problem(self.inventory))
        for entry in self.inventory.entries.values():
            if (problem := self._warning(entry)) is not None:
                yield WarningRaised(problem)
        if (stray := unlisted_problem(self.world)) is not None:
            yield WarningRaised(stray)
        marked = to_orphan_problem(self.world)
        if marked is not None:
            yield WarningRaised(marked)
        statuses = list(self._changed())
        for status in statuses if self.options.drift else ():
            if (problem := unattributed_drift(status)) is not None:
                yield WarningRaised(problem)
        if self.options.values and (unproven := unproven_values(statuses, self.applyset)):
            yield WarningRaised(unproven)
        elif self.options.fail_on_drift and (unknown := unknown_drift(statuses)):
            yield WarningRaised(unknown)
        yield from statuses
        yield self._applyset_listed()
        if self.options.watch or self.options.wait:
            yield from self._follow(began)
        yield self._finished(began)

    def _warning(self, entry: InventoryEntry) -> Problem | None:
        state = self.states[entry.ref]
        return status_warning(entry, state, self.applyset, self.world.others)

    def _read(self) -> None:
        """Read the inventory and every object that it lists."""
        self.inventory = self.store.read()
        if not self.inventory.exists:
            raise no_such_set(self.applyset)
        resource_map = self.cluster.resource_map()
        world = World(self.applyset, self.inventory, resource_map=resource_map)
        self.world = self._reader.read(world, full=True, searches=True)
        self.cancellation.check()
        listed = self.inventory.entries
        homes = {ref.namespace for ref in listed}
        self.leaving = leaving_namespaces(homes, self.cluster, self.workers)
        self.states = {ref: self.world.states[ref] for ref in listed}
        self.statuses = {ref: status for ref, status in self.statuses.items() if ref in listed}

    @property
    def _now(self) -> datetime:
        return self.cluster.server_time or datetime.now(UTC)

    @property
    def _reader(self) -> SnapshotReader:
        return SnapshotReader(self.cluster, self.workers, self.applyset, self.store)

    def _changed(self) -> Iterator[ObjectStatus]:
        """Yield the status of each object whose status has changed since the last report."""
        changed: Sequence[ObjectStatus] = list(self._fresh())
        details = _DetailReader(self.cluster, self.workers, self.related)
        if self.options.logs:
            changed = details.with_logs(changed, self.states)
        if self.options.tree:
            changed = details.with_trees(changed, self.states, self._now)
        yield from changed

    def _fresh(self) -> Iterator[ObjectStatus]:
        entries, now = self.inventory.entries, self._now
        known = tuple(self.states.values())
        self.secrets.know(lambda: known_secrets((), known))
        unready = unready_objects(self.states.values(), now)
        self.related.read(unready, self.cluster, self.workers)
        for ref in sorted(entries, key=lambda ref: (entries[ref].wave, ref.namespace, ref)):
            state = self.states[ref]
            live = state if isinstance(state, LiveObject) else None
            fresh = object_status(
                entries[ref],
                state,
                self.applyset,
                now,
                self.world.others,
                options=self.options,
                related=self.related.of(live) if live else Related(),
            )
            fresh = replace(
                _masked(fresh, self.cluster.masked),
                name=self.applyset.name,
                namespace=self.applyset.namespace,
            )
            if live and ref.namespace in self.leaving:
                gone = Readiness(Status.TERMINATING, "its namespace is being deleted")
                fresh = replace(fresh, readiness=gone)
            elif live and fresh.readiness.status is not Status.CURRENT:
                fresh = replace(fresh, not_read=self.related.not_read(ref, live))
            last = self.statuses.get(ref)
            self.statuses[ref] = fresh
            if last is None or _without_repeats(last) != _without_repeats(fresh):
                yield fresh

    def _applyset_listed(self) -> ApplySetListed:
        ready = sum(status.readiness.status is Status.CURRENT for status in self.statuses.values())
        return applyset_listed(self.inventory, objects=len(self.statuses), ready=ready)

    def _finished(self, began: float) -> Finished:
        elapsed = self.cancellation.now() - began
        if self.cancellation.requested:
            return Finished({}, self.cancellation.exit_code, elapsed)
        if (error := status_error(self._counted())) is not None:
            return Finished({}, error.exit_code, elapsed, error.problem)
        # guard: unknown-drift-of-status
        drifted = any(status.drifted is not False for status in self.statuses.values())
        return Finished({}, 1 if self.options.fail_on_drift and drifted else 0, elapsed)

    def _counted(self) -> list[ObjectStatus]:
        """Return the status of each object that counts for the readiness of the set."""
        return [status for ref, status in self.statuses.items() if is_waited_for(self.states[ref])]

    def _follow(self, began: float) -> Iterator[Event]:
        """Yield changes until the run is cancelled, or the wait is over."""
        root = WatchScope(CONFIG_MAPS, self.applyset.namespace, f"{SET_ID}={self.applyset.id}")
        self.informer.open(root)
        self._open()
        while not self.cancellation.requested and not self._is_over(
            self.cancellation.now() - began
        ):
            for change in self.informer.changes(_POLL_SECONDS):
                if change.source == root:
                    self._update_inventory(change)
                elif not change.source.selector:
                    self.related.update(change)
                else:
                    self._update(change)
            self._watch_related()
            changed = list(self._changed())
            yield from changed
            if changed:
                yield self._applyset_listed()

    def _is_over(self, elapsed: float) -> bool:
        if not self.options.wait:
            return False
        states = {status.readiness.status for status in self._counted()}
        return (
            states <= {Status.CURRENT} or Status.FAILED in states or elapsed > self.options.timeout
        )

    def _watch_related(self) -> None:
        for ref, status in self.statuses.items():
            live = self.states.get(ref)
            if isinstance(live, LiveObject) and status.readiness.status is not Status.CURRENT:
                for scope in self.related.scopes(ref, live):
                    self.informer.open(scope)

    def _open(self) -> None:
        resources = self.world.resources
        wanted = [
            (resources[ref.group_kind], ref)
            for ref in self.inventory.entries
            if ref.group_kind in resources
        ]
        for source in watch_scopes(wanted, f"{PART_OF}={self.applyset.id}"):
            self.informer.open(source, refs_in(source, self.inventory.entries))

    def _update_inventory(self, change: WatchChange) -> None:
        """Read everything again if another run has changed the inventory."""
        if isinstance(change, WatchFailed):
            return
        live = (
            change.live
            if isinstance(change, Upserted)
            else change.objects.get(self.applyset.inventory)
        )
        if live is None or live.resource_version != self.inventory.resource_version:
            before = self.inventory
            fresh = self.store.read()
            if fresh.exists and fresh.entries == before.entries:
                self.inventory = fresh  # only the lock has changed: the objects are the same
                return
            self._read()
            self._open()

    def _update(self, change: WatchChange) -> None:
        source, entries = change.source, self.inventory.entries
        if isinstance(change, Upserted):
            if change.ref in entries:
                self.states[change.ref] = change.live or self._reader.read_object(
                    source.resource, change.ref, full=True
                )
            return
        if isinstance(change, WatchFailed) and change.ref is not None:
            if change.ref in entries:
                self.states[change.ref] = Unknown(change.error.problem)
            return
        concerned = [
            ref
            for ref in entries
            if ref.group_kind == source.resource.group_kind
            and source.namespace in {"", ref.namespace}
        ]
        if isinstance(change, Listed):
            for ref in concerned:
                found = change.objects.get(ref)
                self.states[ref] = found or self._reader.read_object(
                    source.resource, ref, full=True
                )
            others = self._reader.other_sets(self.states[ref] for ref in concerned)
            self.world = replace(self.world, others={**self.world.others, **others})
            return
        for scope in namespace_scopes(change, concerned):
            self.informer.open(scope, refs_in(scope, concerned))
        if not isinstance(change.error, Forbidden):  # then each object is read by itself
            self.states.update(dict.fromkeys(concerned, Unknown(change.error.problem)))


def _masked(status: ObjectStatus, masked: Callable[[str], str]) -> ObjectStatus:
    """Hide values of Secrets in what controllers and nodes say."""
    return replace(
        status,
        readiness=masked_readiness(status.readiness, masked),  # guard: secret-in-status
        events=tuple(replace(event, message=masked(event.message)) for event in status.events),
    )


def _without_repeats(status: ObjectStatus) -> ObjectStatus:
    """Return what counts as a change: an event that only repeats does not."""
    return replace(status, age=None, events=(), not_read="")


def applyset_listed(
    inventory: Inventory, *, objects: int, ready: int | None = None
) -> ApplySetListed:
    """Return the event about a set as a whole."""
    return ApplySetListed(
        name=inventory.name,
        namespace=inventory.namespace,
        objects=objects,
        ready=ready,
        last=inventory.last,
        owner=inventory.owner,
        holder=inventory.holder.who if inventory.holder else "",
    )


# What leads from an object to its Pods; more kinds would be more lists.
_OWNED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, PODS)
_LOG_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _DetailReader:
    """Reads the details of the objects of one set."""

    cluster: Cluster
    workers: WorkerPool
    related: RelatedObjects

    def with_trees(
        self, statuses: Iterable[ObjectStatus], states: Mapping[Ref, State], now: datetime
    ) -> Sequence[ObjectStatus]:
        """Add to each object what it owns, by one list for each kind and namespace."""
        statuses = list(statuses)
        namespaces = sorted({status.ref.namespace for status in statuses} - {""})
        scopes = [(resource, name) for name in namespaces for resource in _OWNED]
        found: list[Body] = []
        unread: dict[str, list[str]] = {}
        for (resource, namespace), bodies, why in self.workers.each(self._listed, scopes):
            found += bodies
            if why:
                unread.setdefault(namespace, []).append(f"{resource.plural}: {why}")
        owned = by_owner(iter(found))
        return [
            replace(
                status,
                tree=tree_of(_named(status.ref, live), owned, now),
                not_read="; ".join(
                    part
                    for part in (status.not_read, *sorted(unread.get(status.ref.namespace, ())))
                    if part
                ),
            )
            if isinstance(live := states.get(status.ref), LiveObject)
            else status
            for status in statuses
        ]

    def with_logs(
        self, statuses: Iterable[ObjectStatus], states: Mapping[Ref, State]
    ) -> Sequence[ObjectStatus]:
        """Add the last log lines of failing containers to each object that is not ready."""
        return [self._with_logs(status, states.get(status.ref)) for status in statuses]

    def _with_logs(self, status: ObjectStatus, live: State | None) -> ObjectStatus:
        if status.readiness.status is Status.CURRENT or not isinstance(live, LiveObject):
            return status
        is_pod = live.ref.group_kind == PODS.group_kind
        pods = (live.body or {},) if is_pod else current_pods_of(live, self.related.of(live))
        instances = list(failing_instances(pods))
        return replace(status, logs=tuple(self.workers.each(self._log, instances, in_order=True)))

    def _log(self, instance: ContainerInstance) -> ContainerLog:
        pod = Ref(PODS.group, PODS.kind, instance.namespace, instance.pod)
        lines: tuple[str, ...] = ()
        problem = ""
        try:
            log = self.cluster.log(
                pod, instance.container, previous=instance.previous, lines=LINES, size=_LOG_BYTES
            )
            lines = log_lines(log)
        except ApplypruneError as error:
            problem = error.message
        return ContainerLog(pod, instance.container, instance.previous, lines, problem)

    def _listed(
        self, scope: tuple[Resource, str]
    ) -> tuple[tuple[Resource, str], Sequence[Body], str]:
        resource, namespace = scope
        try:
            found = self.cluster.list(resource, namespace=namespace, full=True)
        except ApplypruneError as error:
            return scope, (), error.message
        return scope, [_named(live.ref, live, resource.version) for live in found], ""


def _named(ref: Ref, live: LiveObject, version: str = "") -> Body:
    """Return the body with its kind, which the items of a list may lack."""
    body = live.body or {"metadata": live.metadata}
    named = f"{ref.group}/{version}" if ref.group else version
    return {"apiVersion": named, "kind": ref.kind, **body}


def _until_deleted(
    applyset: ApplySetIdentity,
    options: StatusOptions,
    cluster: Cluster,
    store: Readable,
    cancellation: Cancellation,
) -> Iterator[Event]:
    """Yield what the set still consists of, until nothing is left or the timeout is over.

    The inventory goes last, so the objects are read after it. What has lost the set's label by then
    was orphaned, and stays. A set that does not exist is a warning: a typing error must be visible.
    """
    began = cancellation.now()
    inventory = store.read()
    if not inventory.exists:
        yield WarningRaised(no_such_set(applyset).problem)
        yield Finished({}, 0, 0.0)
        return
    with WorkerPool(16, cancellation) as workers:
        reader = SnapshotReader(cluster, workers, applyset, store)

        def read(pending: Sequence[DeletedObject]) -> Iterable[tuple[DeletedObject, State]]:
            return workers.each(
                lambda one: (one, reader.read_object(one.resource, one.ref)), pending
            )

        root = DeletedObject(CONFIG_MAPS, applyset.inventory, inventory.uid)
        wait = DeletionWait([root], options.timeout, cancellation)
        yield from _waiting(wait, read)
        unknown: list[Ref] = []
        if not wait.pending and not cancellation.requested:
            rest = max(0.0, options.timeout - (cancellation.now() - began))
            remaining, unknown = _remaining(inventory, reader, cluster, applyset)
            wait = DeletionWait(remaining, rest, cancellation)
            yield from _waiting(wait, read)
    elapsed = cancellation.now() - began
    # Whatever was never read may be gone, or not.
    unknown += [one.ref for one in wait.pending if one.ref not in wait.last]
    error: RunFailed | None = None
    if unknown:
        error = RunFailed(f"it is unknown whether {_names(unknown)} still exists")
    elif wait.pending:
        names = _names([one.ref for one in wait.pending])
        error = NotReady(f"the set {applyset.name} is not gone: {names} still exists")
    if cancellation.requested:
        yield Finished({}, cancellation.exit_code, elapsed)
    elif error is not None:
        yield Finished({}, error.exit_code, elapsed, error.problem)
    else:
        yield Finished({}, 0, elapsed)


def _remaining(
    inventory: Inventory, reader: SnapshotReader, cluster: Cluster, applyset: ApplySetIdentity
) -> tuple[list[DeletedObject], list[Ref]]:
    """Return the listed objects that are not known to be gone, and those that cannot be read.

    What has lost the set's label, or is now another object, does not belong to the set.
    """
    world = World(applyset, inventory, resource_map=cluster.resource_map())
    world = reader.read(world, proves=False)
    remaining: list[DeletedObject] = []
    unknown: list[Ref] = []
    for ref, entry in inventory.entries.items():
        state, resource = world.states[ref], world.resources.get(ref.group_kind)
        if isinstance(state, LiveObject) and resource is not None:
            is_same = state.uid == entry.uid or not entry.uid
            if is_same and state.labels.get(PART_OF) == applyset.id:
                remaining.append(DeletedObject(resource, ref, state.uid))
        elif isinstance(state, Unknown):  # guard: unknown-is-not-gone
            unknown.append(ref)
    return remaining, unknown


def _waiting(wait: DeletionWait, read: Read) -> Iterator[Event]:
    """Wait until everything that is pending is gone; yield what it waits for."""
    yield from (event for event in wait.events(read) if isinstance(event, Waiting))


_SHOWN = 5


def _names(refs: Sequence[Ref]) -> str:
    return and_more([ref.short for ref in refs], _SHOWN)

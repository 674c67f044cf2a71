"""Report the status of a whole set, and follow it by watches; wait until it is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from applyprune.engine.context import WorkerPool
from applyprune.engine.reader import SnapshotReader
from applyprune.engine.waiting import (
    DeletedObject,
    DeletionWait,
    Informer,
    Listed,
    RelatedObjects,
    Upserted,
    WatchChange,
    WatchFailed,
    WatchScope,
    refs_in,
    terminating_namespaces,
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
from applyprune.model.identity import GVK, Ref
from applyprune.model.inventory import Inventory
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
    text,
)
from applyprune.model.options import StatusOptions
from applyprune.model.problem import Problem
from applyprune.model.text import and_more
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity
from applyprune.planning.conflicts import drifted_from_record
from applyprune.planning.object_status import (
    LINES,
    applied_version,
    by_owner,
    failing_instances,
    is_waited_for,
    logs_hint,
    object_status,
    shown_log,
    status_error,
    status_warning,
    tree_of,
    unattributed_drift,
    unknown_drift,
    unproven_values,
    unready_objects,
    why_no_log,
)
from applyprune.planning.readiness import Related, masked_readiness, pods_of
from applyprune.planning.recovery import (
    is_restored,
    restored_problem,
    to_orphan_problem,
    unlisted_problem,
)
from applyprune.planning.refusals import no_such_set
from applyprune.planning.secrets import KnownSecrets
from applyprune.planning.server_errors import known_secrets
from applyprune.planning.steady_pods import needs_proof, unproved
from applyprune.planning.world import World
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation, Cluster, Readable

    Body = Mapping[str, Any]


_POLL_SECONDS = 0.5
_SHOWN = 5


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
        # guard: clock-of-status -> closing(Informer(cluster))
        closing(Informer(cluster, clock=clock)) as informer,
    ):
        yield from _StatusReader(
            applyset, options, cluster, store, cancellation, workers, informer, secrets
        ).events()


# What leads from an object to its Pods; more kinds would be more lists.
_OWNED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, PODS)
_LOG_BYTES = 64 * 1024


class _StatusReader:
    world: World

    def __init__(
        self,
        applyset: ApplySetIdentity,
        options: StatusOptions,
        cluster: Cluster,
        store: Readable,
        cancellation: Cancellation,
        workers: WorkerPool,
        informer: Informer,
        secrets: KnownSecrets,
    ) -> None:
        self.applyset = applyset
        self.options = options
        self.cluster = cluster
        self.store = store
        self.cancellation = cancellation
        self.workers = workers
        self.informer = informer
        self.secrets = secrets
        self.related = RelatedObjects()
        self.states: dict[Ref, State] = {}
        self.statuses: dict[Ref, ObjectStatus] = {}
        # The namespaces that are being deleted.
        self.terminating: frozenset[str] = frozenset()
        # The objects in the versions in which the set has applied them, as last read.
        self.applied: Mapping[Ref, LiveObject] = {}

    def events(self) -> Iterator[Event]:
        began = self.cancellation.now()
        self._read()
        world = self.world
        yield from _warnings(
            restored_problem(world.inventory) if is_restored(world) else None,
            *(status_warning(entry, world) for entry in world.inventory.entries.values()),
            unlisted_problem(world),
            to_orphan_problem(world),
        )
        statuses = self._changed()
        if self.options.drift:
            yield from _warnings(*map(unattributed_drift, statuses))
        if self.options.values:
            yield from _warnings(unproven_values(statuses, self.applyset))
        elif self.options.fail_on_drift:
            yield from _warnings(unknown_drift(statuses))
        yield from statuses
        yield self._applyset_listed()
        if self.options.watch or self.options.wait:
            yield from self._follow(began)
        error = status_error(self._counted())
        if error is not None and self.options.wait and not self.options.logs:
            error.problem = replace(error.problem, hint=self._logs_hint())
        finished = _finished(error, began, self.cancellation)
        # guard: unknown-drift-of-status -> any(status.drifted for status in self.statuses.values())
        drifted = any(status.drifted is not False for status in self.statuses.values())
        if self.options.fail_on_drift and drifted:
            finished = replace(finished, exit_code=finished.exit_code or 1)
        yield finished

    def _read(self) -> None:
        """Read the inventory and every object that it lists."""
        inventory = self.store.read()
        if not inventory.exists:
            raise no_such_set(self.applyset)
        resource_map = self.cluster.resource_map()
        world = World(self.applyset, inventory, resource_map=resource_map)
        self.world = self._reader.read(world, full=True, searches=True)
        self.cancellation.check()
        listed = inventory.entries
        homes = {ref.namespace for ref in listed}
        self.terminating = terminating_namespaces(homes, self.cluster, self.workers)
        self.states = {ref: self.world.states[ref] for ref in listed}
        self.statuses = {ref: status for ref, status in self.statuses.items() if ref in listed}

    @property
    def _reader(self) -> SnapshotReader:
        return SnapshotReader(self.cluster, self.workers, self.applyset, self.store)

    def _changed(self) -> Sequence[ObjectStatus]:
        """Return the status of each object whose status has changed since the last report."""
        now = self.cluster.server_time or datetime.now(UTC)
        changed: Sequence[ObjectStatus] = list(self._fresh(now))
        if self.options.logs:
            changed = [self._with_logs(status) for status in changed]
        if self.options.tree:
            changed = self._with_trees(changed, now)
        return changed

    def _fresh(self, now: datetime) -> Iterator[ObjectStatus]:
        entries, masked = self.world.inventory.entries, self.cluster.masked
        world = replace(self.world, states=self.states)
        known = tuple(self.states.values())
        self.secrets.know(lambda: known_secrets((), known))
        self.related.read(unready_objects(known, now), self.cluster, self.workers)
        applied = self._in_applied_versions()
        for ref in sorted(entries, key=lambda ref: (entries[ref].wave, ref.namespace, ref)):
            state = self.states[ref]
            live = state if isinstance(state, LiveObject) else None
            related = self.related.of(live) if live else Related()
            fresh = object_status(
                entries[ref],
                world,
                now,
                options=self.options,
                related=related,
                applied=applied.get(ref),
            )
            # Controllers and nodes may quote any Secret.
            fresh = replace(
                fresh,
                # guard: secret-in-status -> fresh.readiness
                readiness=masked_readiness(fresh.readiness, masked),
                events=tuple(replace(one, message=masked(one.message)) for one in fresh.events),
                name=self.applyset.name,
                namespace=self.applyset.namespace,
            )
            if live and ref.namespace in self.terminating:
                gone = Readiness(Status.TERMINATING, "its namespace is being deleted")
                fresh = replace(fresh, readiness=gone)
            elif live and fresh.readiness.status is not Status.CURRENT:
                fresh = replace(fresh, not_read=self.related.not_read(ref, live))
            last = self.statuses.get(ref)
            self.statuses[ref] = fresh
            if last is None or _without_repeats(last) != _without_repeats(fresh):
                yield fresh

    def _in_applied_versions(self) -> Mapping[Ref, LiveObject]:
        """Return each object in the version in which the set has applied it.

        An object that was listed in another version is read again, if its values are shown or
        compared; it is left out if that version is not served.
        """
        found: dict[Ref, LiveObject] = {}
        wanted: list[tuple[Ref, Resource]] = []
        for ref, live in self.states.items():
            if not isinstance(live, LiveObject):
                continue
            version, known = applied_version(live, self.applyset.manager), self.applied.get(ref)
            if version in {"", self._version_of(live)}:
                found[ref] = live
            elif known is not None and known.resource_version == live.resource_version:
                found[ref] = known
            elif self.options.values or self._has_drifted(live):
                resource = self.world.resource_map.find(GVK.parse(version, ref.kind))
                wanted += [(ref, resource)] if resource is not None else []

        def read(one: tuple[Ref, Resource]) -> State:
            return self._reader.read_object(one[1], one[0], full=True)

        for state in self.workers.each(read, wanted):
            if not isinstance(state, LiveObject):
                continue
            if self._version_of(state) == applied_version(state, self.applyset.manager):
                found[state.ref] = state
        self.applied = found
        return found

    def _version_of(self, live: LiveObject) -> str:
        """Return the version in which an object was read; the items of a list may not say it."""
        listed = self.world.resources.get(live.ref.group_kind)
        return text(live.body or {}, "apiVersion") or (listed.gvk.api_version if listed else "")

    def _has_drifted(self, live: LiveObject) -> bool | None:
        entry = self.world.inventory.entries[live.ref]
        return drifted_from_record(entry, live, self.applyset.manager)

    def _with_logs(self, status: ObjectStatus) -> ObjectStatus:
        """Add the last log lines of the failing containers of an object that is not ready."""
        live = self.states.get(status.ref)
        if not isinstance(live, LiveObject):
            return status
        if status.readiness.status is Status.CURRENT and not self._may_crash(live):
            return status
        pods = pods_of(live, self.related.of(live))
        found = self.workers.each(self._with_lines, failing_instances(pods), in_order=True)
        return replace(status, logs=tuple(found))

    def _logs_hint(self) -> str:
        """Return which command shows logs of what is not ready; empty if there are none."""
        unready = (
            self.states[one.ref]
            for one in self._counted()
            if one.readiness.status is not Status.CURRENT
        )
        hints = (
            logs_hint(pods_of(live, self.related.of(live)), self.applyset)
            for live in unready
            if isinstance(live, LiveObject)
        )
        return next(filter(None, hints), "")

    def _may_crash(self, live: LiveObject) -> bool:
        """Return whether a workload that says it is ready may only be between two crashes."""
        body, now = live.body or {}, self.cluster.server_time or datetime.now(UTC)
        if not needs_proof(live.ref.group_kind, body):
            return False
        self.related.read([live], self.cluster, self.workers)
        return unproved(body, pods_of(live, self.related.of(live)), now) is not None

    def _with_lines(self, one: ContainerLog) -> ContainerLog:
        if one.problem:
            return one
        try:
            log = self.cluster.log(
                one.pod, one.container, previous=one.previous, lines=LINES, size=_LOG_BYTES
            )
        except ApplypruneError as error:
            return replace(one, problem=why_no_log(error.message))
        return shown_log(one, log)

    def _with_trees(
        self, statuses: Sequence[ObjectStatus], now: datetime
    ) -> Sequence[ObjectStatus]:
        """Add to each object what it owns, by one list for each kind and namespace."""

        def listed(scope: tuple[Resource, str]) -> tuple[str, Sequence[Body], str]:
            resource, namespace = scope
            try:
                found = self.cluster.list(resource, namespace=namespace, full=True)
            except ApplypruneError as error:
                return namespace, (), f"{resource.plural}: {error.message}"
            return namespace, [_named(live, resource.version) for live in found], ""

        namespaces = sorted({status.ref.namespace for status in statuses} - {""})
        scopes = [(resource, name) for name in namespaces for resource in _OWNED]
        bodies: list[Body] = []
        unread: dict[str, list[str]] = {}
        for namespace, found, why in self.workers.each(listed, scopes):
            bodies += found
            if why:
                unread.setdefault(namespace, []).append(why)
        owned = by_owner(bodies)
        with_trees = []
        for status in statuses:
            if isinstance(live := self.states.get(status.ref), LiveObject):
                parts = (status.not_read, *sorted(unread.get(status.ref.namespace, ())))
                not_read = "; ".join(filter(None, parts))
                tree = tree_of(_named(live), owned, now)
                with_trees.append(replace(status, tree=tree, not_read=not_read))
            else:
                with_trees.append(status)
        return with_trees

    def _applyset_listed(self) -> ApplySetListed:
        ready = sum(status.readiness.status is Status.CURRENT for status in self.statuses.values())
        return applyset_listed(self.world.inventory, objects=len(self.statuses), ready=ready)

    def _counted(self) -> list[ObjectStatus]:
        """Return the status of each object that counts for the readiness of the set."""
        return [status for ref, status in self.statuses.items() if is_waited_for(self.states[ref])]

    def _follow(self, began: float) -> Iterator[Event]:
        """Yield changes until the run is cancelled, or the wait is over."""
        root = WatchScope(CONFIG_MAPS, self.applyset.namespace, f"{SET_ID}={self.applyset.id}")
        self.informer.open(root)
        self._open()
        while not (self.cancellation.requested or self._is_over(began)):
            for change in self.informer.changes(_POLL_SECONDS):
                if change.source == root:
                    self._update_inventory(change)
                elif not change.source.selector:
                    self.related.update(change)
                else:
                    self._update(change)
            for ref, status in self.statuses.items():
                live = self.states.get(ref)
                if isinstance(live, LiveObject) and status.readiness.status is not Status.CURRENT:
                    for scope in self.related.scopes(ref, live):
                        self.informer.open(scope)
            changed = self._changed()
            yield from changed
            if changed:
                yield self._applyset_listed()

    def _is_over(self, began: float) -> bool:
        if not self.options.wait:
            return False
        states = {status.readiness.status for status in self._counted()}
        is_late = self.cancellation.now() - began > self.options.timeout
        return states <= {Status.CURRENT} or Status.FAILED in states or is_late

    def _open(self) -> None:
        resources = self.world.resources
        wanted = {
            ref: resources[ref.group_kind]
            for ref in self.world.inventory.entries
            if ref.group_kind in resources
        }
        self.informer.open_each(wanted, f"{PART_OF}={self.applyset.id}")

    def _update_inventory(self, change: WatchChange) -> None:
        """Read everything again if another run has changed the inventory."""
        if isinstance(change, WatchFailed):
            return
        live = (
            change.live
            if isinstance(change, Upserted)
            else change.objects.get(self.applyset.inventory)
        )
        if live is None or live.resource_version != self.world.inventory.resource_version:
            fresh = self.store.read()
            if fresh.exists and fresh.entries == self.world.inventory.entries:
                # Only the lock has changed: the objects are the same.
                self.world = replace(self.world, inventory=fresh)
                return
            self._read()
            self._open()

    def _update(self, change: WatchChange) -> None:
        source, entries = change.source, self.world.inventory.entries

        def seen(ref: Ref, live: LiveObject | None) -> State:
            return live or self._reader.read_object(source.resource, ref, full=True)

        if isinstance(change, Upserted):
            if change.ref in entries:
                self.states[change.ref] = seen(change.ref, change.live)
        elif isinstance(change, Listed):
            concerned = refs_in(source, entries)
            self.states.update((ref, seen(ref, change.objects.get(ref))) for ref in concerned)
            others = self._reader.other_sets(self.states[ref] for ref in concerned)
            self.world = replace(self.world, others={**self.world.others, **others})
        elif change.ref is not None:
            if change.ref in entries:
                self.states[change.ref] = Unknown(change.error.problem)
        else:
            self.informer.open_namespaces(change, entries)
            if not isinstance(change.error, Forbidden):  # then each object is read by itself
                unread = dict.fromkeys(refs_in(source, entries), Unknown(change.error.problem))
                self.states.update(unread)


def _warnings(*problems: Problem | None) -> Iterator[WarningRaised]:
    yield from map(WarningRaised, filter(None, problems))


def _finished(error: ApplypruneError | None, began: float, cancellation: Cancellation) -> Finished:
    elapsed = cancellation.now() - began
    if cancellation.requested:
        return Finished({}, cancellation.exit_code, elapsed)
    if error is not None:
        return Finished({}, error.exit_code, elapsed, error.problem)
    return Finished({}, 0, elapsed)


def _without_repeats(status: ObjectStatus) -> ObjectStatus:
    """Return what counts as a change: an event that only repeats does not."""
    return replace(status, age=None, events=(), not_read="")


def _named(live: LiveObject, version: str = "") -> Body:
    """Return the body with its kind, which the items of a list may lack."""
    ref, body = live.ref, live.body or {"metadata": live.metadata}
    named = f"{ref.group}/{version}" if ref.group else version
    return {"apiVersion": named, "kind": ref.kind, **body}


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


# Until a set is gone.


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
        read = reader.read_object
        root = DeletedObject(CONFIG_MAPS, applyset.inventory, inventory.uid)
        wait = DeletionWait([root], options.timeout, cancellation, read, workers)
        yield from (event for event in wait.run() if isinstance(event, Waiting))
        unknown: list[Ref] = []
        if not wait.pending and not cancellation.requested:
            rest = max(0.0, options.timeout - (cancellation.now() - began))
            remaining, unknown = _remaining(inventory, reader, cluster, applyset)
            wait = DeletionWait(remaining, rest, cancellation, read, workers)
            yield from (event for event in wait.run() if isinstance(event, Waiting))
    # Whatever was never read may be gone, or not.
    unknown += [one.ref for one in wait.pending if one.ref not in wait.last]
    error: ApplypruneError | None = None
    if unknown:
        names = and_more([ref.short for ref in unknown], _SHOWN)
        error = RunFailed(f"it is unknown whether {names} still exists")
    elif wait.pending:
        names = and_more([one.ref.short for one in wait.pending], _SHOWN)
        error = NotReady(f"the set {applyset.name} is not gone: {names} still exists")
    yield _finished(error, began, cancellation)


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
        elif isinstance(state, Unknown):  # guard: unknown-is-not-gone never
            unknown.append(ref)
    return remaining, unknown

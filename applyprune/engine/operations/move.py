"""Move objects from one set to another without deleting or re-creating any (safety rule 12).

Both inventories are locked from the first write to the last. The destination lists an object before
its label changes; the source lists it until after that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.engine.context import RunContext, RunSummary, WorkerPool
from applyprune.engine.inventory_lock import WRITE_MARGIN, InventoryLock, inventory_lock
from applyprune.engine.plan_stage import with_exact_names
from applyprune.engine.preflight import (
    namespace_exists,
    no_such_set,
    refuse_copied,
    refuse_owned,
    refuse_unlisted,
)
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.field_transfer import send
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    InventoryLocked,
    NotFound,
    RunFailed,
    Unavailable,
    Unreachable,
    UsageError,
    as_problem,
)
from applyprune.model.events import Event, ObjectDone, Outcome, Phase
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
from applyprune.model.live import LiveObject, Resource, State
from applyprune.model.options import DryRun, Mode, Options
from applyprune.model.problem import Problem
from applyprune.planning.applyset import OWNED_BY, ApplySetIdentity
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.names import chosen
from applyprune.planning.ownership import OtherSet, has_witness
from applyprune.planning.recovery import MOVED, Move, MoveStep, move_step
from applyprune.planning.replies import refuse_false_absence
from applyprune.planning.requests import mark_request, transfer_request
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, Store

_TRIES = 8
_LISTED = frozenset({Move.HAND_OVER, Move.DONE})


def _marked_as_leaving(
    inventory: Inventory, steps: Sequence[MoveStep]
) -> Mapping[Ref, InventoryEntry]:
    """Return the source's entries during the move, marked so that its prune deletes none."""
    leaving = {step.entry.ref for step in steps if step.action is Move.HAND_OVER}
    return {
        ref: replace(entry, orphan_reason=entry.orphan_reason or MOVED, orphaning=True)
        if ref in leaving
        else entry
        for ref, entry in inventory.entries.items()
    }


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sets, and the store of its inventory."""

    applyset: ApplySetIdentity
    store: Store


def move(
    source: Side,
    destination: Side,
    options: Options,
    cluster: Cluster,
    cancellation: Cancellation,
    *,
    if_exists: bool = False,
) -> Iterator[Event]:
    """Move the objects that ``options.select`` names (all if it is empty) to the destination.

    With ``if_exists``, nothing is done if the source does not exist.

    Failures of single objects are events; UsageError, InventoryError, AccessError,
    InventoryLocked and Interrupted are raised.
    """
    if source.applyset == destination.applyset:
        raise UsageError("a set cannot be moved into itself")
    summary = RunSummary(cluster.run)
    with (
        inventory_lock(
            source.store, options, cancellation, run=summary.run, mode=Mode.MOVE
        ) as source_lock,
        inventory_lock(
            destination.store, options, cancellation, run=summary.run, mode=Mode.MOVE
        ) as destination_lock,
        WorkerPool(options.concurrency, cancellation) as workers,
    ):
        leased = cluster.under_lease(source_lock).under_lease(destination_lock)
        context = RunContext(
            leased,
            source.applyset,
            options,
            cancellation,
            workers,
            source_lock,
            summary,
            source.store,
        )
        yield from _Move(context, destination.applyset, destination_lock, if_exists).events()


@dataclass(slots=True)
class _Move:
    """One move; the context's set and lock are those of the source."""

    context: RunContext
    destination: ApplySetIdentity
    destination_lock: InventoryLock
    if_exists: bool

    def events(self) -> Iterator[Event]:
        """Lock both inventories, list the objects, transfer them, and unlist them in the source."""
        context, summary = self.context, self.context.summary
        dry = context.options.dry_run
        yield context.started(Mode.MOVE)
        for lock in self._in_order():
            yield from lock.wait()
        source_inventory, destination_inventory = (
            context.lock.inventory,
            self.destination_lock.inventory,
        )
        if self.if_exists and not source_inventory.exists:
            yield summary.finished()
            return
        self.context = context = yield from with_exact_names(
            context,
            context.cluster.resource_map(),
            [source_inventory, destination_inventory],
        )
        self._refuse(source_inventory, destination_inventory)
        steps = self._steps(source_inventory)
        if dry is not DryRun.OFF:
            yield from summary.counted(self._done(step, step.problem) for step in steps)
            yield summary.finished()
            return
        destination_entries = dict(destination_inventory.entries)
        destination_entries |= {
            step.entry.ref: step.entry for step in steps if step.action in _LISTED
        }
        for lock in self._in_order():
            entries = (
                destination_entries
                if lock is self.destination_lock
                else _marked_as_leaving(source_inventory, steps)
            )
            yield lock.take(replace(lock.inventory, entries=entries))
        moved: set[Ref] = set()
        try:
            for step, problem in context.workers.each(self._move, steps):
                if problem is None:
                    moved.add(step.entry.ref)
                yield from summary.counted((self._done(step, problem),))
        except ApplypruneError as error:
            if not isinstance(error, InventoryLocked):
                self._end(destination_entries, source_inventory, moved, error.exit_code)
            raise
        exit_code = context.cancellation.exit_code or summary.exit_code
        yield from self._end(destination_entries, source_inventory, moved, exit_code)
        context.cancellation.check()
        yield summary.finished()

    def _end(
        self,
        destination_entries: Mapping[Ref, InventoryEntry],
        source_inventory: Inventory,
        moved: Collection[Ref],
        exit_code: int,
    ) -> Sequence[Event]:
        """Record the end, the destination first; an object that did not move may stay in both."""
        changes = self.context.summary.changes
        first = self.destination_lock.release(
            destination_entries, exit_code=exit_code, changes=changes
        )
        source_entries = {
            ref: entry for ref, entry in source_inventory.entries.items() if ref not in moved
        }
        if source_entries or source_inventory.hidden_kinds or self.context.options.select:
            lock = self.context.lock
            return first, lock.release(source_entries, exit_code=exit_code, changes=changes)
        self.context.lock.record(source_entries, Phase.BEFORE_APPLY)
        return first, *self.context.lock.remove()

    def _in_order(self) -> Sequence[InventoryLock]:
        """Return the locks in the one order in which all moves take them."""
        source, destination = self.context.applyset, self.destination
        if (source.namespace, source.name) < (destination.namespace, destination.name):
            return self.context.lock, self.destination_lock
        return self.destination_lock, self.context.lock

    def _refuse(self, source_inventory: Inventory, destination_inventory: Inventory) -> None:
        for inventory in (source_inventory, destination_inventory):
            refuse_owned(inventory, "", self.context.options)
            refuse_copied(inventory)
        if not source_inventory.exists:
            raise no_such_set(self.context.applyset)
        if not (
            destination_inventory.exists or namespace_exists(self.context.cluster, self.destination)
        ):
            raise UsageError(
                f"the namespace {destination_inventory.namespace} does not exist",
                reason=f"the inventory of the set {destination_inventory.name} belongs there",
                hint="Create it first, or name another one with --to-namespace.",
            )
        # The destination lists what has been moved already.
        known = {**source_inventory.entries, **destination_inventory.entries}
        refuse_unlisted(self.context.options.select, known, self.context.applyset)

    def _steps(self, source_inventory: Inventory) -> Sequence[MoveStep]:
        """Read the objects to move, and decide each step."""
        select = self.context.options.select
        entries = {entry.ref: entry for entry in chosen(select, source_inventory.entries.values())}
        resource_map = self.context.cluster.resource_map()
        listed = replace(source_inventory, entries=entries)
        snapshot = self._reader.read((), listed, resource_map, prunes=False, searches=False)
        return [
            self._step(
                entry, snapshot.resources.get(ref.group_kind), snapshot.states[ref], snapshot.others
            )
            for ref, entry in sorted(entries.items())
        ]

    def _step(
        self,
        entry: InventoryEntry,
        resource: Resource | None,
        state: State,
        others: Mapping[str, OtherSet],
    ) -> MoveStep:
        return move_step(entry, resource, state, self.context.applyset, self.destination, others)

    @property
    def _reader(self) -> SnapshotReader:
        context = self.context
        return SnapshotReader(context.cluster, context.workers, context.applyset, context.store)

    def _move(self, step: MoveStep) -> tuple[MoveStep, Problem | None]:
        for _ in range(_TRIES):
            if step.live is None or step.resource is None:
                return step, step.problem
            if step.action is Move.DONE:
                self._settle(step.resource, step.live, step.entry)
            if step.action is not Move.HAND_OVER:
                return step, step.problem
            try:
                # While this process was suspended, another run may have taken either lock.
                for lock in (self.context.lock, self.destination_lock):
                    lock.ensure(WRITE_MARGIN)
                source = self.context.applyset
                owned = has_witness(step.live, source)
                request = transfer_request(
                    step.resource,
                    step.live,
                    old=source.manager,
                    applyset=self.destination,
                    owned=owned,
                )
                live = send(self.context.cluster, request)
            except InventoryLocked:
                raise
            except (Conflict, NotFound, Unavailable, Unreachable) as error:
                # It has changed since it was read, or only the reply is lost.
                if (problem := self._false_absence(step.resource, step.live, error)) is not None:
                    return step, problem
            except ApplypruneError as error:
                return step, as_problem(error, where=str(step.entry.ref))
            else:
                if has_witness(live, self.destination) >= owned:
                    return step, None
                # It has changed between the two patches, so it lacks what the second one sets.
            state = self._reader.read_object(step.resource, step.entry.ref)
            others = self._reader.other_sets([state])
            step = self._step(step.entry, step.resource, state, others)
        return step, as_problem(RunFailed(f"{step.entry.ref} changes faster than it can be moved"))

    def _false_absence(
        self, resource: Resource, live: LiveObject, error: ApplypruneError
    ) -> Problem | None:
        """Return the problem of an object that exists although a PATCH got a 404."""
        if not isinstance(error, NotFound):
            return None
        try:
            state = self._reader.read_object(resource, live.ref)
            refuse_false_absence(live.uid, state, error)
        except RunFailed as refused:
            return as_problem(refused, where=str(live.ref))
        return None

    def _settle(self, resource: Resource, live: LiveObject, entry: InventoryEntry) -> None:
        """Give the destination its Apply entry, if an interrupted move has not done so."""
        owned = entry.ownership is Ownership.OWNED and (
            live.annotations.get(OWNED_BY) == self.destination.id
        )
        lacks_witness = owned and not has_witness(live, self.destination)
        if not is_applied(live, self.destination.manager) or lacks_witness:
            with suppress(ApplypruneError):
                request = mark_request(resource, live, self.destination, owned=owned)
                self.context.cluster.patch(request)

    def _done(self, step: MoveStep, problem: Problem | None) -> ObjectDone:
        outcome = (
            Outcome.REMOVED_FROM_INVENTORY
            if step.action is Move.REMOVE_FROM_INVENTORY
            else Outcome.MOVED
        )
        if problem is not None:
            outcome = Outcome.FAILED
        reason = step.reason or f"to the set {self.destination.name}"
        return ObjectDone(
            step.entry.ref, outcome, reason="" if problem else reason, problem=problem
        )

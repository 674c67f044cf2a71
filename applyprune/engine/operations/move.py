"""Moving objects from one set to another without deleting or re-creating any (safety rule 12).

Both sets are held from the first write to the last. The set that gets an object lists it before its
label changes; the set that loses it, until after.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.engine.context import RunContext, RunSummary, WorkerPool
from applyprune.engine.inventory_lock import WRITE_MARGIN, InventoryLock, inventory_lock
from applyprune.engine.preflight import namespace_exists, no_such_set, refuse_owned, refuse_unlisted
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.field_transfer import transfer
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
from applyprune.model.events import Event, ObjectDone, Outcome, Phase, Started
from applyprune.model.options import DryRun, Mode, Options
from applyprune.planning.inventory.move import Move, MoveStep, move_step
from applyprune.planning.inventory.selection import chosen
from applyprune.planning.ownership.managed_fields import mark_patch, own_apply_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, Store
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory, InventoryEntry
    from applyprune.model.live import LiveObject, State
    from applyprune.model.problem import Problem
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity

_TRIES = 8
_MOVED = "inventory move"
_LISTED = frozenset({Move.HAND_OVER, Move.DONE})


def _marked_as_leaving(
    inventory: Inventory, steps: Sequence[MoveStep]
) -> Mapping[Ref, InventoryEntry]:
    """Return what the source is to list while objects leave it: no prune of its own takes them."""
    leaving = {step.entry.ref for step in steps if step.action is Move.HAND_OVER}
    return {
        ref: replace(entry, orphan_reason=entry.orphan_reason or _MOVED, orphaning=True)
        if ref in leaving
        else entry
        for ref, entry in inventory.entries.items()
    }


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sets, and where its inventory is kept."""

    target: ApplySetIdentity
    store: Store


def move(
    source: Side, target: Side, options: Options, cluster: Cluster, cancellation: Cancellation
) -> Iterator[Event]:
    """Hand the objects that ``options.select`` names (all when it is empty) to the target set.

    Failures of single objects are events; UsageError, InventoryError, AccessError,
    InventoryLocked and Interrupted are raised.
    """
    if source.target == target.target:
        raise UsageError("a set cannot be moved into itself")
    summary = RunSummary()
    with (
        inventory_lock(
            source.store, options, cancellation, run=summary.run, mode=Mode.MOVE
        ) as leaving,
        inventory_lock(
            target.store, options, cancellation, run=summary.run, mode=Mode.MOVE
        ) as joining,
        WorkerPool(options.concurrency, cancellation) as workers,
    ):
        context = RunContext(
            cluster, source.target, options, cancellation, workers, leaving, summary
        )
        yield from _Move(context, target.target, joining).events()


@dataclass(slots=True)
class _Move:
    """The context's set and lock are those of the source."""

    context: RunContext
    target: ApplySetIdentity
    joining: InventoryLock

    def events(self) -> Iterator[Event]:
        """Read both inventories, hold both, list, hand over, and take off the old list."""
        context, summary = self.context, self.context.summary
        source, dry = context.applyset, context.options.dry_run
        yield Started(summary.run, Mode.MOVE, source.name, source.namespace, dry)
        for lock in self._in_order():
            yield from lock.wait()
        leaving, joining = context.lock.inventory, self.joining.inventory
        self._refuse(leaving, joining)
        steps = self._steps(leaving)
        if dry is not DryRun.OFF:
            yield from summary.counted(self._done(step, step.problem) for step in steps)
            yield summary.finished()
            return
        joined = dict(joining.entries)
        joined |= {step.entry.ref: step.entry for step in steps if step.action in _LISTED}
        for lock in self._in_order():
            entries = joined if lock is self.joining else _marked_as_leaving(leaving, steps)
            yield lock.take(replace(lock.inventory, entries=entries))
        moved: set[Ref] = set()
        try:
            for step, problem in context.workers.each(self._move, steps):
                if problem is None:
                    moved.add(step.entry.ref)
                yield from summary.counted((self._done(step, problem),))
        except ApplypruneError as error:
            if not isinstance(error, InventoryLocked):
                self._end(joined, leaving, moved, error.exit_code)
            raise
        exit_code = context.cancellation.exit_code or summary.exit_code
        yield from self._end(joined, leaving, moved, exit_code)
        context.cancellation.check()
        yield summary.finished()

    def _end(
        self,
        joined: Mapping[Ref, InventoryEntry],
        leaving: Inventory,
        moved: Collection[Ref],
        exit_code: int,
    ) -> Sequence[Event]:
        """Record the end, the new set first: an object that did not move may stay in both."""
        first = self.joining.release(joined, exit_code=exit_code)
        left = {ref: entry for ref, entry in leaving.entries.items() if ref not in moved}
        if left or self.context.options.select:
            return first, self.context.lock.release(left, exit_code=exit_code)
        self.context.lock.record(left, Phase.UNION)
        return first, self.context.lock.remove()

    def _in_order(self) -> Sequence[InventoryLock]:
        """Return the two locks in the one order in which all moves take their sets."""
        source, target = self.context.applyset, self.target
        if (source.namespace, source.name) < (target.namespace, target.name):
            return self.context.lock, self.joining
        return self.joining, self.context.lock

    def _refuse(self, leaving: Inventory, joining: Inventory) -> None:
        for inventory in (leaving, joining):
            refuse_owned(inventory, "", self.context.options)
            if inventory.copied:
                raise RunFailed(
                    f"the inventory of the set {inventory.name} is a copy, or was restored",
                    hint="First: applyprune inventory repair "
                    f"{inventory.name} -n {inventory.namespace} --dry-run",
                )
        if not leaving.exists:
            raise no_such_set(self.context.applyset)
        if not (joining.exists or namespace_exists(self.context.cluster, self.target)):
            raise UsageError(
                f"the namespace {joining.namespace} does not exist",
                reason=f"it is to hold the inventory of the set {joining.name}",
                hint="Create it first, or name another one with --to-namespace.",
            )
        # What has been moved already is listed by the other set.
        known = {**leaving.entries, **joining.entries}
        refuse_unlisted(self.context.options.select, known, self.context.applyset)

    def _steps(self, leaving: Inventory) -> Sequence[MoveStep]:
        """Read the objects that are to move, and decide about each."""
        select = self.context.options.select
        entries = {entry.ref: entry for entry in chosen(select, leaving.entries.values())}
        resource_map = self.context.cluster.resource_map()
        snapshot = self._reader.read(
            (), replace(leaving, entries=entries), resource_map, prunes=False
        )
        return [
            self._step(entry, snapshot.resources.get(ref.group_kind), snapshot.states[ref])
            for ref, entry in sorted(entries.items())
        ]

    def _step(self, entry: InventoryEntry, resource: Resource | None, state: State) -> MoveStep:
        return move_step(entry, resource, state, self.context.applyset, self.target)

    @property
    def _reader(self) -> SnapshotReader:
        return SnapshotReader(self.context.cluster, self.context.workers, self.context.applyset)

    def _move(self, step: MoveStep) -> tuple[MoveStep, Problem | None]:
        for _ in range(_TRIES):
            if step.live is None or step.resource is None:
                return step, step.problem
            if step.action is Move.DONE:
                self._settle(step.resource, step.live)
            if step.action is not Move.HAND_OVER:
                return step, step.problem
            try:
                # A move that was stopped for a while may have lost either set meanwhile.
                for lock in (self.context.lock, self.joining):
                    lock.ensure(WRITE_MARGIN)
                cluster, old = self.context.cluster, self.context.applyset.manager
                transfer(cluster, step.resource, step.live, old=old, applyset=self.target)
            except InventoryLocked:
                raise
            except NotFound:
                return replace(step, action=Move.REMOVE_FROM_INVENTORY, reason="it is gone"), None
            except (Conflict, Unavailable, Unreachable):
                # It has moved since it was read, or only the reply is lost: look again.
                state = self._reader.read_object(step.resource, step.entry.ref)
                step = self._step(step.entry, step.resource, state)
            except ApplypruneError as error:
                return step, as_problem(error, where=str(step.entry.ref))
            else:
                return step, None
        return step, as_problem(RunFailed(f"{step.entry.ref} changes faster than it can be moved"))

    def _settle(self, resource: Resource, live: LiveObject) -> None:
        """Give the new set its Apply entry, where the move was cut off before it had one."""
        if own_apply_entry(live, self.target.manager) is None:
            with suppress(ApplypruneError):
                patch = mark_patch(live, resource.gvk.api_version, self.target)
                self.context.cluster.patch(resource, live.ref, patch)

    def _done(self, step: MoveStep, problem: Problem | None) -> ObjectDone:
        outcome = (
            Outcome.REMOVED_FROM_INVENTORY
            if step.action is Move.REMOVE_FROM_INVENTORY
            else Outcome.MOVED
        )
        if problem is not None:
            outcome = Outcome.FAILED
        reason = step.reason or f"to the set {self.target.name}"
        return ObjectDone(
            step.entry.ref, outcome, reason="" if problem else reason, problem=problem
        )

"""The verbs about an inventory: check and repair it, move objects, release the set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.engine.checks import namespace_exists
from applyprune.engine.context import RunContext, RunRequest, RunSummary, run_context
from applyprune.engine.lock import WRITE_MARGIN, InventoryLock
from applyprune.engine.plan_stage import with_exact_names
from applyprune.engine.reader import KindProofs, SnapshotReader, all_labelled_objects
from applyprune.engine.send import proved_reply, send
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    InventoryError,
    InventoryLocked,
    NotFound,
    RunFailed,
    Unavailable,
    Unreachable,
    UsageError,
)
from applyprune.model.events import Event, MismatchFound, ObjectDone, Phase, Started, WarningRaised
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    Inventory,
    InventoryEntry,
    Mismatch,
    MismatchType,
    Ownership,
    Repair,
)
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import DryRun
from applyprune.model.problem import Problem
from applyprune.planning.applyset import OWNED_BY, PART_OF, ApplySetIdentity
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.names import entries_named
from applyprune.planning.ownership import has_witness, is_marked
from applyprune.planning.recovery import (
    MOVED,
    ObjectStep,
    find_mismatches,
    move_step,
    moved_problem,
    own_step,
    owned_entry,
    owned_text,
    repaired,
    unsearched_problem,
)
from applyprune.planning.refusals import no_such_set, refuse_copied, refuse_owned, refuse_unlisted
from applyprune.planning.removals import stays_as_owned
from applyprune.planning.replies import refuse_false_absence
from applyprune.planning.requests import mark_request, transfer_request
from applyprune.planning.world import World
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation, Cluster, DamagedStore, Store


_TRIES = 8


def repair(
    request: RunRequest,
    cluster: Cluster,
    store: DamagedStore,
    cancellation: Cancellation,
    ownership: Ownership,
) -> Iterator[Event]:
    """Yield every mismatch and repair it; in a dry run, repair nothing.

    ``ownership`` is how an unlisted object of the set is recorded. Raises AccessError,
    InventoryLocked and Interrupted; InventoryError if the ConfigMap is not an inventory.
    """
    with run_context(request, cluster, store, cancellation) as context:
        yield from _Repair(context, store, ownership).events()


class _Repair(Struct):
    context: RunContext
    store: DamagedStore
    ownership: Ownership
    damage: Sequence[str] = ()
    unseen: Sequence[str] = ()
    unrelated: Sequence[str] = ()

    def events(self) -> Iterator[Event]:
        """Read, compare, report, write, restore the labels, write again."""
        context = self.context
        is_dry = context.options.dry_run is not DryRun.OFF
        yield context.started()
        if not is_dry:
            yield from context.lock.wait(self._salvage)
        inventory = self._salvage() if is_dry else context.lock.inventory
        mismatches = self._mismatches(inventory)
        yield from (WarningRaised(unsearched_problem(line)) for line in self.unrelated)
        yield from map(MismatchFound, mismatches)
        repairs = [mismatch for mismatch in mismatches if mismatch.repair is not Repair.NONE]
        if repairs and not is_dry:
            yield from self._repair(inventory, repairs)
        yield context.summary.finished()

    def _salvage(self) -> Inventory:
        """Read the readable part of the inventory, and remember the damage."""
        inventory, self.damage = self.store.salvage()
        return inventory

    def _mismatches(self, inventory: Inventory) -> Sequence[Mismatch]:
        cluster, workers = self.context.cluster, self.context.workers
        applyset = self.context.applyset
        groups = {ref.group for ref in inventory.entries}
        proofs = KindProofs(cluster, workers, cluster.resource_map(), cluster.patience)
        is_whole = inventory.exists and not (self.damage or inventory.root.faults)
        marked, resource_map = all_labelled_objects(
            proofs, applyset, groups=groups if is_whole else None
        )
        reader = SnapshotReader(cluster, workers, applyset, self.store)
        # Nothing leaves the inventory because it is missing, so a list is enough.
        world = reader.read(World(applyset, inventory, resource_map=resource_map), proves=False)
        self.context.cancellation.check()
        if not (inventory.exists or marked.objects):
            raise no_such_set(applyset)
        unseen = marked.unseen_in(groups) if is_whole else marked.unseen
        self.unrelated = [line for line in marked.unseen if line not in unseen]
        kinds = {**resource_map.preferred, **world.resources}
        world = replace(world, marked=marked.objects, unseen=unseen, resources=kinds)
        self.unseen = marked.unseen
        strays = self.store.strays()
        return find_mismatches(world, self.damage, strays, ownership=self.ownership)

    def _repair(self, inventory: Inventory, mismatches: Sequence[Mismatch]) -> Iterator[Event]:
        is_rebuilt = self.damage or MismatchType.LOST in {one.type for one in mismatches}
        if is_rebuilt and self.unseen and not self.context.options.allow_partial:
            raise InventoryError(
                f"the inventory of the set {self.context.applyset.name} was not rebuilt",
                reason=f"not everything could be listed: {'; '.join(self.unseen[:3])}",
                hint="Objects that could not be listed would be lost from the inventory. Retry "
                "with more permissions, or accept that with --allow-partial.",
            )
        entries = repaired(inventory, mismatches)
        yield self.context.lock.take(replace(inventory, entries=entries, copied=False))
        for mismatch, problem in self.context.workers.each(self._mark, mismatches):
            yield from self._done(mismatch, problem)
        exit_code = self.context.cancellation.exit_code or self.context.summary.exit_code
        changes = self.context.summary.changes
        yield self.context.lock.release(entries, exit_code=exit_code, changes=changes)
        self.context.cancellation.check()

    def _mark(self, mismatch: Mismatch) -> tuple[Mismatch, Problem | None]:
        if mismatch.live is None or mismatch.resource is None or mismatch.ref is None:
            return mismatch, None
        self.context.lock.ensure(WRITE_MARGIN)
        try:
            live, applyset = mismatch.live, self.context.applyset
            # The server makes the patch's manager the owner of what it changes: the label, and the
            # annotation. A second patch must return them.
            for _ in range(2):
                request = mark_request(mismatch.resource, live, applyset, owned=mismatch.owned)
                cluster = self.context.cluster
                live = proved_reply(cluster, request, live, cluster.patch(request))
                if is_marked(live, applyset) and has_witness(live, applyset) >= mismatch.owned:
                    return mismatch, None
        except ApplypruneError as error:
            return mismatch, error.problem_at(str(mismatch.ref))
        taken_off = RunFailed(
            f"{mismatch.ref} does not keep the set's label and field manager",
            reason="it was stored without them: a webhook or policy may have removed them",
        )
        return mismatch, taken_off.problem

    def _done(self, mismatch: Mismatch, problem: Problem | None) -> Iterator[Event]:
        if mismatch.ref is None:
            return  # about the inventory itself, which is rewritten as a whole
        outcome = Outcome.FAILED if problem else Outcome.REPAIRED
        done = ObjectDone(mismatch.ref, outcome, reason=mismatch.repair.text, problem=problem)
        yield from self.context.summary.counted((done,))


class _Objects(Struct):
    """The listed objects of a set, each of which gets one patch."""

    context: RunContext
    locks: Sequence[InventoryLock]
    decide: Callable[[InventoryEntry, World], ObjectStep]
    verb: str
    world: World
    """The inventory and what the server serves; then all that is listed, too."""

    @property
    def reader(self) -> SnapshotReader:
        context = self.context
        return SnapshotReader(context.cluster, context.workers, context.applyset, context.store)

    def steps(self) -> Sequence[ObjectStep]:
        """Decide about each object that the options select."""
        inventory = self.world.inventory
        named = entries_named(self.context.options.select, inventory.entries.values())
        entries = {entry.ref: entry for entry in named}
        listed = replace(inventory, entries=entries)
        self.world = self.reader.read(replace(self.world, inventory=listed))
        return [self.decide(entry, self.world) for _, entry in sorted(entries.items())]

    def patched(
        self,
        step: ObjectStep,
        patch: Callable[[ObjectStep, Resource, LiveObject], ObjectStep | None],
    ) -> ObjectStep:
        """Patch one object; ``patch`` returns None if that must be decided and sent again."""
        ref = step.entry.ref
        for _ in range(_TRIES):
            if not step.is_due or step.live is None or step.resource is None:
                return step
            try:
                # While this process was suspended, another run may have taken a lock.
                for lock in self.locks:
                    lock.ensure(WRITE_MARGIN)
                if (done := patch(step, step.resource, step.live)) is not None:
                    return done
            except InventoryLocked:
                raise
            except (Conflict, NotFound, Unavailable, Unreachable):
                pass  # it has changed since it was read, or only the reply is lost
            except ApplypruneError as error:
                return replace(step, problem=error.problem_at(str(ref)))
            step = self.decide(step.entry, self.reader.read_again(self.world, step.resource, ref))
        too_fast = RunFailed(f"{ref} changes faster than it can be {self.verb}")
        return replace(step, problem=too_fast.problem)


def _done(step: ObjectStep, otherwise: str) -> ObjectDone:
    """Return the result of a step; ``otherwise`` is the reason if it has none of its own."""
    if step.problem is not None:
        return ObjectDone(step.entry.ref, Outcome.FAILED, problem=step.problem)
    return ObjectDone(step.entry.ref, step.outcome, reason=step.reason or otherwise)


def own(
    request: RunRequest,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    agree: Callable[[Mapping[Ref, str]], None],
) -> Iterator[Event]:
    """Make the objects that the options select owned.

    ``agree`` gets the objects before the first write, each with what will keep it from deletion all
    the same, and raises what ends the run. Failures of
    single objects are events; UsageError, InventoryError, AccessError, InventoryLocked and
    Interrupted are raised.
    """
    with run_context(request, cluster, store, cancellation) as context:
        yield from _Own(context, agree).events()


class _Own(Struct):
    context: RunContext
    agree: Callable[[Mapping[Ref, str]], None]

    def events(self) -> Iterator[Event]:
        """Read and decide, ask, lock, annotate, record."""
        context, lock, summary = self.context, self.context.lock, self.context.summary
        yield context.started()
        yield from lock.wait()
        inventory, applyset = lock.inventory, context.applyset
        resource_map = context.cluster.resource_map()
        context = self.context = yield from with_exact_names(context, resource_map, [inventory])
        if not inventory.exists:
            raise no_such_set(applyset)
        refuse_owned(inventory, "", context.options)
        refuse_copied(inventory)
        refuse_unlisted(context.options.select, inventory.entries, applyset)
        world = World(applyset, inventory, resource_map=resource_map)
        objects = _Objects(context, [lock], own_step, "annotated", world)
        steps = objects.steps()
        context.cancellation.check()
        due = [step for step in steps if step.is_due]
        yield from summary.counted(self._done(step) for step in steps if not step.is_due)
        if context.options.dry_run is not DryRun.OFF or not due:
            yield from summary.counted(map(self._done, due))
            yield summary.finished()
            return
        with summary.paused():
            self.agree({step.entry.ref: self._stays(step) for step in due})
        # The entries change only after the annotation is on the object.
        entries = dict(inventory.entries)
        yield lock.take(inventory)
        try:
            for step in context.workers.each(partial(objects.patched, patch=self._patch), due):
                entries[step.entry.ref] = step.entry
                yield from summary.counted((self._done(step),))
        except ApplypruneError as error:
            if not isinstance(error, InventoryLocked):
                lock.release(entries, exit_code=error.exit_code, changes=summary.changes)
            raise
        exit_code = context.cancellation.exit_code or summary.exit_code
        yield lock.release(entries, exit_code=exit_code, changes=summary.changes)
        context.cancellation.check()
        yield summary.finished()

    def _patch(self, step: ObjectStep, resource: Resource, live: LiveObject) -> ObjectStep | None:
        """Write the annotation; return the step with an entry that says owned only then."""
        applyset, after = self.context.applyset, live
        if not has_witness(live, applyset):
            request = mark_request(resource, live, applyset, owned=True)
            after = send(self.context.cluster, request, live)
        if has_witness(after, applyset):  # guard: witness-before-record always
            return replace(step, entry=owned_entry(step.entry, live, after, applyset))
        return None

    def _stays(self, step: ObjectStep) -> str:
        """Return what keeps an object from deletion once it is owned; empty if nothing does."""
        if step.live is None:
            return ""
        return stays_as_owned(step.entry.orphan_reason, step.live, self.context.applyset)

    def _done(self, step: ObjectStep) -> ObjectDone:
        return _done(step, owned_text(self._stays(step)))


# Move objects from one set to another without deleting or re-creating any (safety rule 12).
#
# Both inventories are locked from the first write to the last. The destination lists an object
# before its label changes; the source lists it until after that.


def move(
    request: RunRequest,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    destination: Side,
    *,
    if_exists: bool = False,
) -> Iterator[Event]:
    """Move the objects that the options select (all if they select none) to the destination.

    The set of the request is the source. With ``if_exists``, nothing is done if that does not
    exist.

    Failures of single objects are events; UsageError, InventoryError, AccessError,
    InventoryLocked and Interrupted are raised.
    """
    if request.applyset == destination.applyset:
        raise UsageError("a set cannot be moved into itself")
    options, run = request.options, cluster.run
    with (
        InventoryLock(destination.store, options, cancellation, run=run) as lock,
        run_context(request, cluster, store, cancellation) as of_source,
    ):
        context = replace(of_source, cluster=of_source.cluster.under_lease(lock))
        yield from _Move(context, destination.applyset, lock, if_exists).events()


class Side(Struct, frozen=True):
    """The set to which objects are moved, and the store of its inventory."""

    applyset: ApplySetIdentity
    store: Store


class _Move(Struct):
    """One move; the context's set and lock are those of the source."""

    context: RunContext
    destination: ApplySetIdentity
    destination_lock: InventoryLock
    if_exists: bool

    def events(self) -> Iterator[Event]:
        """Lock both inventories, list the objects, transfer them, and unlist them in the source."""
        context, summary = self.context, self.context.summary
        yield context.started()
        for lock in self._in_order():
            yield from lock.wait()
        old, new = context.lock.inventory, self.destination_lock.inventory
        if self.if_exists and not old.exists:
            yield summary.finished()
            return
        resource_map = context.cluster.resource_map()
        self.context = context = yield from with_exact_names(context, resource_map, [old, new])
        self._refuse(old, new)
        objects = _Objects(
            context,
            [context.lock, self.destination_lock],
            partial(move_step, destination=self.destination),
            "moved",
            World(context.applyset, old, resource_map=resource_map),
        )
        steps = objects.steps()
        if context.options.dry_run is not DryRun.OFF:
            yield from summary.counted(map(self._done, steps))
            yield from self._warnings(steps)
            yield summary.finished()
            return
        kept = {step.entry.ref: step.entry for step in steps if step.outcome is Outcome.MOVED}
        entries = {**new.entries, **kept}
        for lock in self._in_order():
            listed = entries if lock is self.destination_lock else _with_moved_marked(old, steps)
            yield lock.take(replace(lock.inventory, entries=listed))
        moved: set[Ref] = set()
        try:
            for step in context.workers.each(partial(self._move, objects), steps):
                if step.problem is None:
                    moved.add(step.entry.ref)
                yield from summary.counted((self._done(step),))
        except ApplypruneError as error:
            if not isinstance(error, InventoryLocked):
                self._end(entries, old, moved, error.exit_code)
            raise
        exit_code = context.cancellation.exit_code or summary.exit_code
        yield from self._end(entries, old, moved, exit_code)
        yield from self._warnings([step for step in steps if step.entry.ref in moved])
        context.cancellation.check()
        yield summary.finished()

    def _warnings(self, steps: Sequence[ObjectStep]) -> Iterator[Event]:
        """Warn of the next apply of the destination: nobody knows whether its input has these."""
        if (problem := moved_problem(steps, self.context.applyset, self.destination)) is not None:
            yield WarningRaised(problem)

    def _end(
        self,
        entries: Mapping[Ref, InventoryEntry],
        old: Inventory,
        moved: Collection[Ref],
        exit_code: int,
    ) -> Sequence[Event]:
        """Record the end, the destination first; an object that did not move may stay in both."""
        lock, changes = self.context.lock, self.context.summary.changes
        first = self.destination_lock.release(entries, exit_code=exit_code, changes=changes)
        left = {ref: entry for ref, entry in old.entries.items() if ref not in moved}
        if left or self.context.options.select:
            return first, lock.release(left, exit_code=exit_code, changes=changes)
        lock.record(left, Phase.BEFORE_APPLY)
        return first, *lock.remove()

    def _in_order(self) -> Sequence[InventoryLock]:
        """Return the locks in the one order in which all moves take them."""
        source, destination = self.context.applyset, self.destination
        if (source.namespace, source.name) < (destination.namespace, destination.name):
            return self.context.lock, self.destination_lock
        return self.destination_lock, self.context.lock

    def _refuse(self, old: Inventory, new: Inventory) -> None:
        for inventory in (old, new):
            refuse_owned(inventory, "", self.context.options)
            refuse_copied(inventory)
        if not old.exists:
            raise no_such_set(self.context.applyset)
        if not (new.exists or namespace_exists(self.context.cluster, self.destination)):
            raise UsageError(
                f"the namespace {new.namespace} does not exist",
                reason=f"the inventory of the set {new.name} belongs there",
                hint="Create it first, or name another one: NAME.NAMESPACE.",
            )
        # The destination lists what has been moved already.
        known = {**old.entries, **new.entries}
        refuse_unlisted(self.context.options.select, known, self.context.applyset)

    def _move(self, objects: _Objects, step: ObjectStep) -> ObjectStep:
        def transfer(step: ObjectStep, resource: Resource, live: LiveObject) -> ObjectStep | None:
            owned = has_witness(live, self.context.applyset)
            request = transfer_request(
                resource,
                live,
                old=self.context.applyset.manager,
                applyset=self.destination,
                owned=owned,
            )
            try:
                after = send(self.context.cluster, request, live)
            except NotFound as error:
                state = objects.reader.read_object(resource, live.ref)
                refuse_false_absence(live.uid, state, error)
                raise
            # If it has changed between the two patches, it lacks what the second one sets.
            is_theirs = after.labels.get(PART_OF) == self.destination.id
            return step if is_theirs and has_witness(after, self.destination) >= owned else None

        step = objects.patched(step, transfer)
        if step.outcome is Outcome.MOVED and not step.is_due:
            self._settle(step)
        return step

    def _settle(self, step: ObjectStep) -> None:
        """Give the destination its Apply entry, if an interrupted move has not done so."""
        live, resource = step.live, step.resource
        if live is None or resource is None:
            return
        owned = step.entry.ownership is Ownership.OWNED and (
            live.annotations.get(OWNED_BY) == self.destination.id
        )
        lacks_witness = owned and not has_witness(live, self.destination)
        if not is_applied(live, self.destination.manager) or lacks_witness:
            with suppress(ApplypruneError):
                request = mark_request(resource, live, self.destination, owned=owned)
                self.context.cluster.patch(request)  # the next apply does the same

    def _done(self, step: ObjectStep) -> ObjectDone:
        return _done(step, f"to the set {self.destination.name}")


def _with_moved_marked(
    inventory: Inventory, steps: Sequence[ObjectStep]
) -> Mapping[Ref, InventoryEntry]:
    """Return the source's entries during the move, marked so that its prune deletes none."""
    entries = dict(inventory.entries)
    for ref in (step.entry.ref for step in steps if step.is_due):
        reason = entries[ref].orphan_reason or MOVED
        entries[ref] = replace(entries[ref], orphan_reason=reason, orphaning=True)
    return entries


def release(
    request: RunRequest,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    is_active: Callable[[str], bool],
) -> Iterator[Event]:
    """Record that no Bundle owns a set; ``is_active`` says whether the controller runs its owner.

    Raises UsageError if it does, because the Bundle would take the set over again at once. Also
    raises InventoryError, AccessError, InventoryLocked and Interrupted.
    """
    applyset, options, summary = request.applyset, request.options, RunSummary(cluster.run)
    yield Started(summary.run, options.mode, applyset.name, applyset.namespace, options.dry_run)
    with InventoryLock(store, options, cancellation, run=summary.run) as lock:
        yield from lock.wait()
        if not lock.inventory.exists:
            raise no_such_set(applyset)
        ref = applyset.inventory
        if not (owner := lock.inventory.owner):
            done = ObjectDone(ref, Outcome.UNCHANGED, reason="it belongs to no Bundle")
        else:
            if is_active(owner):
                raise UsageError(
                    f"the set {applyset.name} was not released",
                    reason=f"{owner} is active, and would take it over again",
                    hint="Suspend the Bundle first: spec.suspend: true",
                )
            if options.dry_run is DryRun.OFF:
                yield lock.write_once(replace(lock.inventory, owner=""))
            done = ObjectDone(ref, Outcome.UPDATED, reason=f"released from {owner}")
    yield from summary.counted((done,))
    yield summary.finished()

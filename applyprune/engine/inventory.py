"""The verbs about an inventory: check and repair it, make objects owned, release the set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

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
from applyprune.model.events import Event, MismatchFound, ObjectDone, Started, WarningRaised
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    Inventory,
    Mismatch,
    MismatchType,
    Ownership,
    Repair,
)
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import DryRun
from applyprune.model.problem import Problem
from applyprune.planning.names import entries_named
from applyprune.planning.ownership import has_witness, is_marked
from applyprune.planning.recovery import (
    OwnStep,
    find_mismatches,
    own_step,
    owned_entry,
    owned_text,
    repaired,
    unsearched_problem,
)
from applyprune.planning.refusals import no_such_set, refuse_copied, refuse_owned, refuse_unlisted
from applyprune.planning.removals import stays_as_owned
from applyprune.planning.requests import mark_request
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
        context = self.context = yield from with_exact_names(context, resource_map, inventory)
        if not inventory.exists:
            raise no_such_set(applyset)
        refuse_owned(inventory, "", context.options)
        refuse_copied(inventory)
        refuse_unlisted(context.options.select, inventory.entries, applyset)
        named = entries_named(context.options.select, inventory.entries.values())
        selected = replace(inventory, entries={entry.ref: entry for entry in named})
        world = self._reader.read(World(applyset, selected, resource_map=resource_map))
        steps = [own_step(entry, world) for _, entry in sorted(selected.entries.items())]
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
            for step in context.workers.each(partial(self._annotated, world), due):
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

    @property
    def _reader(self) -> SnapshotReader:
        context = self.context
        return SnapshotReader(context.cluster, context.workers, context.applyset, context.store)

    def _annotated(self, world: World, step: OwnStep) -> OwnStep:
        """Annotate one object; it is decided about again if it has changed."""
        ref = step.entry.ref
        for _ in range(_TRIES):
            if not step.is_due or step.live is None or step.resource is None:
                return step
            try:
                # While this process was suspended, another run may have taken the lock.
                self.context.lock.ensure(WRITE_MARGIN)
                if (done := self._patch(step, step.resource, step.live)) is not None:
                    return done
            except InventoryLocked:
                raise
            except (Conflict, NotFound, Unavailable, Unreachable):
                pass  # it has changed since it was read, or only the reply is lost
            except ApplypruneError as error:
                return replace(step, problem=error.problem_at(str(ref)))
            step = own_step(step.entry, self._reader.read_again(world, step.resource, ref))
        too_fast = RunFailed(f"{ref} changes faster than it can be annotated")
        return replace(step, problem=too_fast.problem)

    def _patch(self, step: OwnStep, resource: Resource, live: LiveObject) -> OwnStep | None:
        """Write the annotation; return the step with an entry that says owned only then."""
        applyset, after = self.context.applyset, live
        if not has_witness(live, applyset):
            request = mark_request(resource, live, applyset, owned=True)
            after = send(self.context.cluster, request, live)
        if has_witness(after, applyset):  # guard: witness-before-record always
            return replace(step, entry=owned_entry(step.entry, live, after, applyset))
        return None

    def _stays(self, step: OwnStep) -> str:
        """Return what keeps an object from deletion once it is owned; empty if nothing does."""
        if step.live is None:
            return ""
        return stays_as_owned(step.entry.orphan_reason, step.live, self.context.applyset)

    def _done(self, step: OwnStep) -> ObjectDone:
        if step.problem is not None:
            return ObjectDone(step.entry.ref, Outcome.FAILED, problem=step.problem)
        reason = step.reason or owned_text(self._stays(step))
        return ObjectDone(step.entry.ref, step.outcome, reason=reason)


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

"""Make objects of a set owned: write the annotation of ownership, then record it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.engine.context import RunContext, run_context
from applyprune.engine.inventory_lock import WRITE_MARGIN
from applyprune.engine.plan_stage import with_exact_names
from applyprune.engine.preflight import no_such_set, refuse_copied, refuse_owned, refuse_unlisted
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
    as_problem,
)
from applyprune.model.events import Event, ObjectDone, Outcome
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.options import DryRun, Mode, Options
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.leave import kept_as_owned
from applyprune.planning.names import chosen
from applyprune.planning.ownership import has_witness
from applyprune.planning.recovery import GONE, OwnStep, as_owned, own_step, owned_entry
from applyprune.planning.requests import mark_request
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, Store
    from applyprune.model.identity import Ref
    from applyprune.model.live import Resource

_TRIES = 8


def own(
    applyset: ApplySetIdentity,
    options: Options,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    *,
    agree: Callable[[Mapping[Ref, str]], None],
) -> Iterator[Event]:
    """Make the objects that ``options.select`` names owned; all if it is empty.

    ``agree`` gets the objects before the first write, each with what will keep it from deletion all
    the same, and raises what ends the run. Failures of
    single objects are events; UsageError, InventoryError, AccessError, InventoryLocked and
    Interrupted are raised.
    """
    with run_context(cluster, store, applyset, options, cancellation, mode=Mode.OWN) as context:
        yield from _Own(context, agree).events()


@dataclass(slots=True)
class _Own:
    context: RunContext
    agree: Callable[[Mapping[Ref, str]], None]

    def events(self) -> Iterator[Event]:
        """Read and decide, ask, lock, annotate, record."""
        context, lock, summary = self.context, self.context.lock, self.context.summary
        yield context.started(Mode.OWN)
        yield from lock.wait()
        inventory = lock.inventory
        resource_map = context.cluster.resource_map()
        context = self.context = yield from with_exact_names(context, resource_map, [inventory])
        self._refuse(inventory)
        steps = self._steps(inventory)
        due = [step for step in steps if step.is_due]
        yield from summary.counted(self._done(step) for step in steps if not step.is_due)
        if context.options.dry_run is not DryRun.OFF or not due:
            yield from summary.counted(map(self._done, due))
            yield summary.finished()
            return
        with summary.paused():
            self.agree({step.entry.ref: self._kept(step) for step in due})
        # The entries change only after the annotation is on the object.
        entries = dict(inventory.entries)
        yield lock.take(inventory)
        try:
            for step, entry in context.workers.each(self._own, due):
                entries[entry.ref] = entry
                yield from summary.counted((self._done(step),))
        except ApplypruneError as error:
            if not isinstance(error, InventoryLocked):
                lock.release(entries, exit_code=error.exit_code, changes=summary.changes)
            raise
        exit_code = context.cancellation.exit_code or summary.exit_code
        yield lock.release(entries, exit_code=exit_code, changes=summary.changes)
        context.cancellation.check()
        yield summary.finished()

    def _refuse(self, inventory: Inventory) -> None:
        context = self.context
        if not inventory.exists:
            raise no_such_set(context.applyset)
        refuse_owned(inventory, "", context.options)
        refuse_copied(inventory)
        refuse_unlisted(context.options.select, inventory.entries, context.applyset)

    def _steps(self, inventory: Inventory) -> Sequence[OwnStep]:
        """Read the objects, and decide about each."""
        context = self.context
        entries = {
            entry.ref: entry for entry in chosen(context.options.select, inventory.entries.values())
        }
        snapshot = self._reader.read(
            (),
            replace(inventory, entries=entries),
            context.cluster.resource_map(),
            prunes=False,
            searches=False,
        )
        context.cancellation.check()
        return [
            own_step(
                entry,
                snapshot.resources.get(ref.group_kind),
                snapshot.states[ref],
                context.applyset,
                snapshot.others,
            )
            for ref, entry in sorted(entries.items())
        ]

    @property
    def _reader(self) -> SnapshotReader:
        context = self.context
        return SnapshotReader(context.cluster, context.workers, context.applyset, context.store)

    def _own(self, step: OwnStep) -> tuple[OwnStep, InventoryEntry]:
        """Write the annotation; return the step and its entry, which says owned only then."""
        applyset, cluster = self.context.applyset, self.context.cluster
        for _ in range(_TRIES):
            if step.live is None or step.resource is None or not step.is_due:
                return step, step.entry
            try:
                # While this process was suspended, another run may have taken the lock.
                self.context.lock.ensure(WRITE_MARGIN)
                after = step.live
                if not has_witness(after, applyset):
                    request = mark_request(step.resource, after, applyset, owned=True)
                    after = send(cluster, request)
            except InventoryLocked:
                raise
            except (Conflict, NotFound, Unavailable, Unreachable):
                pass  # it has changed since it was read, or only the reply is lost
            except ApplypruneError as error:
                where = str(step.entry.ref)
                return replace(step, problem=as_problem(error, where=where)), step.entry
            else:
                if has_witness(after, applyset):  # guard: witness-before-record
                    return step, owned_entry(step.entry, step.live, after, applyset)
            step = self._again(step, step.resource)
        too_fast = RunFailed(f"{step.entry.ref} changes faster than it can be annotated")
        return replace(step, problem=as_problem(too_fast)), step.entry

    def _again(self, step: OwnStep, resource: Resource) -> OwnStep:
        """Read an object that has changed, and decide again."""
        state = self._reader.read_object(resource, step.entry.ref)
        others = self._reader.other_sets([state])
        return own_step(step.entry, resource, state, self.context.applyset, others)

    def _kept(self, step: OwnStep) -> str:
        """Return what keeps an object from deletion once it is owned; empty if nothing does."""
        if step.live is None:
            return ""
        return kept_as_owned(step.entry.orphan_reason, step.live, self.context.applyset)

    def _done(self, step: OwnStep) -> ObjectDone:
        outcome = Outcome.CONFIGURED
        if step.problem is not None:
            outcome = Outcome.FAILED
        elif step.left:
            outcome = Outcome.SKIPPED if step.left == GONE else Outcome.UNCHANGED
        reason = "" if step.problem else step.left or as_owned(self._kept(step))
        return ObjectDone(step.entry.ref, outcome, reason=reason, problem=step.problem)

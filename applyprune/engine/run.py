"""The whole run, once: the command line and the controller both call it and read its events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from applyprune.engine.context import RunContext, run_context
from applyprune.engine.preflight import (
    ensure_namespace,
    no_such_set,
    refuse_empty,
    refuse_owned,
    refuse_unlisted,
    refuse_without_inventory,
)
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.apply import Applier
from applyprune.engine.steps.dry_run import ServerDryRun
from applyprune.engine.steps.prune import Pruner
from applyprune.engine.steps.recreate import Recreator
from applyprune.engine.steps.wait import ReadinessRules
from applyprune.errors import (
    ApplypruneError,
    InventoryLocked,
    as_problem,
)
from applyprune.model.events import (
    Event,
    ObjectDone,
    Outcome,
    Phase,
    Planned,
    PruneBlocked,
    Started,
    WarningRaised,
)
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.options import DryRun, Mode, Options
from applyprune.model.plan import Action, Plan
from applyprune.planning.desired import resolve
from applyprune.planning.inventory.selection import partial_problem
from applyprune.planning.plan import make_plan
from applyprune.planning.snapshot import (
    ClusterSnapshot,
    recovered_problem,
    restored_problem,
    unlisted_problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, Store
    from applyprune.model.identity import Ref
    from applyprune.model.manifest import Manifest
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What one run is asked to do; ``namespace`` is where manifests without one go.

    ``who`` runs it, as others are told; default: the user and the host. ``owner`` is the Bundle
    that asks (``Bundle NAMESPACE/NAME``), and ``takes_over`` says whether it may take over a set
    that is there and belongs to none. ``empty`` are the parts of the input that hold no object, as
    the user has named them.
    """

    applyset: ApplySetIdentity
    manifests: Sequence[Manifest]
    namespace: str
    options: Options
    who: str = ""
    owner: str = ""
    takes_over: bool = False
    empty_inputs: Sequence[str] = ()


def run(
    request: RunRequest, cluster: Cluster, store: Store, cancellation: Cancellation
) -> Iterator[Event]:
    """Make the cluster match the request; yield what happens, as it happens.

    Failures of single objects are events, and Finished says what they amount to. What concerns the
    run as a whole is raised: InputError, AccessError, InventoryError, InventoryLocked, Interrupted.
    """
    options = request.options
    with run_context(
        cluster, store, request.applyset, options, cancellation, mode=options.mode, who=request.who
    ) as context:
        yield from _Run(request, context).events()


@dataclass(slots=True)
class _Run:
    request: RunRequest
    context: RunContext
    unknown: Sequence[tuple[Ref, Problem]] = ()
    inventory: Inventory = field(default_factory=lambda: Inventory("", ""))
    plan: Plan = field(default_factory=lambda: Plan((), ()))
    snapshot: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot({}))
    readiness_rules: ReadinessRules = field(init=False)
    dry_run: ServerDryRun = field(init=False)

    def events(self) -> Iterator[Event]:
        """Go through the run; the straight line that everything else serves."""
        applyset, options = self.context.applyset, self.context.options
        summary = self.context.summary
        yield Started(summary.run, options.mode, applyset.name, applyset.namespace, options.dry_run)
        while True:
            yield from self._read_and_plan()
            try:
                yield from self._write_union()
                break
            except InventoryLocked:
                # Somebody was first: wait for their end, and plan again on what they left.
                if summary.elapsed > options.lock_timeout:
                    raise
        entries = self._union()
        try:
            applier = self._applier()
            failed = (
                ObjectDone(ref, Outcome.FAILED, problem=problem) for ref, problem in self.unknown
            )
            yield from summary.counted(failed)
            yield from summary.counted(applier.run(self.plan.applies))
            self._update_entries(entries, applier)
            yield from self._await_ready(entries, applier)
            yield from self._prune(entries, applier)
        except InventoryLocked:
            raise
        except ApplypruneError as error:
            # What was done is recorded however the run ends.
            self._update_entries(entries, applier)
            yield from self._write_end(entries, error.exit_code)
            raise
        yield from self._write_end(entries, summary.exit_code)
        yield summary.finished()

    def _read_and_plan(self) -> Iterator[Event]:
        request, context = self.request, self.context
        cluster, applyset, options = context.cluster, context.applyset, context.options
        yield from context.lock.wait()
        self.inventory = context.lock.inventory
        # guard: set-owner
        refuse_owned(self.inventory, request.owner, options, takes_over=request.takes_over)
        refuse_empty(self.inventory, options, request.manifests)
        refuse_unlisted(options.select, self.inventory.entries, applyset)
        resource_map = cluster.resource_map()
        resolved = resolve(
            request.manifests,
            resource_map,
            applyset,
            namespace=request.namespace,
            options=options,
            elsewhere=self.inventory.entries.keys() if options.apply.selector else (),
        )
        self.unknown = resolved.unknown
        yield from (WarningRaised(warning) for warning in resolved.warnings)
        if options.apply.selector:
            picked = [
                *(desired.ref for desired in resolved.desired),
                *(ref for ref, _ in self.unknown),
            ]
            yield WarningRaised(
                partial_problem(options.apply.selector, picked, self.inventory.entries)
            )
        if not self.inventory.exists and options.mode is Mode.APPLY:
            ensure_namespace(cluster, applyset, options)
        self.snapshot = SnapshotReader(cluster, context.workers, applyset).read(
            resolved.desired,
            self.inventory,
            resource_map,
            prunes=options.prune.enabled
            and not options.apply.selector
            and options.mode is not Mode.ORPHAN,
        )
        context.cancellation.check()
        if not self.inventory.exists:
            refuse_without_inventory(self.snapshot, applyset, options.mode)
        if not self.inventory.exists and options.mode is Mode.DELETE:
            # To delete twice is no failure; a mistyped name is to be seen all the same.
            yield WarningRaised(as_problem(no_such_set(applyset)))
        self.plan = make_plan(
            resolved.desired,
            self.inventory,
            self.snapshot,
            applyset,
            options,
            empty_inputs=request.empty_inputs,
        )
        silent = {ref for ref, _ in self.unknown}
        removals = tuple(step for step in self.plan.removals if step.entry.ref not in silent)
        self.plan = replace(self.plan, removals=removals)
        self.inventory = replace(self.inventory, copied=self.plan.restored)
        if (stray := unlisted_problem(resolved.desired, self.inventory, self.snapshot)) is not None:
            yield WarningRaised(stray)
        if self.plan.restored:
            yield WarningRaised(restored_problem(self.inventory))
        if self.plan.recovered:
            yield WarningRaised(
                recovered_problem(self.plan.recovered, self.snapshot, self.inventory)
            )
        # A rule that is none ends the run here, before anything is written.
        applied = [step.desired for step in self.plan.applies]
        self.readiness_rules = ReadinessRules(cluster, applied, options)
        self.dry_run = ServerDryRun(context, self.inventory.entries)
        self.dry_run.set_plan(self.plan.applies)
        yield Planned(self.plan)

    def _write_union(self) -> Iterator[Event]:
        if self.context.options.dry_run is DryRun.OFF and self._has_work():
            owned = replace(self.inventory, entries=self._union(), owner=self.request.owner)
            yield self.context.lock.take(owned)

    def _has_work(self) -> bool:
        removes_set = self._removes_set() and not self.plan.no_prune
        changes_hands = self.inventory.owner != self.request.owner
        return self.plan.writes or (
            self.inventory.exists and (removes_set or (changes_hands and self._applies()))
        )

    def _applies(self) -> bool:
        return self.context.options.mode is Mode.APPLY

    def _removes_set(self) -> bool:
        options = self.context.options
        return options.mode is Mode.DELETE or (options.mode is Mode.ORPHAN and not options.select)

    def _union(self) -> dict[Ref, InventoryEntry]:
        """Return what was recorded and what is to be sent; nothing of what is refused."""
        sent = {
            step.desired.ref: step.entry
            for step in self.plan.applies
            if step.action is not Action.REFUSE
        }
        recovered = {entry.ref: entry for entry in self.plan.recovered}
        return {
            **self.inventory.entries,
            **recovered,
            **sent,  # guard: write-ahead
        }

    def _await_ready(self, entries: dict[Ref, InventoryEntry], applier: Applier) -> Iterator[Event]:
        """Wait for everything, if that is asked for; what is not ready keeps the prune back."""
        lock, summary = self.context.lock, self.context.summary
        if self.context.options.wait.enabled and not summary.problems:
            if lock.taken:
                # The wait may be long: what has been confirmed is recorded before it.
                yield lock.record(entries, Phase.APPLIED)
            yield from applier.await_ready(step.desired for step in self.plan.applies)
        summary.problems += applier.unready.values()

    def _update_entries(self, entries: dict[Ref, InventoryEntry], applier: Applier) -> None:
        """Enter what was confirmed; what was passed over and nobody had listed is not ours."""
        entries.update({**self.context.lock.recorded_entries, **applier.confirmed})
        for ref in applier.skipped - self.inventory.entries.keys():
            entries.pop(ref, None)

    def _applier(self) -> Applier:
        return Applier(
            self.context,
            schemas=dict(self.snapshot.schemas),
            recreator=Recreator(self.context),
            readiness_rules=self.readiness_rules,
            dry_run=self.dry_run,
        )

    def _prune(self, entries: dict[Ref, InventoryEntry], applier: Applier) -> Iterator[Event]:
        options, lock, summary = self.context.options, self.context.lock, self.context.summary
        absent = "not selected" if options.apply.selector else "not in the input"
        for entry in self.plan.recovered:
            reason = f"back in the inventory; it is {absent}"
            yield from summary.counted((ObjectDone(entry.ref, Outcome.NOT_PRUNED, reason=reason),))
        steps = self.plan.removals
        if not steps:
            return
        failed = "not everything is ready" if applier.unready else "not everything was applied"
        refused = self.plan.no_prune or (failed if summary.problems else "")
        if refused:
            yield from self._report_not_pruned(refused)
            return
        if lock.taken:
            for step in steps:
                if step.live is None:
                    continue
                # From here on the record says which very object is meant to go, or to be orphaned.
                entry = replace(step.entry, uid=step.entry.uid or step.live.uid)
                if step.action is Action.DELETE:
                    entries[entry.ref] = replace(entry, deleting=True)
                elif step.action is Action.ORPHAN:
                    # What the user asked to orphan stays so, wherever this run is cut off.
                    asked = options.mode is Mode.ORPHAN
                    reason = entry.orphan_reason or ("inventory orphan" if asked else "")
                    entries[entry.ref] = replace(entry, orphaning=True, orphan_reason=reason)
            yield lock.record(entries, Phase.INTENT)
        pruner = Pruner(
            self.context,
            snapshot=self.snapshot,
            applied=frozenset(entry.uid for entry in applier.confirmed.values()),
            dry_run=self.dry_run,
        )
        try:
            yield from summary.counted(pruner.run(steps))
        finally:
            for ref in pruner.gone:  # guard: delete-confirmed
                entries.pop(ref, None)

    def _report_not_pruned(self, reason: str) -> Iterator[Event]:
        """Say of everything that has left the set that it stays, and why."""
        for step in self.plan.removals:
            if step.action is Action.REFUSE and step.problem is not None:
                done = ObjectDone(step.entry.ref, Outcome.FAILED, problem=step.problem)
            else:
                # Where the object would only be orphaned there is no delete to mention.
                reason = f"not deleted: {reason}" if step.action is Action.DELETE else reason
                done = ObjectDone(step.entry.ref, Outcome.NOT_PRUNED, reason=reason)
            yield from self.context.summary.counted((done,))
        if self.plan.refusal is not None and self.context.options.prune.enabled:
            self.context.summary.refusal = self.plan.refusal
            yield PruneBlocked(self.plan.refusal)

    def _write_end(self, entries: dict[Ref, InventoryEntry], exit_code: int) -> Iterator[Event]:
        lock = self.context.lock
        if not lock.taken:
            return
        if not entries and self._removes_set():
            yield lock.remove()
        else:
            yield lock.release(entries, exit_code=exit_code)

"""The run: the command line and the controller both call it and read its events.

A plan file bounds what it may do; for kinds that are served late it runs twice.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.engine.apply import Applier
from applyprune.engine.checks import consequences_of
from applyprune.engine.context import RunContext, RunRequest, RunSummary, run_context
from applyprune.engine.dry_run import ServerDryRun
from applyprune.engine.plan_stage import (
    NOT_APPLIED,
    PlanStage,
    check_plan,
    preview,
    read_and_plan,
)
from applyprune.engine.ports import Cancellation
from applyprune.engine.prune import Pruner
from applyprune.engine.send import Recreator, apply_problem, create_first
from applyprune.errors import (
    ApplypruneError,
    Forbidden,
    Interrupted,
    InventoryLocked,
    NotFound,
)
from applyprune.model.events import (
    Event,
    ObjectDone,
    Phase,
    Planned,
    PruneBlocked,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import ApprovedDeletions, InventoryEntry
from applyprune.model.live import NAMESPACES, LiveObject, namespace_ref
from applyprune.model.options import Approval, DryRun, Mode, WaitMode
from applyprune.model.plan import Plan
from applyprune.planning.approval import (
    SYSTEM,
    PlanFile,
    is_blocked,
    misfits,
    missing_approval,
    refuse_expired,
    refuse_other_cluster,
    refuse_other_inventory,
    refuse_other_options,
    refuse_other_set,
    without_unapproved,
)
from applyprune.planning.approved_deletions import record_of
from applyprune.planning.decide import entry_of_untouched
from applyprune.planning.desired import (
    UnknownObject,
)
from applyprune.planning.own_namespace import only_waits, step_before_inventory
from applyprune.planning.plan import (
    apply_forecast,
    back_in_the_inventory,
    not_pruned,
    with_offers,
)
from applyprune.planning.prune_waits import takes_time, unless_unready
from applyprune.planning.uids import uid_in
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster, Store


def run(
    request: RunRequest, cluster: Cluster, store: Store, cancellation: Cancellation
) -> Iterator[Event]:
    """Make the cluster match the request; yield each event as it happens.

    A failure of a single object is an event, and Finished has the exit code for all of them. A
    failure of the whole run is raised: InputError, AccessError, InventoryError, InventoryLocked,
    Interrupted.
    """
    summary = RunSummary(
        cluster.run,
        dry=request.options.dry_run is not DryRun.OFF,
        mode=request.options.mode,
        clock=cancellation.clock,  # guard: summary-clock
    )
    with run_context(request, cluster, store, cancellation, summary) as context:
        yield from _Run(request, context).events()


class _Run:
    stage: PlanStage
    plan: Plan
    dry_run: ServerDryRun

    def __init__(self, request: RunRequest, context: RunContext) -> None:
        self.request = request
        self.context = context
        self.unknown: Sequence[UnknownObject] = ()
        # The Namespace that was created before the inventory, as the set's own; usually none.
        self.made: Mapping[Ref, LiveObject] = {}
        # Whether the inventory is deleted with its Namespace, so that nothing more is written.
        self.inventory_goes = False
        # A failure for each object for which the plan does more than its file shows.
        self.misfits: Sequence[ObjectDone] = ()
        # Whether everything was applied; ready or not.
        self.all_applied = False

    def events(self) -> Iterator[Event]:
        """Run all phases, in order."""
        yield self.context.started()
        if (yield from self._plan_and_record()):
            yield from self._apply_and_prune()

    def _plan_and_record(self) -> Generator[Event, None, bool]:
        """Plan, check, and write the inventory; return whether the plan is to be applied."""
        options, summary = self.context.options, self.context.summary
        while True:
            stage = yield from self._read_and_plan()
            self._check(stage)
            # What a dry run was refused for may be the work of another run since the reads.
            if (self.misfits or self.plan.faults) and self._was_overtaken():
                continue
            if self.misfits:  # guard: plan-fits never
                yield from self._not_applied()
                return False
            yield from map(WarningRaised, self.plan.warnings)
            yield from self._server_warnings()
            with summary.paused():
                yield Planned(self.plan)
            if options.dry_run is not DryRun.OFF:
                summary.held = is_blocked(self.plan, options)
                yield from preview(
                    self.context,
                    self.plan,
                    self.dry_run,
                    self.stage.inventory.entries,
                    self._unreached(),
                )
                yield from self._blocked()
                yield summary.finished()
                return False
            if is_blocked(self.plan, options) or self.request.only_offers:
                yield from self._refuse()
                return False
            try:
                self._create_namespace()
                yield from self._write_union()
            except InventoryLocked:
                # Another run was first: wait for it to end, and plan again.
                if not self._may_wait():
                    raise
            else:
                return True

    def _apply_and_prune(self) -> Iterator[Event]:
        summary, entries = self.context.summary, self._union()
        try:
            applier = self._applier()
            yield from summary.counted(applier.run(self.plan.applies))
            self._update_entries(entries, applier)
            yield from self._server_warnings()
            yield from summary.counted(self._unreached())
            yield from self._await_ready(entries, applier)
            yield from self._record_ready(entries, applier)
            options, recovered = self.context.options, self.plan.recovered
            yield from summary.counted(back_in_the_inventory(one, options) for one in recovered)
            yield from self._prune(entries, applier)
            yield from self._server_warnings()
        except InventoryLocked:
            raise
        except ApplypruneError as error:
            # Record what was done, however the run ends.
            self._update_entries(entries, applier)
            yield from self._write_end(entries, error.exit_code)
            yield from self._server_warnings()
            raise self._with_rest(error) from error.__cause__
        yield from self._write_end(entries, summary.exit_code)
        yield summary.finished()

    def _unreached(self) -> Iterator[ObjectDone]:
        """Yield the failures of the objects that are not in the plan, and what they block."""
        for ref, problem in self.plan.forbidden:
            yield ObjectDone(ref, Outcome.FAILED, problem=problem)
        for one in self.unknown:
            yield ObjectDone(one.ref, Outcome.FAILED, one.origin, problem=one.problem)
        for ref, problem in self.stage.blocked.items():
            yield ObjectDone(ref, Outcome.SKIPPED, problem.origin, problem=problem)

    def _with_rest(self, error: ApplypruneError) -> ApplypruneError:
        """Return the error that ends the run; an interruption says how much is left."""
        if not isinstance(error, Interrupted):
            return error
        left = self.context.summary.left(_to_change(self.plan))
        has_file = self.request.plan_file is not None
        is_recorded = self.context.lock.inventory.approved is not None
        if has_file or is_recorded or not self.context.options.prune.approved:
            return Interrupted(error.signal_number, left=left)
        again = "Run the same command again without --approve: what is left has another digest."
        return Interrupted(error.signal_number, left=left, again=again)

    def _server_warnings(self) -> Iterator[Event]:
        return self.context.server_warnings.events(self.plan)

    def _read_and_plan(self) -> Generator[Event, None, PlanStage]:
        if self.request.plan_file is not None:
            _refuse_elsewhere(self.request.plan_file, self.context)
        stage = yield from read_and_plan(self.request, self.context)
        self.context = replace(self.context, options=stage.world.options)
        self.stage, self.plan, self.unknown = stage, stage.plan, stage.unknown
        if self.request.plan_file is not None:
            refuse_other_inventory(self.request.plan_file, stage.inventory)
        self.dry_run = ServerDryRun(self.context, brought=self.request.command.coming)
        return stage

    def _may_wait(self) -> bool:
        return self.context.summary.elapsed <= self.context.options.lock_timeout

    def _was_overtaken(self) -> bool:
        """Return whether another run, perhaps of the same plan file, has changed what was read.

        The inventory is read before the objects, so they may show a run that it does not. Wait for
        that run to end, and plan again.
        """
        return self._may_wait() and self.context.lock.has_moved()

    def _check(self, stage: PlanStage) -> None:
        """Check the plan as a whole, by the server if that was asked for; add its consequences.

        If it does more than the plan file shows, stop there.
        """
        options, file = self.context.options, self.request.plan_file
        if self._exceeds_file(stage.plan):
            return
        plan = check_plan(stage, self.context, self.dry_run, reviewed=file)
        if self._exceeds_file(plan):
            return
        if file is not None and options.dry_run is DryRun.SERVER:
            # It fits: show what the server says about it today.
            plan = check_plan(stage, self.context, self.dry_run)
            if plan.deletions not in {"", file.deletions} and self._exceeds_file(plan):
                return  # the apply would not recreate it
        states = {ref: (each.before, each.body) for ref, each in self.dry_run.comparisons.items()}
        shown = options.check or options.dry_run is not DryRun.OFF
        world = replace(stage.world, dependants=stage.dependants.found)
        missing = missing_approval(plan, options, takes_set=self._takes_set())
        plan = with_offers(plan, stage.world, missing=missing, stays=stage.stays)
        caused = consequences_of(plan, world, states, self.context, reads=shown)
        plan = replace(plan, consequences=caused)
        self.plan = without_unapproved(plan, options, takes_set=self._takes_set())

    def _not_applied(self) -> Iterator[Event]:
        """Report each object for which the plan does more than its file shows."""
        summary = self.context.summary
        summary.held = True
        yield from summary.counted(self.misfits)
        yield summary.finished()

    def _exceeds_file(self, plan: Plan) -> bool:
        """Return whether a plan does more than its file shows, if it has one."""
        file = self.request.plan_file
        unknown = {one.ref: one.problem.message for one in self.unknown}
        unknown |= {ref: problem.reason for ref, problem in self.stage.blocked.items()}
        found = misfits(file, plan, self.stage.inventory, unknown) if file is not None else ()
        self.misfits = tuple(found)
        return bool(self.misfits)

    def _refuse(self) -> Iterator[Event]:
        """Report everything that is wrong with the plan; write nothing."""
        summary = self.context.summary
        summary.held = True
        yield from summary.counted(self._unreached())
        if self._has_new_offers():
            # The next run offers it, if another one is at work.
            with suppress(ApplypruneError):
                entries = {**self.stage.inventory.entries, **self.plan.offered}
                yield self.context.lock.write_once(replace(self.stage.inventory, entries=entries))
        refused = (step for step in self.plan.applies if step.problem is not None)
        yield from summary.counted(map(apply_forecast, refused))
        yield from self._report_not_pruned(self.plan.no_prune)
        yield summary.finished()

    def _write_union(self) -> Iterator[Event]:
        # guard: leaving-inventory -> self._has_work()
        if self._has_work() and not only_waits(self.plan.removals, self.context.applyset):
            approved = self._approved()
            owned = replace(
                self.stage.inventory,
                entries=self._union(),
                owner=self.request.owner,
                approved=approved,
            )
            file = self.request.plan_file
            yield self.context.lock.take(
                owned, plan=file.checksum if file else "", source=self.request.source()
            )

    def _approved(self) -> ApprovedDeletions | None:
        """Return what is recorded of the approved deletions, before the first of them."""
        context, before = self.context, self.stage.inventory.approved
        return record_of(self.plan, context.applyset, context.options, before)

    def _create_namespace(self) -> None:
        """Create the namespace of a new inventory, if it is missing.

        If it is an object of the set, that is its own request, create-only and with all marks.
        Without it nothing is applied: raises the errors of an apply.
        """
        context = self.context
        self.made = {}
        if self.stage.makes_namespace:
            context.cluster.create_namespace(context.applyset.namespace)
        step = step_before_inventory(self.plan, self.stage.inventory, context.applyset)
        if step is None:
            return
        try:
            self.made = {step.desired.ref: create_first(context, step)}
        except ApplypruneError as error:
            error.problem = apply_problem(error, step, context)
            raise

    def _has_work(self) -> bool:
        removes_set = self.context.options.removes_set and not self.plan.no_prune
        writes = self.plan.writes or (self.stage.inventory.exists and removes_set)
        return writes or self._takes_set() or self._has_new_offers()

    def _has_new_offers(self) -> bool:
        recorded = self.stage.inventory.entries
        return any(recorded.get(ref) != entry for ref, entry in self.plan.offered.items())

    def _takes_set(self) -> bool:
        other = self.stage.inventory.owner != self.request.owner
        return self.stage.inventory.exists and other and self.context.options.mode is Mode.APPLY

    def _union(self) -> dict[Ref, InventoryEntry]:
        """Return the recorded entries and those of all steps to send; no refused ones."""
        sent = {
            step.desired.ref: replace(step.entry, changed=True)
            if step.request is not None and takes_time(step.desired)
            else step.entry
            for step in self.plan.applies
            if step.fate is not Fate.REFUSE
            # guard: unlisted-object
            and not step.is_unlisted
        }
        recovered = {entry.ref: entry for entry in self.plan.recovered}
        return {
            **self.stage.inventory.entries,
            **recovered,
            **self.plan.offered,
            **sent,  # guard: write-ahead
        }

    def _await_ready(self, entries: dict[Ref, InventoryEntry], applier: Applier) -> Iterator[Event]:
        """Wait for all objects if --wait says so, else for what must be ready before the prune."""
        lock, summary = self.context.lock, self.context.summary
        waits_for_all = self.context.options.wait.mode is WaitMode.ALL
        needed = self.plan.waits_for  # guard: ready-before-prune -> False
        self.all_applied = not summary.problems
        if (waits_for_all or needed) and self.all_applied:
            if lock.taken:
                # The wait may be long: record what is confirmed before it.
                yield lock.record(entries, Phase.APPLIED)
            yield from applier.await_all(
                [step for step in self.plan.applies if waits_for_all or step.desired.ref in needed]
            )
        summary.problems += applier.unready.values()

    def _update_entries(self, entries: dict[Ref, InventoryEntry], applier: Applier) -> None:
        """Add the confirmed entries; remove those of skipped objects that were not listed.

        What the run has certainly not changed keeps its record: it shows what has drifted.
        """
        for step in self.plan.applies:
            ref = step.desired.ref
            recorded = self.stage.inventory.entries.get(ref)
            if recorded is None or step.request is None or ref in applier.sent:
                continue
            entries[ref] = entry_of_untouched(recorded, step.entry)
        entries.update({**self.context.lock.recorded_entries, **applier.confirmed})
        for ref in applier.skipped - self.stage.inventory.entries.keys():
            # One that is served by another group now was listed before.
            if ref in entries and not entries[ref].uid:
                del entries[ref]

    def _record_ready(
        self, entries: dict[Ref, InventoryEntry], applier: Applier
    ) -> Iterator[Event]:
        """Record what was seen ready, and which Jobs have completed: after their TTL they are gone.

        A run that changes nothing else writes it once, unless another run is at work.
        """
        fresh = {
            ref: replace(entry, job=replace(entry.job, completed=True))
            for ref, uid in applier.completed.items()
            if (entry := entries.get(ref)) is not None
            and entry.job is not None
            and entry.uid == uid
            and not entry.job.completed
        }
        for ref in applier.awaited - applier.not_ready:
            if (entry := fresh.get(ref) or entries.get(ref)) is not None and entry.changed:
                fresh[ref] = replace(entry, changed=False)
        entries.update(fresh)
        applier.confirmed.update({ref: fresh[ref] for ref in fresh.keys() & applier.confirmed})
        if fresh and not self.context.lock.taken:
            # Without the record, a later wait does not know the result; this run is not wrong.
            with suppress(ApplypruneError):
                yield self.context.lock.write_once(replace(self.stage.inventory, entries=entries))

    def _applier(self) -> Applier:
        stage = self.stage
        return Applier(
            self.context,
            schemas=dict(stage.world.schemas),
            recreator=Recreator(self.context, stage.dependants, stage.inventory.entries.keys()),
            readiness_rules=stage.readiness_rules,
            dry_run=self.dry_run,
            world=stage.world,
            reviewed=self.request.plan_file is not None
            or self.context.options.approval is Approval.ALWAYS,
            by_file=self.request.plan_file is not None,
            made=self.made,
        )

    def _prune(self, entries: dict[Ref, InventoryEntry], applier: Applier) -> Iterator[Event]:
        options, lock, summary = self.context.options, self.context.lock, self.context.summary
        steps = self.plan.removals
        if not steps:
            yield from self._blocked()
            return
        refused = self.plan.no_prune or ("" if self.all_applied else NOT_APPLIED)
        if options.wait.mode is WaitMode.ALL and applier.unready:
            refused = refused or "not everything is ready"
        if refused:
            yield from self._report_not_pruned(refused)
            return
        # guard: unready-holds
        steps = tuple(unless_unready(step, applier.not_ready) for step in steps)
        before: dict[Ref, InventoryEntry] = {}
        if lock.taken:
            for step in steps:
                if step.live is None:
                    continue
                # From now on the inventory names the UID of each object to delete or orphan.
                entry = replace(step.entry, uid=step.entry.uid or step.live.uid)
                if step.fate is Fate.PRUNE:
                    if not step.is_going:
                        before[entry.ref] = entries.get(entry.ref, step.entry)
                    entries[entry.ref] = replace(entry, deleting=True, offered="")
                elif step.fate is Fate.ORPHAN:
                    # If this run is interrupted, the next one still orphans it.
                    asked = options.mode is Mode.ORPHAN
                    reason = entry.orphan_reason or ("inventory orphan" if asked else "")
                    entries[entry.ref] = replace(entry, orphaning=True, orphan_reason=reason)
            yield lock.record(entries, Phase.BEFORE_DELETE)
        pruner = Pruner(
            self.context,
            world=self.stage.world,
            applied=frozenset(
                uid_in(entry.ref.group, entry.uid) for entry in applier.confirmed.values()
            ),
            applies=self.plan.applies,
            listed=frozenset(entries),
        )
        try:
            yield from summary.counted(pruner.run(steps))
            # What was kept after all is as before: no DELETE of it can be on its way.
            entries.update({ref: before[ref] for ref in before.keys() - pruner.asked})
        finally:
            self.inventory_goes = pruner.is_own_namespace_going
            for ref in pruner.gone:  # guard: delete-confirmed -> [*entries]
                entries.pop(ref, None)

    def _report_not_pruned(self, reason: str) -> Iterator[Event]:
        """Report everything that has left the set as not pruned, with the reason."""
        steps = self.plan.removals
        yield from self.context.summary.counted(not_pruned(step, reason) for step in steps)
        yield from self._blocked()

    def _blocked(self) -> Iterator[Event]:
        """Report that a guard or a missing approval has blocked the deletions, if it has."""
        prunes = self.context.options.prune.enabled or self.plan.needs_approval
        if self.plan.refusal is not None and prunes:
            self.context.summary.refusal = self.plan.refusal
            yield PruneBlocked(self.plan.refusal)

    def _write_end(self, entries: dict[Ref, InventoryEntry], exit_code: int) -> Iterator[Event]:
        lock = self.context.lock
        if not lock.taken:
            return
        if self.inventory_goes:
            yield from lock.end(is_gone=not entries)
        elif not entries and self.context.options.removes_set:
            yield from lock.remove()
        else:
            changes = self.context.summary.changes
            yield lock.release(entries, exit_code=exit_code, changes=changes)


def _to_change(plan: Plan) -> Iterator[Ref]:
    """Yield the objects that a plan changes."""
    yield from (step.desired.ref for step in plan.applies if step.request is not None)
    for step in () if plan.no_prune else plan.removals:
        if step.fate in {Fate.PRUNE, Fate.ORPHAN}:
            yield step.entry.ref


# Hold a run to a plan file: whatever the file does not say is refused before the first write.


def _refuse_elsewhere(file: PlanFile, context: RunContext) -> None:
    """Refuse an expired file, and one of another set, of other options or for another cluster."""
    applyset = context.applyset
    refuse_other_set(file, applyset)
    refuse_expired(file, datetime.now(UTC))
    refuse_other_options(file, context.options)
    refuse_other_cluster(file, cluster_identity(context.cluster, applyset.namespace))


def cluster_identity(cluster: Cluster, namespace: str) -> Mapping[str, str]:
    """Return the UIDs of kube-system and of the inventory's namespace, if they may be read."""
    found: dict[str, str] = {}
    for name in (SYSTEM, namespace):
        with suppress(Forbidden, NotFound):
            ref = namespace_ref(name)
            found[name] = cluster.get(NAMESPACES, ref).uid
    return found

"""Send the requests of the plan, wave by wave, and take in the replies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field

from applyprune.engine.context import RunContext
from applyprune.engine.dry_run import (
    ServerDryRun,
    check_recreation,
    check_recreation_again,
    with_exclusion_removed,
)
from applyprune.engine.lock import WRITE_MARGIN
from applyprune.engine.send import Recreator, apply_problem, send_apply, transfer_fields
from applyprune.engine.waiting import (
    ReadinessRules,
    ReadinessWaiter,
    await_crds,
    await_existing,
    terminating_namespaces,
)
from applyprune.errors import (
    ApiError,
    ApplypruneError,
    Conflict,
    Invalid,
    InventoryLocked,
    NotFound,
    NotReady,
    RunFailed,
    Unreachable,
)
from applyprune.model.events import (
    Event,
    ObjectDone,
    Readiness,
    ReadinessReported,
    Status,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.kinds import CRD, HOLDERS
from applyprune.model.live import LiveObject, State, namespace_ref
from applyprune.model.options import Approval, WaitMode
from applyprune.model.plan import IN_PLACE, OUTSIDE, ApplyStep, Cause, Desired, OnConflict
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.conflicts import is_unrecorded, rewritten_problem, skip_reason
from applyprune.planning.order import SetNeeds
from applyprune.planning.plan import with_own_version
from applyprune.planning.readiness import Applied, Wait
from applyprune.planning.replies import (
    confirmed,
    created_instead,
    found_at_create,
    refused_guard,
)
from applyprune.planning.served_kinds import defined_kinds
from applyprune.planning.world import World
from applyprune.values import replace

_UNREADY = "is not ready"
_MISSING = "does not exist"
_HELD_BACK = "was not applied, because something else is not ready"
_WRITTEN = frozenset({Outcome.CREATED, Outcome.UPDATED, Outcome.RECREATED})


class Applier(Struct):
    """Applies one plan and keeps the results."""

    context: RunContext
    schemas: dict[GroupKind, int | None]
    """The generation of each custom resource's CRD; None if it could not be read."""
    recreator: Recreator
    readiness_rules: ReadinessRules
    dry_run: ServerDryRun
    world: World
    """What the plan was made from."""
    reviewed: bool
    """Whether somebody has approved this very plan."""
    by_file: bool
    """Whether the plan is that of a file: then the server has checked it at another time."""
    confirmed: dict[Ref, InventoryEntry] = field(default_factory=dict)
    """The entries of the objects whose apply the server has confirmed."""
    failed: dict[Ref, str] = field(default_factory=dict)
    """Why what depends on an object is blocked: ``was not applied``, for example."""
    sent: set[Ref] = field(default_factory=set)
    """The objects that a request may have changed; a definite refusal changes nothing."""
    skipped: set[Ref] = field(default_factory=set)
    """The objects that were skipped, for example because of a conflict: nothing was written."""
    applied: dict[Ref, Applied] = field(default_factory=dict)
    """Each object as the server has last shown it to this run."""
    replies: dict[Ref, LiveObject] = field(default_factory=dict)
    """The replies to the applies of the batch at work."""
    awaited: set[Ref] = field(default_factory=set)
    """The objects that have been waited for already."""
    recorded_complete: frozenset[Ref] = frozenset()
    """The Jobs of which the inventory says that they have completed."""
    completed: dict[Ref, str] = field(default_factory=dict)
    """The UIDs of the Jobs with a TTL that this run has seen complete."""
    unready: dict[Ref, Problem] = field(default_factory=dict)
    """The objects that did not become ready."""
    held_by: Ref | None = None
    """An object of an earlier wave that was not applied or is not ready; it blocks the rest."""
    usable: set[Ref] = field(default_factory=set)
    """The Namespaces and CRDs that failed, but exist: their contents can be applied."""
    new_kinds: set[GroupKind] = field(default_factory=set)
    """The kinds of the CRDs that this run has applied."""
    rewritten: dict[Ref, tuple[str, ...]] = field(default_factory=dict)
    """The fields that are stored with other values, where the plan has not said so."""
    written: set[Ref] = field(default_factory=set)
    """The objects that this run has created or changed."""
    made: Mapping[Ref, LiveObject] = field(default_factory=dict)
    """What the run has created before the inventory, as in the reply: it is not sent again."""
    steps: Mapping[Ref, ApplyStep] = field(default_factory=dict)
    """What this run sends."""
    connection_lost: Unreachable | None = None
    """Set once the server stopped responding."""

    @property
    def not_ready(self) -> set[Ref]:
        """Return the objects that this run has waited for, and that are not ready."""
        return {*self.unready, *(ref for ref, why in self.failed.items() if why == _UNREADY)}

    def run(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Yield an event for each step; a failed step blocks only what depends on it."""
        sent = [step for step in steps if step.request is not None]
        self.steps = {step.desired.ref: step for step in sent}
        self.recorded_complete = frozenset(
            step.desired.ref for step in steps if step.entry.job and step.entry.job.completed
        )
        depended_on = {ref for step in sent for ref in step.desired.depends_on}
        before: Wave | None = None
        for wave in sorted({step.desired.wave for step in steps}):
            ends_wave = before is not None and wave.wave > before.wave
            if ends_wave and any(step.desired.wave >= wave for step in sent):
                yield from self._end_wave(steps)
            before = wave
            batch = [step for step in steps if step.desired.wave == wave]
            changed: list[ApplyStep] = []
            absent = [step for step in batch if step.is_awaited]
            others = [step for step in batch if not step.is_awaited]
            results = self.context.workers.each(self._step, others, here=lambda s: not s.request)
            for step, done in results:
                if done.problem is not None:
                    self._block_dependents(step, done.problem)
                else:
                    if not step.desired.is_outside:
                        self._note_applied(step, done)
                    if done.outcome in _WRITTEN:
                        changed.append(step)
                        self.written.add(done.ref)
                yield done
            self.context.cancellation.check()
            yield from self._await_existing(absent)
            yield from self._wait_for_crds([s for s in changed if _is_definition(s)])
            yield from self.await_ready(
                (step.desired for step in batch if step.desired.ref in depended_on),
                patient=self.context.options.wait.mode is not WaitMode.ALL,
            )
        if (rewritten := rewritten_problem(self.rewritten)) is not None:
            yield WarningRaised(rewritten)

    def _note_applied(self, step: ApplyStep, done: ObjectDone) -> None:
        seen = self.replies.pop(done.ref, step.live)
        before = step.live if done.outcome is Outcome.RECREATED else None
        self.applied[done.ref] = Applied(
            self.context.cancellation.now(),
            uid=seen.uid if seen else "",
            generation=seen.generation if seen else None,
            resource_version=seen.resource_version if seen else "",
            replaced=before.uid if before else "",
            has_changed=self.confirmed.get(done.ref, step.entry).changed,
        )

    def _await_existing(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Wait for the objects that must exist; one that does not blocks what depends on it."""
        blocked = {step.desired.ref: self._blocked(step) for step in steps}
        asked = [step.desired for step in steps if not blocked[step.desired.ref]]
        missing = yield from await_existing(self.context, asked)
        for step in steps:
            ref, error = step.desired.ref, blocked[step.desired.ref]
            problem = missing.get(ref)
            outcome = Outcome.FAILED if problem else Outcome.UNCHANGED
            if error is not None:
                problem, outcome = error.problem_at(step.desired.origin), Outcome.SKIPPED
            if problem is not None:
                self.failed[ref] = _MISSING if error is None else _HELD_BACK
            yield self._done(step, outcome, reason="" if problem else OUTSIDE, problem=problem)
        found = [step for step in steps if step.desired.ref not in self.failed]
        yield from self._wait_for_crds([step for step in found if _is_definition(step)])

    def _end_wave(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Wait until everything so far is ready, changed or not; if not, hold back the rest."""
        if not self.failed:
            yield from self.await_ready(step.desired for step in steps)
        self.held_by = min(self.unready or self.failed, default=None)  # guard: wave-order -> None

    def await_ready(
        self,
        candidates: Iterable[Desired],
        *,
        patient: bool = False,
        ready: Collection[Ref] = (),
    ) -> Iterator[Event]:
        """Wait for those of ``candidates`` that were applied and not waited for yet.

        An object that does not become ready blocks what depends on it. With ``patient``, continue
        to wait for the others. What was ``ready`` before must still be there.
        """
        left = self.applied.keys() - self.skipped - (self.awaited - set(ready))
        waiting = self.readiness_rules.of(
            (desired for desired in candidates if desired.ref in left),
            self.applied,
            self.recorded_complete | self.completed.keys(),
            ready,
        )
        waiter = ReadinessWaiter(self.context, patient)
        yield from waiter.run(waiting)
        self.awaited.update(awaited.desired.ref for awaited in waiting)
        self.unready.update(waiter.problems)
        self.completed.update(waiter.completed)
        self.failed.update(dict.fromkeys(waiter.not_ready, _UNREADY))

    def await_all(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Wait until everything is ready; what the waits before have seen must still be there."""
        ready = self.awaited - self.unready.keys()
        if self.context.options.wait.mode is WaitMode.ALL:
            last = max((step.desired.wave.wave for step in steps), default=0)
            earlier = (step.desired for step in steps if step.desired.wave.wave < last)
            # What is ready as soon as it is stored.
            ready |= {
                desired.ref
                for desired in earlier
                if not self.readiness_rules.is_awaited(desired) and desired.wait != Wait.SKIP
            }
        yield from self.await_ready((step.desired for step in steps), ready=ready)
        if self.context.options.wait.mode is WaitMode.ALL and self.awaited and not self.unready:
            yield from self._refuse_terminating(step.desired.ref.namespace for step in steps)

    def _refuse_terminating(self, namespaces: Iterable[str]) -> Iterator[Event]:
        """Report each namespace that is being deleted: nothing in it is ready for long."""
        context = self.context
        terminating = terminating_namespaces(namespaces, context.cluster, context.workers)
        for name in sorted(terminating):  # guard: leaving-namespace -> sorted(())
            ref, reason = namespace_ref(name), "it is being deleted, with everything in it"
            error = NotReady(
                f"{ref} will not become ready", reason=reason, hint="Run again when it is gone."
            )
            self.unready[ref] = error.problem_at(str(ref))
            state = Readiness(Status.TERMINATING, reason)
            yield ReadinessReported(ref, state, 0.0, self.unready[ref])

    def _step(self, step: ApplyStep) -> tuple[ApplyStep, ObjectDone]:
        if step.problem is not None:
            return step, self._done(step, Outcome.FAILED, problem=step.problem)
        if step.request is None:
            outcome = Outcome.SKIPPED if step.is_skipped else Outcome.UNCHANGED
            if step.is_skipped and not (step.keeps_drift and step.live is not None):
                self.skipped.add(step.desired.ref)
            return step, self._done(step, outcome, reason=step.reason)
        if (blocked := self._blocked(step)) is not None:
            problem = blocked.problem_at(step.desired.origin)
            return step, self._done(step, Outcome.SKIPPED, problem=problem)
        try:
            # While this process was suspended, another run may have taken the lock.
            self.context.lock.ensure(WRITE_MARGIN)
            return step, self._send(step)
        except InventoryLocked:
            raise
        except ApplypruneError as error:
            if isinstance(error, Unreachable):
                self.connection_lost = error
            if isinstance(error, ApiError) and error.is_refusal and not step.request.before:
                self.sent.discard(step.desired.ref)
            if reason := skip_reason(step.desired, error):
                return step, self._done(step, Outcome.SKIPPED, reason=reason)
            return step, self._done(
                step,
                Outcome.FAILED,
                problem=apply_problem(error, step, self.context),
            )

    def _send(self, step: ApplyStep) -> ObjectDone:
        stopped = self._stopped_by_dry_run(step)
        if stopped is not None:  # guard: dry-run-before-skip never
            return self._step(stopped)[1]
        try:
            self.sent.add(step.desired.ref)
            # Of the apply that follows, the reply does not show it.
            done = Outcome.UPDATED if step.writes_first else Outcome.UNCHANGED
            is_coming = partial(self._is_coming, step.desired)
            step = transfer_fields(self.context, step, is_coming)
            live, created = self._apply(step)
        except (Conflict, Invalid) as error:
            if isinstance(error, Conflict) and error.causes and step.live is not None:
                raise  # a conflict with another field manager: nothing has changed
            more = with_own_version(step, error, self.context.applyset, self.context.options)
            if more is not None:  # guard: entries-of-other-versions never
                return self._send(more)
            return self._after_refused_guard(step, error)
        except NotFound:
            read = partial(self.context.cluster.read, step.desired.resource, step.desired.ref)
            if (new := self._create_instead(step, read)) is None:
                raise
            return new
        return self._confirm(step, live, Outcome.CREATED if created else done)

    def _stopped_by_dry_run(self, step: ApplyStep) -> ApplyStep | None:
        """Return the step as a dry run has it, if that means that nothing may be sent.

        So it is on a conflict, if the manifest says to skip the object then. And fields are removed
        only before an apply that the server accepts, and what nobody is known to have written is
        changed by force only.
        """
        may_skip = step.desired.conflicts is OnConflict.SKIP and step.live is not None
        removes = step.request is not None and step.request.removes
        unrecorded = is_unrecorded(step)
        if step.is_checked or not (may_skip or removes or unrecorded):
            return None
        checked = self.dry_run.check_apply(step)
        # guard: dry-run-before-removal -> False
        is_refused = (removes or unrecorded) and checked.problem is not None
        return checked if checked.cause is Cause.CONFLICT_SKIPPED or is_refused else None

    def _apply(self, step: ApplyStep) -> tuple[LiveObject, bool]:
        """Send the request of a step; wait a moment for what this run itself has just written."""

        def is_settling(error: ApplypruneError) -> bool:
            written = {ref: one for ref, one in self.steps.items() if ref in self.written}
            return SetNeeds(written).awaited(step.desired, error) is not None

        if (live := self.made.get(step.desired.ref)) is not None:
            return live, True
        return send_apply(self.context, step, is_settling, partial(self._is_coming, step.desired))

    def _is_coming(self, desired: Desired) -> bool:
        """Return whether the CRD of an object brings its version, though no server may show it."""
        resource = desired.resource
        return resource.group_kind in self.new_kinds or self.context.cluster.defines(resource)

    def _after_refused_guard(self, step: ApplyStep, error: ApplypruneError) -> ObjectDone:
        """Find out why a guard failed: our own reply was lost, or the object has changed."""
        desired = step.desired
        state = self.context.cluster.read(desired.resource, desired.ref, full=True)
        live = state if isinstance(state, LiveObject) else None
        if live is not None:
            found = found_at_create(step, live, error, self.world, reviewed=self.reviewed)
            if found is not None:
                return self._adopt_found(step, found)
        elif (new := self._create_instead(step, lambda: state)) is not None:
            return new
        is_ours = refused_guard(step, live, error, self.context.applyset)
        if live is None:
            raise error
        if is_ours:
            return self._confirm(step, live, Outcome.CREATED)
        options = self.context.options
        # guard: unplanned-recreation -> step.is_checked
        was_shown = step.is_checked or options.check or options.approval is not Approval.AUTOMATIC
        recreates = step.fate is Fate.RECREATE
        # A plan file does not hold what is removed for the server to accept the object.
        if self.by_file or recreates or not was_shown:
            removing = with_exclusion_removed(self.context, step, live, error)
            if removing is not None:
                return self._send(removing[0])
        if was_shown and not recreates:
            raise error  # the plan that was shown does not recreate it
        deletion = step.deletion
        if deletion is None or deletion.precondition.resource_version != live.resource_version:
            deletion, _ = check_recreation(self.context, step, live, error)
        if not recreates:
            self.recreator.refuse_cascade(live)  # guard: late-recreation-cascade
        judge_again = partial(check_recreation_again, self.context, step, error)
        done = self._send(self.recreator.delete(step, live, deletion, judge_again))
        if done.outcome is not Outcome.CREATED:  # guard: recreated-by-others never
            return done
        return replace(done, outcome=Outcome.RECREATED, reason=IN_PLACE)

    def _adopt_found(self, step: ApplyStep, found: ApplyStep) -> ObjectDone:
        """Adopt an object that the plan was to create, if it may be adopted; record that first."""
        context, desired = self.context, step.desired
        if found.problem is not None or found.cause is Cause.LEAVE_MARK:
            self.skipped.add(desired.ref)  # it is not ours: it needs no entry
            outcome = Outcome.FAILED if found.problem is not None else Outcome.SKIPPED
            reason = found.reason if found.cause is Cause.LEAVE_MARK else ""
            return self._done(step, outcome, reason=reason, problem=found.problem)
        context.lock.record_entry(found.entry)  # guard: found-recorded
        return self._send(found)

    def _create_instead(self, step: ApplyStep, read: Callable[[], State]) -> ObjectDone | None:
        """Create an object that was to be adopted, if it is gone; record that first."""
        created = created_instead(step, read, self.world, reviewed=self.reviewed)
        if created is None:
            return None
        self.context.lock.record_entry(created.entry)
        return self._send(created)

    def _confirm(self, step: ApplyStep, live: LiveObject, known: Outcome) -> ObjectDone:
        """Accept a reply only if it is about the expected object, and that is not being deleted."""
        desired = step.desired
        if live.other_name:
            # The next prune finds it by its own name, and by the UID.
            self.confirmed[desired.ref] = replace(step.entry, uid=live.uid)
        if _is_definition(step) and not live.terminating:
            self.schemas.update(dict.fromkeys(defined_kinds(desired.body), live.generation))
        confirmation = confirmed(step, live, self.context.applyset, self.schemas, known)
        self.replies[desired.ref] = live
        self.confirmed[desired.ref] = confirmation.entry
        if confirmation.rewritten != step.rewritten:  # the plan has not named these fields
            self.rewritten[desired.ref] = confirmation.rewritten
        done = self._done(step, confirmation.outcome, reason=confirmation.reason)
        fingerprint = confirmation.entry.fingerprint
        return replace(done, rewritten=confirmation.rewritten, fingerprint=fingerprint)

    def _wait_for_crds(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Wait until the kinds of new or changed CRDs are served."""
        failed = yield from await_crds(self.context, [step.desired for step in steps])
        for step in steps:
            self.new_kinds.update(defined_kinds(step.desired.body))
            if (problem := failed.get(step.desired.ref)) is not None:
                self.failed[step.desired.ref] = f"is not served: {problem.reason}"

    def _block_dependents(self, step: ApplyStep, problem: Problem) -> None:
        ref = step.desired.ref
        if step.live is not None and ref.group_kind in HOLDERS:
            self.usable.add(ref)
        waits = problem.kind is ProblemKind.NOT_READY
        self.failed[ref] = _HELD_BACK if waits else "was not applied"

    def _blocked(self, step: ApplyStep) -> RunFailed | None:
        """Return why an object is blocked; NotReady if it waits for another object's readiness."""
        desired = step.desired
        message = f"{desired.ref} was not applied"
        if self.connection_lost is not None:
            # One request has used up all its retries; do not repeat that for each object.
            return RunFailed(
                message, reason=f"the server stopped responding: {self.connection_lost.message}"
            )
        if (held_by := self.held_by) is not None:
            reason = f"{held_by}, of an earlier wave, {self.failed[held_by]}"
            return self._blocked_by(held_by)(message, reason=reason)
        for ref in (*desired.depends_on, *sorted(desired.needs)):
            if ref in self.failed and not self._is_usable(ref, desired):
                reason = f"it depends on {ref}, which {self.failed[ref]}"
                return self._blocked_by(ref)(message, reason=reason)
        return None

    def _is_usable(self, ref: Ref, desired: Desired) -> bool:
        """Return whether an object can be applied though what it needs has failed, but exists.

        The version of a custom resource must be one that the CRD has served before.
        """
        is_there = ref.group_kind != CRD or self.dry_run.is_served(desired.resource)
        # guard: version-of-a-refused-crd -> ref in self.usable
        return ref in self.usable and is_there

    def _blocked_by(self, ref: Ref) -> type[RunFailed]:
        """Return the class of the failure of everything that an object blocks."""
        waits = {_UNREADY, _HELD_BACK, _MISSING}
        return NotReady if self.failed[ref] in waits else RunFailed

    def _done(
        self,
        step: ApplyStep,
        outcome: Outcome,
        *,
        reason: str = "",
        problem: Problem | None = None,
    ) -> ObjectDone:
        return ObjectDone(step.desired.ref, outcome, step.desired.origin, reason, problem)


def _is_definition(step: ApplyStep) -> bool:
    return step.desired.ref.group_kind == CRD

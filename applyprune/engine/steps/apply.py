"""Apply the manifests, wave by wave, each with the guard that the plan requires."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from applyprune.engine.context import RunContext
from applyprune.engine.inventory_lock import WRITE_MARGIN
from applyprune.engine.steps.dry_run import FIELDS_TRANSFERRED, ServerDryRun
from applyprune.engine.steps.failures import apply_problem, created_by_others
from applyprune.engine.steps.field_transfer import FieldReleaser, has_other_label, take_over
from applyprune.engine.steps.recreate import Recreator
from applyprune.engine.steps.wait import ReadinessRules, ReadinessWaiter
from applyprune.engine.steps.wait_crds import CrdWaiter
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    Invalid,
    InventoryLocked,
    NotFound,
    NotReady,
    NotServed,
    RunFailed,
    Unreachable,
    as_problem,
)
from applyprune.model.events import Event, ObjectDone, Outcome
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.live import LiveObject
from applyprune.model.options import DryRun
from applyprune.model.plan import ApplyStep, Desired, Fate, OnConflict
from applyprune.model.problem import Problem
from applyprune.model.resources import CRD, NAMESPACE
from applyprune.planning.applyset import WANTED
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.conflicts import forces, managers, settled_first, skips
from applyprune.planning.ownership.owner import Owner, fingerprint_of, owner_of, values_match
from applyprune.planning.schema.crd import defined_kinds

_SERVED_SOON = 10.0
_POLL = 0.1
_UNREADY = "is not ready"
_WRITTEN = frozenset({Outcome.CREATED, Outcome.CONFIGURED, Outcome.RECREATED})


@dataclass(slots=True)
class Applier:
    """Applies one plan and keeps the results."""

    context: RunContext
    schemas: dict[GroupKind, int | None]
    """The generation of each custom resource's CRD; None if it could not be read."""
    recreator: Recreator
    readiness_rules: ReadinessRules
    dry_run: ServerDryRun
    confirmed: dict[Ref, InventoryEntry] = field(default_factory=dict)
    """The entries of the objects whose apply the server has confirmed."""
    failed: dict[Ref, str] = field(default_factory=dict)
    """Why what depends on an object is blocked: ``was not applied``, for example."""
    skipped: set[Ref] = field(default_factory=set)
    """The objects that were skipped because of a conflict, before anything was written."""
    applied_at: dict[Ref, float] = field(default_factory=dict)
    """When each object was applied, on the monotonic clock."""
    awaited: set[Ref] = field(default_factory=set)
    """The objects that have been waited for already."""
    unready: dict[Ref, Problem] = field(default_factory=dict)
    """The objects that did not become ready."""
    unready_before: Ref | None = None
    """An unready object of an earlier wave; it blocks everything else."""
    new_kinds: set[GroupKind] = field(default_factory=set)
    """The kinds of the CRDs that this run has applied."""
    connection_lost: Unreachable | None = None
    """Set once the server has stopped answering."""

    def run(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Yield an event for each step; a failed step blocks only what depends on it."""
        depended_on = {ref for step in steps for ref in step.desired.depends_on}
        before: Wave | None = None
        for wave in sorted({step.desired.wave for step in steps}):
            if self.context.options.wait.enabled and before is not None and wave.wave > before.wave:
                yield from self.await_ready(step.desired for step in steps)
                self.unready_before = min(self.unready, default=None)
            before = wave
            batch = [step for step in steps if step.desired.wave == wave]
            changed: list[ApplyStep] = []
            ordered = self.context.options.diff.enabled
            for step, done in self.context.workers.each(self._step, batch, in_order=ordered):
                yield from self.dry_run.take_diff(done.ref)
                if done.problem is not None:
                    self._block_dependents(step)
                else:
                    self.applied_at[done.ref] = time.monotonic()
                    if done.outcome in _WRITTEN:
                        changed.append(step)
                yield done
            self.context.cancellation.check()
            if self.context.options.dry_run is DryRun.OFF:
                yield from self._wait_for_crds([s for s in changed if _is_definition(s)])
                yield from self.await_ready(
                    (step.desired for step in batch if step.desired.ref in depended_on),
                    patient=not self.context.options.wait.enabled,
                )

    def await_ready(
        self, candidates: Iterable[Desired], *, patient: bool = False
    ) -> Iterator[Event]:
        """Wait for those of ``candidates`` that were applied and not waited for yet.

        An object that does not become ready blocks what depends on it. With ``patient``, continue
        to wait for the others.
        """
        if self.context.options.dry_run is not DryRun.OFF:
            return
        left = self.applied_at.keys() - self.skipped - self.awaited
        waiting = self.readiness_rules.of(
            (desired for desired in candidates if desired.ref in left), self.applied_at
        )
        context, timeout = self.context, self.context.options.wait.timeout
        waiter = ReadinessWaiter(
            context.cluster, context.cancellation, context.applyset, timeout, patient
        )
        yield from waiter.run(waiting)
        self.awaited.update(desired.ref for desired in waiting)
        self.unready.update(waiter.problems)
        self.failed.update(dict.fromkeys(waiter.not_ready, _UNREADY))

    def _step(self, step: ApplyStep) -> tuple[ApplyStep, ObjectDone]:
        if step.fate is Fate.LEAVE:
            return step, self._done(step, Outcome.UNCHANGED, reason=step.reason)
        if step.problem is not None:
            return step, self._done(step, Outcome.FAILED, problem=step.problem)
        if (blocked := self._blocked(step)) is not None:
            problem = as_problem(blocked, where=step.desired.origin)
            return step, self._done(step, Outcome.SKIPPED, problem=problem)
        if self.context.options.dry_run is DryRun.CLIENT:
            outcome = Outcome.CREATED if step.fate is Fate.CREATE else Outcome.CONFIGURED
            return step, self._done(step, outcome, reason=step.reason)
        try:
            # While this process was suspended, another run may have taken the lock.
            self.context.lock.ensure(WRITE_MARGIN)
            return step, self._send(step)
        except InventoryLocked:
            raise
        except ApplypruneError as error:
            if isinstance(error, Unreachable):
                self.connection_lost = error
            if reason := skips(step.desired, error):
                return step, self._done(step, Outcome.SKIPPED, reason=reason)
            return step, self._done(
                step,
                Outcome.FAILED,
                problem=apply_problem(error, step.desired, self.context.cluster),
            )

    def _send(self, step: ApplyStep) -> ObjectDone:
        dry = self.context.options.dry_run is DryRun.SERVER
        if step.desired.conflicts is OnConflict.SKIP and step.live is not None and not dry:
            self._dry_run_first(step)  # guard: dry-run-before-skip
        taken = step.live is not None and (
            bool(step.migrate) or has_other_label(step.live, self.context.applyset)
        )
        if taken and not dry:
            step = take_over(self.context.cluster, step, self.context.applyset)
        try:
            releaser = FieldReleaser(self.context.cluster, self.context.applyset)
            step = releaser.prepare(step, forced=self._forces(step), dry_run=dry)
            if step.fence and not dry:
                step = replace(step, live=self._fenced(step))
            live, created = self._apply(step, dry_run=dry)
        except (NotFound, NotServed):
            if dry and (reason := self.dry_run.check_new_kind_or_namespace(step)):
                return self._done(step, Outcome.CREATED, reason=reason)
            raise
        except (Conflict, Invalid) as error:
            if isinstance(error, Conflict) and error.causes:
                if dry and managers(error) <= settled_first(step, self.context.applyset):
                    self.dry_run.diff_field_transfer(step, self._guarded(step))
                    return self._done(step, Outcome.CONFIGURED, reason=FIELDS_TRANSFERRED)
                raise  # a conflict with another field manager: nothing has changed
            if dry and (reason := self.dry_run.check_by_new_schema(step, error)):
                outcome = Outcome.CREATED if step.live is None else Outcome.CONFIGURED
                return self._done(step, outcome, reason=reason)
            return self._explain_refused_guard(step, error)
        return self._confirm(step, live, created=created, taken=taken)

    def _dry_run_first(self, step: ApplyStep) -> None:
        """Raise the conflict that makes the run skip an object, before anything is changed."""
        try:
            self._apply(step, dry_run=True)
        except Conflict as error:
            if error.causes and not managers(error) <= settled_first(step, self.context.applyset):
                self.skipped.add(step.desired.ref)
                raise
        except ApplypruneError:
            return  # the real apply will report the error

    def _forces(self, step: ApplyStep) -> bool:
        return forces(step.desired, step.live, self.context.options, self.context.applyset)

    def _fenced(self, step: ApplyStep) -> LiveObject:
        """Change the resourceVersion of an object that an interrupted run was about to delete.

        That delete may still be on its way. A new resourceVersion makes its precondition fail. A
        repeated apply alone would not change it.
        """
        desired = step.desired
        metadata = desired.body["metadata"]
        annotations = {**(metadata.get("annotations") or {}), WANTED: uuid.uuid4().hex}
        body = {**desired.body, "metadata": {**metadata, "annotations": annotations}}
        live, _ = self._apply(replace(step, desired=replace(desired, body=body)), dry_run=False)
        return live

    def _apply(self, step: ApplyStep, *, dry_run: bool) -> tuple[LiveObject, bool]:
        """Send one manifest; wait a moment for a kind whose CRD has just been applied."""
        desired = step.desired
        body = self._guarded(step)
        deadline = time.monotonic() + _SERVED_SOON
        while True:
            try:
                return self.context.cluster.apply(
                    desired.resource,
                    desired.ref,
                    body,
                    manager=self.context.applyset.manager,
                    force=self._forces(step),
                    dry_run=dry_run,
                )
            except NotServed:
                if desired.ref.group_kind not in self.new_kinds or time.monotonic() > deadline:
                    raise
                if self.context.cancellation.wait(_POLL):
                    raise

    def _guarded(self, step: ApplyStep) -> Mapping[str, Any]:
        """Return the body with the guard of safety rule 2.

        An apply with ``resourceVersion: "1"`` either creates the object or fails with 409. An
        apply with a UID fails with 409 if the object is missing, and with 422 if it is another
        one. A forced apply has the resourceVersion for which force was decided.
        """
        guard: dict[str, str] = {"resourceVersion": "1"}  # guard: create-only
        if step.live is not None:
            guard = {"uid": step.live.uid}  # guard: apply-uid
            if self._forces(step):
                guard["resourceVersion"] = step.live.resource_version  # guard: forced-apply-version
        body = step.desired.body if step.live is None else sent(step.desired)
        return {**body, "metadata": {**body["metadata"], **guard}}

    def _explain_refused_guard(self, step: ApplyStep, error: ApplypruneError) -> ObjectDone:
        """Find out why a guard failed: our own reply was lost, or somebody changed the object."""
        desired = step.desired
        try:
            live = self.context.cluster.get(desired.resource, desired.ref)
        except NotFound:
            if step.live is None:
                raise error from None
            raise RunFailed(
                f"{desired.ref} was deleted by somebody else during this run",
                location=desired.origin,
                hint="Run again to re-create it.",
            ) from error
        if (
            step.live is None
            and owner_of(live, step.entry, self.context.applyset) is Owner.RECORDED
        ):
            return self._confirm(step, live, created=True)
        if step.live is None or live.uid != step.live.uid:
            raise created_by_others(desired) from error
        if self._forces(step) and live.resource_version != step.live.resource_version:
            raise RunFailed(
                f"{desired.ref} changed during this run, after force was decided",
                location=desired.origin,
                hint="Run again.",
            ) from error
        self.recreator.check(step, live, error)
        if self.context.options.dry_run is DryRun.OFF:
            self._send(self.recreator.delete(step, live))
        else:
            self.dry_run.diff_recreate(step)
        return self._done(step, Outcome.RECREATED, reason="it cannot be changed in place")

    def _confirm(
        self, step: ApplyStep, live: LiveObject, *, created: bool, taken: bool = False
    ) -> ObjectDone:
        """Accept a reply only if it is about the expected object, and that is not being deleted."""
        desired = step.desired
        if step.live is not None and live.uid != step.live.uid:
            raise RunFailed(
                f"{desired.ref} was deleted and re-created by somebody else during this run",
                location=desired.origin,
                hint="Run again.",
            )
        if live.terminating:
            raise RunFailed(
                f"{desired.ref} is being deleted",
                location=desired.origin,
                reason="the apply succeeded, but the object will be removed",
                hint="Run again when it is gone.",
            )
        if self.context.options.dry_run is not DryRun.OFF:
            outcome = self.dry_run.outcome(step, live, created=created, taken=taken)
            return self._done(step, outcome, reason=step.reason)
        if _is_definition(step):
            self.schemas.update(dict.fromkeys(defined_kinds(desired.body), live.generation))
        schema = self.schemas.get(desired.ref.group_kind)
        fingerprint = fingerprint_of(live, self.context.applyset.manager, schema)
        if desired.ref.group_kind in self.schemas and schema is None:
            fingerprint = None
        self.confirmed[desired.ref] = replace(
            step.entry, uid=live.uid, digest=desired.digest, fingerprint=fingerprint, deleting=False
        )
        if created:
            return self._done(step, Outcome.CREATED, reason=step.reason)
        moved = taken or step.live is None or self._moved(step, step.live, live)
        return self._done(
            step, Outcome.CONFIGURED if moved else Outcome.UNCHANGED, reason=step.reason
        )

    def _moved(self, step: ApplyStep, before: LiveObject, after: LiveObject) -> bool:
        """Return whether our apply changed the object, rather than somebody else its status."""
        if before.resource_version == after.resource_version:
            return False
        if before.generation is None or before.generation != after.generation:
            return True
        then = fingerprint_of(before, self.context.applyset.manager, None)
        now_taken = fingerprint_of(after, self.context.applyset.manager, None)
        return (
            then is None
            or now_taken is None
            or (then.managed_fields, then.time) != (now_taken.managed_fields, now_taken.time)
            # Somebody may write as our field manager, within the same second of the entry's time.
            or not values_match(step.desired, before)
        )

    def _wait_for_crds(self, steps: Sequence[ApplyStep]) -> Iterator[Event]:
        """Wait until the kinds of new or changed CRDs are served."""
        waiter = CrdWaiter(self.context)
        yield from waiter.run([step.desired for step in steps])
        for step in steps:
            self.new_kinds.update(defined_kinds(step.desired.body))
            if (problem := waiter.failed.get(step.desired.ref)) is not None:
                self.failed[step.desired.ref] = f"is not served: {problem.reason}"

    def _block_dependents(self, step: ApplyStep) -> None:
        """Block what depends on an object that was not applied."""
        if step.live is not None and step.desired.ref.group_kind in {NAMESPACE, CRD}:
            return  # it exists, so its contents can still be applied
        self.failed[step.desired.ref] = "was not applied"

    def _blocked(self, step: ApplyStep) -> RunFailed | None:
        """Return why an object is blocked; NotReady if it waits for another object's readiness."""
        desired = step.desired
        message = f"{desired.ref} was not applied"
        if self.connection_lost is not None:
            # One request has used up all its retries; do not repeat that for each object.
            return RunFailed(
                message, reason=f"the server has stopped answering: {self.connection_lost.message}"
            )
        if self.unready_before is not None:
            return NotReady(
                message, reason=f"{self.unready_before}, of an earlier wave, is not ready"
            )
        for ref in (*desired.depends_on, *sorted(desired.needs)):
            if ref in self.failed:
                kind = NotReady if self.failed[ref] == _UNREADY else RunFailed
                return kind(message, reason=f"it depends on {ref}, which {self.failed[ref]}")
        return None

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

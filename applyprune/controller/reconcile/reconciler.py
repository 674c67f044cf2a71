"""Reconcile one Bundle: read it, run the engine, write its status."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from applyprune.clock import boot_time
from applyprune.controller.bundle import Bundle, InvalidSpec, read_bundle
from applyprune.controller.bundle_client import BundleObjects, status_of
from applyprune.controller.constants import FINALIZER, MISSING, STALLING, Key, Reason
from applyprune.controller.drift.give_way import contended_now, sooner, with_drift_reported
from applyprune.controller.pending_plan import PendingPlan, pending_plan
from applyprune.controller.reconcile.bundle_source import (
    SourceMissing,
    Uses,
    load_source,
    used_refs,
)
from applyprune.controller.reconcile.deleted_bundle import read_deleted
from applyprune.controller.reconcile.depends_on import unready_dependencies
from applyprune.controller.reconcile.finalizer import Finalizer
from applyprune.controller.reconcile.report import Reporter, log_event
from applyprune.controller.result import (
    RunResult,
    error_message,
    follow,
    observation_in,
    problem_message,
    reason_of,
    reason_of_exit,
)
from applyprune.controller.runtime.event_recorder import utc_now
from applyprune.controller.runtime.impersonation import (
    AccountMissing,
    Impersonation,
    ServiceAccountClient,
)
from applyprune.controller.runtime.watches import Watches
from applyprune.controller.runtime.workqueue import backoff, spread
from applyprune.controller.status import ConditionStatus, ReconcileResult, progressing
from applyprune.engine.cancellation import Cancellation
from applyprune.engine.plan_stage import RunRequest
from applyprune.engine.run import run
from applyprune.errors import ApplypruneError, Conflict, Interrupted, NotFound, problems_of
from applyprune.model.holder_observation import HolderObservation
from applyprune.model.live import LiveObject
from applyprune.model.options import Mode
from applyprune.planning.annotations import APPROVE

_NOT_YET = -1
_SECOND_LOOK = 10.0
"""Seconds that a retry may wait for what was not ready before."""
_UNREAD = 600.0
"""Seconds until the next look at a Bundle with an invalid spec."""
_LOOK_AGAIN = 120.0
"""Seconds, at most, between two looks for what is missing."""
_SOON = 1.0
"""Seconds, at least, before another look at an inventory that another run holds or has changed."""
_NOT_FOUND = {
    AccountMissing: Reason.SERVICE_ACCOUNT_NOT_FOUND,
    SourceMissing: Reason.SOURCE_NOT_FOUND,
}


@dataclass(slots=True)
class _Attempt:
    """One attempt to apply a Bundle, as far as it has come."""

    live: LiveObject
    """The Bundle as last stored."""
    run_result: RunResult = field(default_factory=RunResult)
    revision: str = ""


@dataclass(slots=True)
class Reconciler:
    """Reconciles Bundles; thread-safe as long as no two threads reconcile the same one."""

    bundles: BundleObjects
    impersonation: Impersonation
    watches: Watches
    reporter: Reporter
    stop: Cancellation
    _failures: dict[Key, int] = field(default_factory=dict)
    _under_way: dict[Key, tuple[Cancellation, int | None]] = field(default_factory=dict)
    _attempted: dict[Key, tuple[int | None, str]] = field(default_factory=dict)
    # Of other runs that hold the inventory. One reconcile is too short to see that one has crashed.
    _observations: dict[Key, HolderObservation] = field(default_factory=dict)

    def reconcile(self, key: Key) -> float | None:
        """Reconcile once; return the seconds until the next time, None to wait for a change.

        Raises ApplypruneError if not even the Bundle's status could be written, and Interrupted
        when the process ends.
        """
        try:
            return self._reconcile(key)
        except Interrupted:
            self.stop.check()
            return 0.0  # the Bundle changed in between: reconcile its new state
        finally:
            self._under_way.pop(key, None)

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the reconcile of an older generation of a Bundle; None ends any.

        It may be waiting for an object that never becomes ready, and the fix must not wait for it.
        """
        stop, worked_on = self._under_way.get(key, (None, None))
        if stop is not None and (generation is None or generation != worked_on):
            stop.request(0)

    def end(self) -> None:
        """Ask every running reconcile to finish its requests in flight, record them and end."""
        for stop, _ in list(self._under_way.values()):
            stop.request(0)

    def _reconcile(self, key: Key) -> float | None:
        began = time.monotonic()
        stop = Cancellation()
        # Before the read: a change between the two must end this reconcile.
        self._under_way[key] = (stop, _NOT_YET)
        live = self.bundles.get(key)
        if live is None:
            self._forget(key)
            return None
        if live.terminating:
            return self._remove(key, live, began, stop)
        try:
            bundle = read_bundle(live)
        except InvalidSpec as error:
            result = ReconcileResult(
                ConditionStatus.NOT_READY,
                Reason.INVALID_SPEC,
                problem_message(problems_of(error)[0]),
            )
            self.reporter.report(live, result, time.monotonic() - began)
            return spread(_UNREAD)
        self._work_on(key, live, stop)
        begun = self._begin(live, bundle)
        if begun is None:
            return 0.0
        attempt = _Attempt(begun, run_result=RunResult(secret=bundle.has_secret_source))
        result = self._apply(attempt, bundle, stop)
        result = with_drift_reported(result, attempt.live, bundle)
        self.watches.wait_for_kinds(key, waits=result.reason is Reason.KIND_NOT_FOUND)
        self.reporter.report(attempt.live, result, time.monotonic() - began, bundle)
        if result.reason is Reason.SUSPENDED:
            return None
        return sooner(self._next(key, bundle, result), result)

    def _work_on(self, key: Key, live: LiveObject, stop: Cancellation) -> None:
        self._under_way[key] = (stop, live.generation)
        if self.stop.requested:
            stop.request(0)

    def _remove(self, key: Key, live: LiveObject, began: float, stop: Cancellation) -> float | None:
        """Remove what a deleted Bundle has applied, and look again before its removal ends."""
        self._work_on(key, live, stop)
        deleted = read_deleted(live)
        capped = self._with_capped_timeout(live, deleted.bundle, "")
        seen = self._observations.get(key)
        removal = Finalizer(self.bundles, self.impersonation, self.reporter.recorder, stop, seen)
        result = removal.of(replace(deleted, bundle=capped))
        if result.done:
            self.reporter.removed(key, result, time.monotonic() - began)
            self._forget(key)
            return None
        self.reporter.report(live, result, time.monotonic() - began, deleted.bundle)
        delay = self._next(key, deleted.bundle, result, removes=True)
        left = deleted.seconds_left
        return min(delay, left + 1.0) if left > 0 else delay

    def failed(self, key: Key) -> float:
        """Return the seconds until the next try after a reconcile without a result."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        return spread(backoff(failures, first=1.0, longest=60.0))

    def _begin(self, live: LiveObject, bundle: Bundle) -> LiveObject | None:
        """Mark the Bundle as progressing; None when it has changed."""
        status = status_of(live)
        if bundle.spec.suspend or status.get("observedGeneration") == live.generation:
            return live
        begun = progressing(status, live.generation or 0, utc_now())
        stored = self.bundles.write_status(live, begun)
        is_same = stored is not None and stored.generation == live.generation
        return stored if is_same else None

    def _hold(
        self, live: LiveObject, bundle: Bundle, account_client: ServiceAccountClient
    ) -> LiveObject:
        """Return the Bundle with the finalizer, without which no run may write anything.

        A Bundle whose account may not even read the inventory gets none: it can be deleted at once.
        Raises Interrupted when the Bundle has changed.
        """
        if FINALIZER in live.finalizers:
            return live
        account_client.store(bundle.target).read()
        try:
            held = self.bundles.add_finalizer(live)
        except (Conflict, NotFound):
            raise Interrupted(0) from None
        if held.generation != live.generation:
            raise Interrupted(0)
        return held

    def _apply(self, attempt: _Attempt, bundle: Bundle, stop: Cancellation) -> ReconcileResult:
        spec, key = bundle.spec, (bundle.namespace, bundle.name)
        if spec.suspend:
            self.watches.wait_for(key, ())
            return ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, "spec.suspend is true")
        waiting = unready_dependencies(bundle, self.bundles)
        self.watches.wait_for(
            key, (dependency.name for dependency in spec.depends_on) if waiting else ()
        )
        if waiting:
            return ReconcileResult(
                ConditionStatus.NOT_READY,
                Reason.DEPENDENCY_NOT_READY,
                "; ".join(waiting),
                retries=True,
            )
        uses: Uses = {}
        try:
            with self.impersonation.as_account(
                bundle.namespace, spec.service_account_name, must_exist=True
            ) as account_client:
                try:
                    composed = load_source(bundle, account_client.cluster, uses)
                finally:
                    refs = used_refs(bundle)
                    self.watches.follow(key, spec.service_account_name, refs, uses)
                attempt.revision = composed.revision
                # guard: held-before-run
                attempt.live = self._hold(attempt.live, bundle, account_client)
                approved = attempt.live.annotations.get(APPROVE, "")
                capped = self._with_capped_timeout(attempt.live, bundle, attempt.revision)
                options = capped.options(
                    Mode.APPLY,
                    approved=approved,
                    source=composed.version,
                    contended=contended_now(attempt.live, bundle, attempt.revision),
                )
                request = RunRequest(
                    bundle.target,
                    composed.manifests,
                    spec.target_namespace or bundle.namespace,
                    options,
                    who=bundle.owner,
                    owner=bundle.owner,
                    takes_over=bool(spec.inventory_name),
                    observation=self._observations.get(key),
                )
                self._run(account_client, request, attempt.run_result, stop)
        except Interrupted:
            raise
        except (AccountMissing, SourceMissing) as error:
            message = problem_message(problems_of(error)[0])
            return ReconcileResult(
                ConditionStatus.NOT_READY,
                _NOT_FOUND[type(error)],
                message,
                revision=attempt.revision,
                retries=True,
            )
        except ApplypruneError as error:
            stop.check()  # an interrupted reconcile writes no status
            return self._error_result(error, attempt.run_result, attempt.revision)
        stop.check()
        approved = attempt.live.annotations.get(APPROVE, "")
        pending = pending_plan(attempt.run_result, bundle, approved)
        return self._result(attempt.run_result, attempt.revision, pending)

    def _with_capped_timeout(self, live: LiveObject, bundle: Bundle, revision: str) -> Bundle:
        """Cap `timeout` on retries: only the first attempt at a generation gets the full wait.

        Each retry checks again what was not ready; other Bundles must not wait for that.
        """
        key, now = (bundle.namespace, bundle.name), (live.generation, revision)
        if self._attempted.get(key) == now and self._failures.get(key):
            return replace(bundle, timeout=min(bundle.timeout, _SECOND_LOOK))
        self._attempted[key] = now
        return bundle

    def _run(
        self,
        account_client: ServiceAccountClient,
        request: RunRequest,
        run_result: RunResult,
        stop: Cancellation,
    ) -> None:
        events = run(request, account_client.cluster, account_client.store(request.applyset), stop)
        follow(events, run_result, lambda event: log_event(request, run_result, event))

    def _error_result(
        self, error: ApplypruneError, run_result: RunResult, revision: str
    ) -> ReconcileResult:
        """Return the result of a run that ended with an error."""
        return ReconcileResult(
            ConditionStatus.NOT_READY,
            reason_of(error),
            error_message(problems_of(error), secret=run_result.secret),
            revision=revision,
            run_result=run_result,
            retries=True,
            observation=observation_in(error),
        )

    def _result(
        self, run_result: RunResult, revision: str, pending: PendingPlan | None
    ) -> ReconcileResult:
        total = run_result.total
        objects = f"{total} object{'' if total == 1 else 's'}"
        ended = ReconcileResult(
            ConditionStatus.READY,
            reason_of_exit(run_result.exit_code),
            f"{objects} applied",
            revision=revision,
            run_result=run_result,
        )
        if run_result.exit_code == 0:
            return ended
        ended = replace(ended, ready=ConditionStatus.NOT_READY, pending=pending, retries=True)
        if ended.reason is Reason.PRUNE_REFUSED and pending is not None:
            # It waits for somebody: another try before the interval would change nothing.
            # What would be deleted, why and how is in PruneBlocked, if anything would be.
            short = pending.summary if pending.deletes else pending.message
            told = pending.message if pending.deletes else ""
            return replace(ended, reason=pending.reason, message=short, details=told, retries=False)
        failed = run_result.failed
        details = failed[0].message if failed else run_result.refusal_message
        return replace(ended, message=run_result.summary, details=details)

    def _next(
        self, key: Key, bundle: Bundle, result: ReconcileResult, *, removes: bool = False
    ) -> float:
        spec, reason, observation = bundle.spec, result.reason, result.observation
        if observation is not None:
            self._observations[key] = observation
            # Then it has renewed its lock, or has crashed. Neither is a failure of this Bundle.
            return max(_SOON, observation.over_at - boot_time())
        self._observations.pop(key, None)
        # Of a deleted Bundle, it may get complete without anybody: a kind is served again.
        may_end = removes and reason is Reason.INVENTORY_UNREADABLE
        if not result.retries or (reason in STALLING and not may_end):
            self._failures.pop(key, None)
            return spread(spec.interval)
        looks = removes or reason in MISSING
        longest = min(spec.interval, _LOOK_AGAIN) if looks else spec.interval
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        # A run that was overtaken by another one may soon see what that one has left.
        first = _SOON if reason is Reason.INVENTORY_LOCKED else spec.retry_interval
        return spread(backoff(failures, first=first, longest=longest))

    def _forget(self, key: Key) -> None:
        self._failures.pop(key, None)
        self._attempted.pop(key, None)
        self._observations.pop(key, None)
        self.watches.forget(key)
        self.reporter.forget(key)

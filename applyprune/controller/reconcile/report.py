"""Report the result of a reconcile: in the Bundle's status, Events, metrics and the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from applyprune.controller.bundle import Bundle
from applyprune.controller.bundle_client import BundleObjects, status_of
from applyprune.controller.constants import Condition, Key, Reason
from applyprune.controller.drift.drift_report import reverted_words
from applyprune.controller.result import RunResult, problem_message
from applyprune.controller.runtime.event_recorder import EventRecorder, EventType, utc_now
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.controller.runtime.metrics import Metrics
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    after,
    condition_of,
    state_of,
)
from applyprune.engine.plan_stage import RunRequest
from applyprune.model.events import Event, ObjectDone, Outcome, WarningRaised
from applyprune.model.live import LiveObject
from applyprune.planning.annotations import RECONCILE_NOW


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reports results of reconciles."""

    bundles: BundleObjects
    recorder: EventRecorder
    metrics: Metrics

    def report(
        self,
        live: LiveObject,
        result: ReconcileResult,
        seconds: float,
        bundle: Bundle | None = None,
    ) -> None:
        """Write the status if it has changed, and report the result everywhere else.

        ``bundle`` is None if its spec is invalid.
        """
        before = status_of(live)
        inventory = None
        if bundle is not None and result.run_result is not None:
            inventory = (bundle.target.inventory.name, bundle.target.id)
        status = after(
            before,
            result,
            generation=live.generation or 0,
            now=utc_now(),
            requested=live.annotations.get(RECONCILE_NOW, ""),
            inventory=inventory,
        )
        stored = self.bundles.write_status(live, status)
        key = (live.ref.namespace, live.ref.name)
        self.metrics.passed(key, result, seconds, status)
        self._log(key, result, seconds)
        self._events(stored or live, result, before, is_news=state_of(before) != state_of(status))

    def _events(
        self,
        live: LiveObject,
        result: ReconcileResult,
        before: Mapping[str, Any],
        *,
        is_news: bool,
    ) -> None:
        """Write an Event for a change of the objects, or of the Bundle's state; not for a retry."""
        run_result = result.run_result or RunResult()
        run = run_result.run
        if result.ready is ConditionStatus.READY:
            was_ready = condition_of(before, Condition.READY).get("status") == "True"
            if run_result.changed or not was_ready:
                self.recorder.event(live, EventType.NORMAL, result.reason, _summary(result), run)
        elif result.ready is ConditionStatus.NOT_READY and is_news:
            waits = result.reason is Reason.PENDING_APPROVAL
            kind = EventType.NORMAL if waits else EventType.WARNING
            self.recorder.event(live, kind, result.reason, _explained(result), run)
        if is_news or run_result.changed:
            for warning in run_result.server_warnings:
                self.recorder.event(live, EventType.WARNING, Reason.SERVER_WARNING, warning, run)

    def removed(self, key: Key, result: ReconcileResult, seconds: float) -> None:
        """Report that a Bundle is gone: it has no status any more."""
        self._log(key, result, seconds)
        self.metrics.passed(key, result, seconds, {})

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        self.metrics.forget(key)

    def _log(self, key: Key, result: ReconcileResult, seconds: float) -> None:
        run_result = result.run_result
        counts = (
            {str(outcome): count for outcome, count in run_result.outcomes.items()}
            if run_result
            else {}
        )
        failed = result.ready is ConditionStatus.NOT_READY
        waits = result.reason is Reason.PENDING_APPROVAL
        warns = (failed and not waits) or result.reason is Reason.REMOVAL_INCOMPLETE
        level = logging.WARNING if warns else logging.INFO
        if (
            result.ready is ConditionStatus.READY
            and run_result is not None
            and not run_result.changed
        ):
            level = logging.DEBUG  # nothing has changed
        LOG.log(
            level,
            "bundle reconciled",
            extra=fields(
                namespace=key[0],
                bundle=key[1],
                run=run_result.run if run_result else "",
                reason=str(result.reason),
                detail=_explained(result),
                seconds=round(seconds, 3),
                outcomes=counts or None,
            ),
        )


def _explained(result: ReconcileResult) -> str:
    return ": ".join(part for part in (result.message, result.details) if part)


def _summary(result: ReconcileResult) -> str:
    """Return the message of an Event about a successful reconcile."""
    run_result = result.run_result
    if run_result is None or not run_result.changed:
        return result.message
    return "; ".join(filter(None, (run_result.counts, reverted_words(run_result))))


def log_event(request: RunRequest, run_result: RunResult, event: Event) -> None:
    """Log what a run has done to one object, and its warnings."""
    target = f"{request.applyset.namespace}/{request.applyset.name}"
    problem = event.problem if isinstance(event, ObjectDone | WarningRaised) else None
    told = problem_message(problem, secret=run_result.secret) if problem is not None else ""
    if isinstance(event, WarningRaised):
        LOG.warning("warning of a run", extra=fields(run=run_result.run, set=target, warning=told))
    if not isinstance(event, ObjectDone) or event.outcome in {
        Outcome.UNCHANGED,
        Outcome.NOT_PRUNED,
    }:
        return
    LOG.info(
        "object processed",
        extra=fields(
            run=run_result.run,
            set=target,
            object=event.ref.short,
            object_namespace=event.ref.namespace,
            outcome=str(event.outcome),
            error=told,
        ),
    )

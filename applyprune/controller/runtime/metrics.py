"""Prometheus metrics of the controller; every label exists from the start, at zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from applyprune.controller.constants import Key, Reason
from applyprune.controller.runtime.bundle_metrics import BundleMetrics, BundleSample
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.controller.status import ReconcileResult
from applyprune.model.problem import ProblemKind

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CODES = ("2xx", "3xx", "4xx", "5xx", "none")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


@dataclass(slots=True)
class Metrics:
    """The controller's metrics, in their own registry; thread-safe."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    reconciles: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    pruned: Counter = field(init=False)
    refused: Counter = field(init=False)
    calls: Counter = field(init=False)
    leader: Gauge = field(init=False)
    _depth: Gauge = field(init=False)
    _busy: Gauge = field(init=False)
    _bundles: BundleMetrics = field(default_factory=BundleMetrics)

    def __post_init__(self) -> None:
        """Create every metric with each of its labels."""
        # Nobody needs the creation time of a counter, and it doubles the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self.registry
        self.reconciles = Counter(
            "applyprune_reconciles", "Reconciles of Bundles.", ["reason"], registry=registry
        )
        self.seconds = Histogram(
            "applyprune_reconcile_duration_seconds",
            "How long reconciles took.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.pruned = Counter(
            "applyprune_pruned_objects", "Objects that were pruned or deleted.", registry=registry
        )
        self.refused = Counter(
            "applyprune_refused_prunes", "Prunes that a guard refused.", registry=registry
        )
        self.calls = Counter(
            "applyprune_api_requests",
            "Requests to the API server; each try counts.",
            ["method", "code"],
            registry=registry,
        )
        self.leader = Gauge(
            "applyprune_leader", "Whether this replica is the leader.", registry=registry
        )
        registry.register(self._bundles)
        self._depth = Gauge(
            "applyprune_queue_depth", "Bundles that are due and waiting.", registry=registry
        )
        self._busy = Gauge(
            "applyprune_workers_busy", "Bundles that are being reconciled.", registry=registry
        )
        for reason in Reason:
            self.reconciles.labels(str(reason))
        for method in METHODS:
            for code in CODES:
                self.calls.labels(method, code)

    def watch_queue(self, queue: WorkQueue) -> None:
        """Read the queue whenever the metrics are scraped."""
        self._depth.set_function(lambda: queue.waiting)
        self._busy.set_function(lambda: queue.busy)

    def traced(self, line: str) -> None:
        """Count one try of a request, from the transport's trace line."""
        method, _, rest = line.partition(" ")
        code = rest.partition(" ")[2][:1]
        if method in METHODS:
            self.calls.labels(method, f"{code}xx" if f"{code}xx" in CODES else "none").inc()

    def passed(
        self, key: Key, result: ReconcileResult, seconds: float, status: Mapping[str, object]
    ) -> None:
        """Count one reconcile, and record the Bundle's status after it."""
        self.reconciles.labels(str(result.reason)).inc()
        self.seconds.observe(seconds)
        if (run := result.run_result) is not None:
            self.pruned.inc(run.deleted)
            if run.refusal is not None and run.refusal.kind is ProblemKind.PRUNE_REFUSED:
                self.refused.inc()
        self._bundles.record(key, _sample(result, seconds, status))

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        self._bundles.forget(key)


def _sample(result: ReconcileResult, seconds: float, status: Mapping[str, Any]) -> BundleSample:
    """Return what the metrics say about a Bundle with this status."""
    objects = status.get("objects") or {}
    failing = int(objects.get("failing") or 0)
    return BundleSample(
        conditions={one["type"]: one["status"] for one in status.get("conditions") or ()},
        suspended=result.reason is Reason.SUSPENDED,
        revision=str(status.get("lastAppliedRevision") or ""),
        applied=max(int(objects.get("total") or 0) - failing, 0),
        failing=failing,
        pending="pendingPlan" in status,
        seconds=seconds,
        reverted=_reverted(result),
    )


def _reverted(result: ReconcileResult) -> int:
    """Return how many fields a reconcile has set back that others had changed."""
    run = result.run_result
    if run is None or run.plan is None or not run.changed:
        return 0
    return sum(
        len(step.reverts)
        for step in run.plan.applies
        if not step.is_skipped and step.desired.ref not in run.failing
    )

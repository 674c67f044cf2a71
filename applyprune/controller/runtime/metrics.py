"""Prometheus metrics of the controller; every label exists from the start, at zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from applyprune.controller.constants import Key, Reason
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.controller.status import ReconcileResult
from applyprune.model.problem import ProblemKind

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CODES = ("2xx", "3xx", "4xx", "5xx", "none")
READY = ("True", "False", "Unknown")
STATES = ("applied", "failing")
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
    _bundles: Gauge = field(init=False)
    _objects: Gauge = field(init=False)
    _waiting: Gauge = field(init=False)
    _depth: Gauge = field(init=False)
    _busy: Gauge = field(init=False)
    _known: dict[Key, tuple[str, int, int, bool]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

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
        self._bundles = Gauge(
            "applyprune_bundles", "Bundles, by their Ready condition.", ["ready"], registry=registry
        )
        self._objects = Gauge(
            "applyprune_objects", "Objects of Bundles, by state.", ["state"], registry=registry
        )
        self._waiting = Gauge(
            "applyprune_pending_approvals",
            "Bundles with a plan that waits for an approval.",
            registry=registry,
        )
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
        for ready in READY:
            self._bundles.labels(ready)
        for state in STATES:
            self._objects.labels(state)

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
        self.known(key, status)

    def known(self, key: Key, status: Mapping[str, object]) -> None:
        """Record a Bundle's status."""
        conditions = status.get("conditions") or ()
        objects = status.get("objects") or {}
        found = [
            condition.get("status")
            for condition in (conditions if isinstance(conditions, list) else [])
            if condition.get("type") == "Ready"
        ]
        ready = found[0] if found and found[0] in READY else "Unknown"
        counts = objects if isinstance(objects, dict) else {}
        failing = int(counts.get("failing") or 0)
        with self._lock:
            total = max(int(counts.get("total") or 0) - failing, 0)
            self._known[key] = (ready, total, failing, "pendingPlan" in status)
            self._settle()

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        with self._lock:
            self._known.pop(key, None)
            self._settle()

    def _settle(self) -> None:
        known = self._known.values()
        for ready in READY:
            self._bundles.labels(ready).set(sum(bundle[0] == ready for bundle in known))
        self._objects.labels("applied").set(sum(bundle[1] for bundle in known))
        self._objects.labels("failing").set(sum(bundle[2] for bundle in known))
        self._waiting.set(sum(bundle[3] for bundle in known))

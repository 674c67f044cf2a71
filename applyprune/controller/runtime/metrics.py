"""Prometheus metrics of the controller; every label exists from the start, at zero."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from applyprune.controller.constants import Key, Limit, Reason
from applyprune.controller.runtime.bundle_metrics import BundleMetrics
from applyprune.controller.runtime.sent_requests import CODES, METHODS, labels_of
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.controller.task import Measured
from applyprune.values import dataclass, field

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
    ended: Counter = field(init=False)
    _healthy: Gauge = field(init=False)
    _replicas: Gauge = field(init=False)
    _served: Gauge = field(init=False)
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
        self.ended = Counter(
            "applyprune_ended_reconciles",
            "Reconciles whose worker process was ended at a limit.",
            ["limit"],
            registry=registry,
        )
        self._healthy = Gauge(
            "applyprune_healthy", "1 if /healthz says that all is well.", registry=registry
        )
        self._replicas = Gauge(
            "applyprune_live_replicas",
            "Replicas that share the Bundles, as this one sees them; 0 while it serves none.",
            registry=registry,
        )
        self._served = Gauge(
            "applyprune_served_bundles", "Bundles that this replica serves.", registry=registry
        )
        registry.register(self._bundles)
        self._depth = Gauge(
            "applyprune_queue_depth", "Bundles that are due and waiting.", registry=registry
        )
        self._busy = Gauge(
            "applyprune_workers_busy", "Bundles that are being reconciled.", registry=registry
        )
        for limit in Limit:
            self.ended.labels(str(limit))
        for reason in Reason:
            self.reconciles.labels(str(reason))
        for method in METHODS:
            for code in CODES:
                self.calls.labels(method, code)

    def watch_queue(self, queue: WorkQueue) -> None:
        """Read the queue whenever the metrics are scraped."""
        self._depth.set_function(lambda: queue.waiting)
        self._busy.set_function(lambda: queue.busy)

    def watch_health(self, unserved: Callable[[], str]) -> None:
        """Ask why no Bundle is served whenever the metrics are scraped."""
        self._healthy.set_function(lambda: not unserved())

    def watch_share(self, replicas: Callable[[], int], served: Callable[[], int]) -> None:
        """Read this replica's share of the Bundles whenever the metrics are scraped."""
        self._replicas.set_function(replicas)
        self._served.set_function(served)

    def traced(self, line: str) -> None:
        """Count one try of a request of this process, from the transport's trace line."""
        for method, code in labels_of(line):
            self.sent(method, code, 1)

    def sent(self, method: str, code: str, tries: int) -> None:
        """Count so many tries of requests."""
        self.calls.labels(method, code).inc(tries)

    def exceeded(self, limit: Limit) -> None:
        """Count a reconcile that was ended at a limit."""
        self.ended.labels(str(limit)).inc()

    def passed(self, key: Key, measured: Measured) -> None:
        """Count one reconcile, and record the Bundle's state after it."""
        self.reconciles.labels(str(measured.reason)).inc()
        self.seconds.observe(measured.sample.seconds)
        self.pruned.inc(measured.pruned)
        if measured.refused:
            self.refused.inc()
        self._bundles.record(key, measured.sample)

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        self._bundles.forget(key)

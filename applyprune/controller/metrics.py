"""Metrics of the controller and of each Bundle, its health, and the server that shows them."""

from __future__ import annotations

import platform
import socket
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler

from msgspec import Struct, field
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from applyprune._version import __version__
from applyprune.addresses import bracketed
from applyprune.controller.followed_sources import SourceAge
from applyprune.controller.queue import WorkQueue
from applyprune.controller.reasons import ConditionType, Key, Limit, Reason
from applyprune.controller.task import (
    CODES,
    METHODS,
    RESULTS,
    STATUSES,
    BundleSample,
    Measured,
    request_labels,
)
from applyprune.controller.watches import SharedWatches, Watches
from applyprune.errors import UsageError
from applyprune.values import replace

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LABELS = ("namespace", "bundle")
STATES = ("applied", "failing")


class BundleMetrics(Collector):
    """The state of every Bundle; thread-safe. A scrape counts, so a reconcile costs nothing.

    A Bundle that is gone leaves no series.
    """

    def __init__(self) -> None:
        self._samples: dict[Key, BundleSample] = {}
        self._lock = Lock()

    def record(self, key: Key, sample: BundleSample) -> None:
        """Record a Bundle after a reconcile; its ``reverted`` is added to the earlier ones."""
        with self._lock:
            known = self._samples.get(key)
            before = known.reverted if known is not None else 0
            self._samples[key] = replace(sample, reverted=before + sample.reverted)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._samples.pop(key, None)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            samples = dict(self._samples)
        yield from _totals(samples)
        yield from _conditions(samples)
        yield _info(samples)
        yield _objects(samples)
        yield _gauge(
            "bundle_suspended",
            "Whether the Bundle is suspended.",
            {key: float(sample.suspended) for key, sample in samples.items()},
        )
        yield _gauge(
            "bundle_pending_approval",
            "Whether a plan of the Bundle waits for an approval.",
            {key: float(sample.pending) for key, sample in samples.items()},
        )
        yield _gauge(
            "bundle_last_reconcile_seconds",
            "How long the last reconcile of the Bundle took.",
            {key: sample.seconds for key, sample in samples.items()},
        )
        reverted = CounterMetricFamily(
            "applyprune_bundle_reverted_fields",
            "Fields of the Bundle that others had changed and that were reverted.",
            labels=_LABELS,
        )
        for key, sample in samples.items():
            reverted.add_metric(key, sample.reverted)
        yield reverted


class SourceMetrics(Collector):
    """How old the newest success is of the source of each Bundle that has one on another host."""

    def __init__(self, ages: Callable[[], Mapping[Key, SourceAge]]) -> None:
        self._ages = ages

    def collect(self) -> Iterator[Metric]:
        ages = self._ages()
        yield _gauge(
            "source_age_seconds",
            "The time since the source of the Bundle was checked with success.",
            {key: found.age for key, found in ages.items()},
        )
        yield _gauge(
            "source_interval_seconds",
            "The time that the Bundle wants between two checks of its source.",
            {key: found.interval for key, found in ages.items()},
        )


def _totals(samples: Mapping[Key, BundleSample]) -> Iterator[Metric]:
    by_ready = Tally(sample.ready for sample in samples.values())
    bundles = GaugeMetricFamily(
        "applyprune_bundles", "Bundles, by their Ready condition.", labels=["ready"]
    )
    for ready in STATUSES:
        bundles.add_metric([ready], by_ready[ready])
    yield bundles
    objects = GaugeMetricFamily(
        "applyprune_objects", "Objects of Bundles, by state.", labels=["state"]
    )
    objects.add_metric(["applied"], sum(sample.applied for sample in samples.values()))
    objects.add_metric(["failing"], sum(sample.failing for sample in samples.values()))
    yield objects
    yield GaugeMetricFamily(
        "applyprune_pending_approvals",
        "Bundles with a plan that waits for an approval.",
        value=sum(sample.pending for sample in samples.values()),
    )


def _conditions(samples: Mapping[Key, BundleSample]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "applyprune_bundle_condition",
        "The status of each condition of the Bundle, as a label; the value is 1.",
        labels=(*_LABELS, "type", "status"),
    )
    for key, sample in samples.items():
        for kind in ConditionType:
            if (status := sample.conditions.get(kind, "")) in STATUSES:
                family.add_metric((*key, str(kind), status.lower()), 1)
    yield family


def _info(samples: Mapping[Key, BundleSample]) -> Metric:
    family = GaugeMetricFamily(
        "applyprune_bundle_info",
        "The revision that was applied last, as a label; the value is 1.",
        labels=(*_LABELS, "revision"),
    )
    for key, sample in samples.items():
        family.add_metric((*key, sample.revision), 1)
    return family


def _objects(samples: Mapping[Key, BundleSample]) -> Metric:
    family = GaugeMetricFamily(
        "applyprune_bundle_objects", "Objects of the Bundle, by state.", labels=(*_LABELS, "state")
    )
    for key, sample in samples.items():
        for state, count in zip(STATES, (sample.applied, sample.failing), strict=True):
            family.add_metric((*key, state), count)
    return family


def _gauge(name: str, documentation: str, values: Mapping[Key, float]) -> Metric:
    family = GaugeMetricFamily(f"applyprune_{name}", documentation, labels=_LABELS)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


class Metrics:
    """The controller's metrics, in their own registry; thread-safe."""

    def __init__(self) -> None:
        # Nobody needs the creation time of a counter, and it doubles the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        Info(
            "applyprune_build",
            "The version of the controller, and that of its Python; the value is 1.",
            registry=registry,
        ).info({"version": __version__, "python": platform.python_version()})
        ProcessCollector(registry=registry)  # of this process; the workers are others
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
        self.checks = Counter(
            "applyprune_source_checks", "Checks of sources.", ["result"], registry=registry
        )
        self.fetches = Counter(
            "applyprune_source_fetches", "Fetches of sources.", ["result"], registry=registry
        )
        self._healthy = Gauge(
            "applyprune_healthy", "1 if /healthz says that all is well.", registry=registry
        )
        self._leader = Gauge(
            "applyprune_leader",
            "1 if this replica leads: it serves all Bundles. 0 if it stands by.",
            registry=registry,
        )
        self._bundles = BundleMetrics()
        registry.register(self._bundles)
        self._depth = Gauge(
            "applyprune_queue_depth", "Bundles that are due and waiting.", registry=registry
        )
        self._busy = Gauge(
            "applyprune_workers_busy", "Bundles that are being reconciled.", registry=registry
        )
        self._watches = Gauge(
            "applyprune_watches", "Open watches of sources and objects.", registry=registry
        )
        self._waiting_watches = Gauge(
            "applyprune_waiting_watches",
            "Watches that Bundles want, and for which this replica has none left.",
            registry=registry,
        )
        self._most_watches = Gauge(
            "applyprune_watches_limit",
            "Watches of sources and objects that this replica may open.",
            registry=registry,
        )
        self._waiting_checks = Gauge(
            "applyprune_source_checks_waiting",
            "Checks of sources that are due and waiting, in each namespace that follows them.",
            registry=registry,
        )
        self._oldest_check = Gauge(
            "applyprune_source_checks_oldest_seconds",
            "For how long the oldest of them has been due.",
            registry=registry,
        )
        self._waiting_fetches = Gauge(
            "applyprune_source_fetches_waiting",
            "Fetches of sources that are due and waiting, in each namespace that follows them.",
            registry=registry,
        )
        for limit in Limit:
            self.ended.labels(str(limit))
        for reason in Reason:
            self.reconciles.labels(str(reason))
        for method in METHODS:
            for code in CODES:
                self.calls.labels(method, code)
        for result in RESULTS:
            self.checks.labels(str(result))
            self.fetches.labels(str(result))

    def watch_queue(self, queue: WorkQueue) -> None:
        """Read the queue whenever the metrics are scraped."""
        self._depth.set_function(lambda: queue.waiting)
        self._busy.set_function(lambda: queue.busy)

    def watch_watches(self, shared: SharedWatches) -> None:
        """Count the watches whenever the metrics are scraped."""
        self._watches.set_function(lambda: shared.count)
        self._waiting_watches.set_function(lambda: shared.waiting)
        self._most_watches.set_function(lambda: shared.most)

    def watch_sources(
        self, ages: Callable[[], Mapping[Key, SourceAge]], checks: WorkQueue, fetches: WorkQueue
    ) -> None:
        """Read the sources on other hosts whenever the metrics are scraped."""
        self.registry.register(SourceMetrics(ages))
        self._waiting_checks.set_function(lambda: checks.waiting)
        self._oldest_check.set_function(lambda: checks.oldest)
        self._waiting_fetches.set_function(lambda: fetches.waiting)

    def watch_health(self, unserved: Callable[[], str]) -> None:
        """Ask why no Bundle is served whenever the metrics are scraped."""
        self._healthy.set_function(lambda: not unserved())

    def watch_leadership(self, leads: Callable[[], bool]) -> None:
        """Ask whether this replica leads whenever the metrics are scraped."""
        self._leader.set_function(leads)

    def traced(self, line: str) -> None:
        """Count one try of a request of this process, from the transport's trace line."""
        for method, code in request_labels(line):
            self.sent(method, code, 1)

    def sent(self, method: str, code: str, tries: int) -> None:
        self.calls.labels(method, code).inc(tries)

    def exceeded(self, limit: Limit) -> None:
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
        self._bundles.forget(key)


# Whether the controller serves its Bundles, and if not, why.


UNHEALTHY_AFTER = 60.0
"""Seconds without service after which the controller is not healthy."""
_STUCK = 3600.0
_LONGEST = 300


class Health(Struct):
    """What the probes of a controller are answered."""

    queue: WorkQueue
    watches: Watches
    patience: float = UNHEALTHY_AFTER
    threads: Sequence[Thread] = ()
    """The threads that must live as long as the process; empty before they are started."""
    busy_since: dict[str, float] = field(default_factory=dict)
    """When each worker began with its Bundle, by the clock of the queue."""
    checks: Sequence[WorkQueue] = ()
    """The queues of the sources on other hosts."""
    unreached: Callable[[float], str] = lambda _: ""
    """Why the Lease could not be reached for so many seconds; empty if that is not so."""

    def broken(self) -> str:
        """Return what only a restart can repair; empty if nothing is broken."""
        dead = [thread.name for thread in self.threads if not thread.is_alive()]
        if dead:  # guard: dead-thread never
            return f"a thread has ended: {', '.join(dead)}"
        if not self.watches.is_alive:
            return "the thread of the watches has ended"
        now = self.queue.clock.now()
        longest = max((now - since for since in list(self.busy_since.values())), default=0.0)
        if longest > _STUCK:
            return f"a worker has been busy with one Bundle for {longest:.0f} s"
        return ""

    def can_serve(self) -> bool:
        """Return whether it sees Bundles and can reconcile them: otherwise another replica must."""
        return self.watches.synced and not (self.broken() or self.watches.unseen(self.patience))

    def unserved(self) -> str:
        """Return why no Bundle has been served for a minute; empty if that is not so."""
        if broken := self.broken():
            return broken
        if not self.threads:
            return ""
        if unreached := self.unreached(self.patience):  # guard: unreached-lease never
            return unreached[:_LONGEST]
        if unseen := self.watches.unseen(self.patience):  # guard: unseen-bundles never
            return unseen[:_LONGEST]
        overdue, quiet = self.queue.overdue, self.queue.quiet
        if min(overdue, quiet) > self.patience:  # guard: unserved-bundles never
            return (
                f"no reconcile has ended for {quiet:.0f} s; Bundles due: {self.queue.waiting}, "
                f"being reconciled: {self.queue.busy}"
            )
        for one in self.checks:
            if min(one.overdue, one.quiet) > self.patience:  # guard: unchecked-sources never
                return f"no source has been read for {one.quiet:.0f} s; sources due: {one.waiting}"
        return ""


# The server of ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics``, over plain HTTP.
#
# ``/livez`` fails where only a restart helps, ``/healthz`` wherever Bundles are not served. A probe
# says in its text what is wrong.


Probes: TypeAlias = "Mapping[str, Callable[[], str]]"
"""By the path of each probe, what returns why it fails; empty if it does not."""


@contextmanager
def serving(
    address: tuple[str, int],
    metrics: Metrics,
    probes: Probes,
) -> Iterator[tuple[str, int]]:
    """Serve until the block ends; yield the address, with the real port instead of port 0.

    An empty host means every IPv4 and IPv6 address. Raises UsageError if the address cannot be
    used.
    """
    dual = not address[0] and socket.has_dualstack_ipv6()

    class Server(ThreadingWSGIServer):
        address_family = socket.AF_INET6 if dual or ":" in address[0] else socket.AF_INET

        def server_bind(self) -> None:
            if dual:
                # Probes arrive over IPv4 or IPv6, depending on the cluster.
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    try:
        server = Server(address, _Handler)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on {bracketed(address[0])}:{address[1]}",
            reason=getattr(error, "strerror", None) or str(error),
            hint="Choose another address with --listen.",
        ) from error
    server.set_app(application(metrics, probes))
    thread = Thread(target=server.serve_forever, args=(0.1,), name="applyprune-health", daemon=True)
    thread.start()
    try:
        host, port = str(server.server_address[0]), server.server_address[1]
        yield f"[{host}]" if ":" in host else host, port
    finally:
        server.shutdown()
        server.server_close()


def application(metrics: Metrics, probes: Probes) -> WSGIApplication:
    """Return the WSGI application; prometheus_client's own one serves the metrics."""
    exposition: WSGIApplication = make_wsgi_app(metrics.registry)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return exposition(environ, start_response)
        status, body = "404 Not Found", b"not found\n"
        if path in probes and environ.get("REQUEST_METHOD") != "GET":
            status, body = "405 Method Not Allowed", b"use GET\n"
        elif path in probes:
            wrong = probes[path]()
            status = "503 Service Unavailable" if wrong else "200 OK"
            body = f"{wrong or 'ok'}\n".encode("utf-8", "replace")
        # A new list each time: the server adds headers to it.
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [body]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = 5.0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's
        """Log nothing: a probe arrives every few seconds."""

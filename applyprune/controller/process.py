"""The controller process: leader election, watches, workers and shutdown."""

from __future__ import annotations

import os
import platform
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport.transport import Transport
from applyprune.controller.bundle_client import BundleObjects
from applyprune.controller.constants import COMPONENT
from applyprune.controller.reconcile.reconciler import Reconciler
from applyprune.controller.reconcile.report import Reporter
from applyprune.controller.result import error_message
from applyprune.controller.runtime.event_recorder import EventRecorder
from applyprune.controller.runtime.health import Health
from applyprune.controller.runtime.impersonation import Impersonation, refuse_impersonated
from applyprune.controller.runtime.leader_election import LeaderElection
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.controller.runtime.metrics import Metrics
from applyprune.controller.runtime.server import Probes, serving
from applyprune.controller.runtime.watches import Watches
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.engine.cancellation import Cancellation
from applyprune.errors import (
    ApplypruneError,
    Interrupted,
    LeaseLost,
    NotServed,
    UsageError,
    problems_of,
)
from applyprune.model.identity import Ref
from applyprune.model.resources import BUNDLES, LEASES

if TYPE_CHECKING:
    from applyprune.cluster.auth.kubeconfig import ClusterAccess

_BUDGET = 10.0
_LONG = 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one controller; times are in seconds."""

    access: ClusterAccess
    """The API server."""
    listen: tuple[str, int]
    """The address and port of the probes and metrics."""
    lease_namespace: str
    """The namespace of the Lease."""
    namespaces: tuple[str, ...] = ()
    """The namespaces of the Bundles; empty for all namespaces."""
    workers: int = 8
    """The number of Bundles to reconcile in parallel."""
    lease: float = 15.0
    """The duration of the Lease; 0 means no leader election."""
    grace: float = 25.0
    """How long a shutdown may take."""


def serve(settings: Settings, cancellation: Cancellation) -> int:
    """Run until the process is cancelled or the Lease is lost; return the exit code.

    Raises AccessError without a server or without the right to its Bundles, UsageError without the
    CRD, and LeaseLost when another replica has taken over.
    """
    refuse_impersonated(settings.access)
    metrics = Metrics()
    identity = f"{platform.node()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with ExitStack() as ends:
        transport = Transport(
            settings.access,
            pool_size=settings.workers + 4,
            retry_budget=_BUDGET,
            trace=metrics.traced,
            agent=identity,
        )
        ends.callback(transport.close)
        cache = _cache(ends)
        client = KubernetesClient(transport, settings.access.server, cache=cache)
        _check_crd(client, settings)
        service = _Process(settings, identity, cancellation, metrics, client, cache)
        address = ends.enter_context(serving(settings.listen, metrics, service.probes))
        LOG.info("controller started", extra=fields(listen=f"{address[0]}:{address[1]}"))
        return service.run()


def _cache(ends: ExitStack) -> Path | None:
    """Return a folder for discovery documents; None if none can be written."""
    try:
        return Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="applyprune-")))
    except OSError:
        return None  # without a cache, only time is lost


def _check_crd(client: KubernetesClient, settings: Settings) -> None:
    try:
        # No Bundle has this name: it is enough that the server can look for it.
        client.list_at(BUNDLES, namespace=(settings.namespaces or ("",))[0], name="-")
    except NotServed as error:
        raise UsageError(
            "the Bundle CRD is not installed",
            reason=error.message,
            hint="Install the CRD first: kubectl apply --server-side -f deploy/crd.yaml",
        ) from error


@dataclass(slots=True)
class _Process:
    settings: Settings
    identity: str
    cancellation: Cancellation
    metrics: Metrics
    client: KubernetesClient
    cache: Path | None
    queue: WorkQueue = field(default_factory=WorkQueue)
    watches: Watches = field(init=False)
    reconciler: Reconciler = field(init=False)
    leading: bool = False
    threads: list[threading.Thread] = field(default_factory=list)
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        impersonation = Impersonation(
            self.settings.access, self.client, self.cache, self.metrics.traced, self.identity
        )
        self.watches = Watches(
            self.queue, self.client, impersonation.connect, self.settings.namespaces
        )
        self.health = Health(self.queue, self.watches)
        bundles = BundleObjects(self.client)
        self.reconciler = Reconciler(
            bundles=bundles,
            impersonation=impersonation,
            watches=self.watches,
            reporter=Reporter(bundles, EventRecorder(self.client), self.metrics),
            stop=self.cancellation,
        )
        self.watches.moved = self.reconciler.cut_off
        self.metrics.watch_queue(self.queue)

    @property
    def probes(self) -> Probes:
        """Return what each probe asks."""
        health = self.health
        return {"/livez": health.broken, "/healthz": health.unserved, "/readyz": self.unready}

    def unready(self) -> str:
        """Return why it neither works nor waits to become the leader; empty if it does."""
        if self.cancellation.requested:
            return "it is stopping"
        return "the Bundles are not listed yet" if self.leading and not self.watches.synced else ""

    def run(self) -> int:
        """Wait for leadership, work, and shut down in order."""
        election = self._election()
        if election is not None and not election.acquire(self.cancellation, _log_lease_error):
            return 0
        self.leading = True
        self.metrics.leader.set(1)
        LOG.info("leading", extra=fields(identity=self.identity))
        self._start()
        try:
            if election is None:
                while not self.cancellation.wait(_LONG):
                    pass
            else:
                election.keep(self.cancellation, _log_lease_error)
        except LeaseLost as error:
            LOG.error("leadership lost", extra=fields(error=error.message))
            self.cancellation.request(0)
            self._end()
            raise
        if self._end() and election is not None:
            election.release()
        LOG.info("controller stopped")
        return 0

    def _election(self) -> LeaderElection | None:
        if not self.settings.lease:
            return None
        ref = Ref(LEASES.group, LEASES.kind, self.settings.lease_namespace, COMPONENT)
        # A separate transport: a renewal must not wait for a connection that a reconcile uses.
        access = self.settings.access
        transport = Transport(
            access, pool_size=2, retry_budget=self.settings.lease / 3, agent=self.identity
        )
        client = KubernetesClient(transport, access.server)
        return LeaderElection(client, ref, self.identity, self.settings.lease)

    def _start(self) -> None:
        self.watches.open()
        attend = threading.Thread(
            target=self.watches.attend,
            args=(lambda: self.cancellation.requested,),
            name="applyprune-news",
            daemon=True,
        )
        workers = [
            threading.Thread(target=self._work, name=f"applyprune-worker-{number}", daemon=True)
            for number in range(self.settings.workers)
        ]
        self.threads = self.health.threads = [attend, *workers]
        for thread in self.threads:
            thread.start()

    def _end(self) -> bool:
        """Let running work finish; return whether all of it did within the grace period."""
        self.queue.close()
        self.reconciler.end()
        until = time.monotonic() + self.settings.grace
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        ended = not any(thread.is_alive() for thread in self.threads)
        if not ended:
            LOG.warning(
                "stopped before all work had finished", extra=fields(grace=self.settings.grace)
            )
        self.watches.close()
        return ended

    def _work(self) -> None:
        thread = threading.current_thread().name
        while (key := self.queue.get()) is not None:
            self.health.busy_since[thread] = time.monotonic()
            delay: float | None = None
            try:
                delay = self.reconciler.reconcile(key)
            except Interrupted:
                return
            except ApplypruneError as error:
                LOG.warning(
                    "reconcile failed",
                    extra=fields(
                        namespace=key[0], bundle=key[1], error=error_message(problems_of(error))
                    ),
                )
                delay = self.reconciler.failed(key)
            except Exception:  # noqa: BLE001
                # A bug that one Bundle triggers must not stop the work on all others.
                LOG.exception("reconcile crashed", extra=fields(namespace=key[0], bundle=key[1]))
                delay = self.reconciler.failed(key)
            finally:
                self.health.busy_since.pop(thread, None)
                self.queue.done(key)
            if delay is not None:
                self.queue.add(key, delay)


def _log_lease_error(error: ApplypruneError) -> None:
    LOG.warning("the Lease cannot be reached", extra=fields(error=error.message))

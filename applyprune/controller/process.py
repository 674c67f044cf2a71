"""The controller's main process: its watches, queue, health and shutdown.

It reads no manifest. Worker processes reconcile the Bundles.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.addresses import AddressRules
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.clients import BundleObjects, refuse_impersonated
from applyprune.controller.dispatcher import Dispatcher, SourceDispatcher
from applyprune.controller.leader import ControllerLease, Election, Leadership, lease_name
from applyprune.controller.metrics import Health, Metrics, Probes, serving
from applyprune.controller.queue import WorkQueue
from applyprune.controller.reasons import LOG, RETRY_BUDGET, fields
from applyprune.controller.report import EventRecorder, Reporter
from applyprune.controller.source_checker import Checker, check_sources
from applyprune.controller.task import SourceSettings
from applyprune.controller.watches import Watches
from applyprune.controller.worker import WorkerHandle, WorkerLimits, WorkerSettings, worker_context
from applyprune.engine.ports import Cancellation
from applyprune.errors import NotServed, UsageError
from applyprune.model.live import BUNDLES
from applyprune.system.processes import try_lock
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cluster.access import ClusterAccess
    from applyprune.system.fork_server import ForkServer

_LONGEST_NODE = 200
_LONG = 3600.0
_FETCH_GRACE = 60.0
"""Seconds for one fetch beyond those that its source may take."""


def serve(settings: ControllerSettings, cancellation: Cancellation) -> int:
    """Run until the process is cancelled; return the exit code.

    Raises AccessError without a server or without the right to its Bundles, and UsageError without
    the CRD.
    """
    refuse_impersonated(settings.access)
    metrics = Metrics()
    identity = new_identity(platform.node())
    with ExitStack() as ends:
        context = ends.enter_context(closing(worker_context()))
        context.begin()  # before anything starts a thread
        transport = Transport(
            settings.access,
            pool_size=settings.workers + 4,
            retry_budget=RETRY_BUDGET,
            trace=metrics.traced,
            agent=identity,
        )
        ends.callback(transport.close)
        cache = ends.enter_context(own_cache_folder())  # without it, only time is lost
        client = KubernetesClient(transport, settings.access.server, cache=cache)
        _check_crd(client, settings)
        service = _Process(settings, identity, cancellation, metrics, client, cache, context)
        ends.callback(service.dispatcher.kill)
        address = ends.enter_context(serving(settings.listen, metrics, service.probes))
        listens = f"{address[0]}:{address[1]}"
        LOG.info("controller started", extra=fields(listen=listens, replica=identity))
        return service.run()


class ControllerSettings(Struct, frozen=True):
    """The settings of one controller; times are in seconds."""

    access: ClusterAccess
    """The API server."""
    listen: tuple[str, int]
    """The address and port of the probes and metrics."""
    lease_namespace: str
    """The namespace of the controller's Lease."""
    namespaces: tuple[str, ...] = ()
    """The namespaces of the Bundles; empty for all namespaces."""
    workers: int = 4
    """The number of worker processes."""
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    """What one reconcile may use."""
    lease: float = 15.0
    """The duration of the Lease; 0 means that this replica serves the Bundles without one."""
    grace: float = 25.0
    """How long a shutdown may take."""
    log_level: str = "info"
    addresses: AddressRules = field(default_factory=AddressRules)
    """Which addresses other clusters may have."""
    source_addresses: AddressRules = field(default_factory=AddressRules)
    """Which addresses the hosts of sources may have."""
    source_cache: int = 1 << 30
    """Bytes on the disk for fetched sources."""
    fetch_workers: int = 3
    """The number of worker processes that fetch sources on other hosts."""
    source_timeout: float = 600.0
    """The most seconds for one fetch of a source."""


def new_identity(node: str) -> str:
    """Return a new name for this replica, of small letters, digits and dashes.

    It begins with the name of the Pod.
    """
    words = re.sub(r"[^a-z0-9]+", "-", node.lower())[:_LONGEST_NODE].strip("-")
    return f"{words or 'replica'}-{uuid.uuid4().hex[:8]}"


def _check_crd(client: KubernetesClient, settings: ControllerSettings) -> None:
    try:
        # No Bundle has this name: it is enough that the server can look for it.
        client.list_at(BUNDLES, namespace=(settings.namespaces or ("",))[0], name="-")
    except NotServed as error:
        raise UsageError(
            "the Bundle CRD is not installed",
            reason=error.message,
            hint="Install the CRD first: kubectl apply --server-side -f deploy/crd.yaml",
        ) from error


class _Process:
    def __init__(
        self,
        settings: ControllerSettings,
        identity: str,
        cancellation: Cancellation,
        metrics: Metrics,
        client: KubernetesClient,
        cache: Path | None,
        context: ForkServer,
    ) -> None:
        self.settings = settings
        self.identity = identity
        self.cancellation = cancellation
        self.metrics = metrics
        self.client = client
        self.cache = cache
        self.context = context
        self.threads: list[threading.Thread] = []
        self.leadership = Leadership(leads=not settings.lease)
        self.queue = WorkQueue(settings.workers)
        self.watches = Watches(
            self.queue, self.client, settings.access, self.identity, settings.namespaces
        )
        bundles = BundleObjects(self.client)
        worker = WorkerSettings(
            settings.access,
            self.cache,
            self.identity,
            settings.log_level,
            settings.limits,
            settings.addresses,
            self._sources(),
        )
        # A fetch has a deadline of its own.
        fetcher = replace(
            worker, limits=replace(settings.limits, time=settings.source_timeout + _FETCH_GRACE)
        )
        sources = SourceDispatcher(
            self.queue,
            self.metrics,
            Checker(WorkerHandle(context, fetcher, check_sources)),
            tuple(WorkerHandle(context, fetcher) for _ in range(settings.fetch_workers)),
            self.client.time_now,
        )
        self.dispatcher = Dispatcher(
            self.queue,
            self.watches,
            self.metrics,
            bundles,
            Reporter(bundles, EventRecorder(self.client), self.identity),
            tuple(WorkerHandle(context, worker) for _ in range(settings.workers)),
            self.leadership,
            sources,
        )
        self.health = Health(
            self.queue,
            self.watches,
            busy_since=self.dispatcher.busy_since,
            checks=(sources.checks, sources.fetches),
        )
        self.election = self._election()
        if self.election is not None:
            self.health.unreached = self.election.unreached
        self.watches.serves = self.leadership.leads
        self.watches.moved = self.dispatcher.cut_off
        self.metrics.watch_health(self.health.unserved)
        self.metrics.watch_queue(self.queue)
        self.metrics.watch_watches(self.watches.shared)
        self.metrics.watch_sources(sources.followed.ages, sources.checks, sources.fetches)
        self.metrics.watch_leadership(lambda: self.leadership.leads)

    def _sources(self) -> SourceSettings | None:
        """Return how sources on other hosts are read; None if nothing can be written."""
        if self.cache is None:
            return None
        return SourceSettings(
            self.cache / "sources",
            self.settings.source_cache,
            secrets.token_bytes(32),
            self.settings.source_addresses,
            self.settings.source_timeout,
        )

    def _election(self) -> Election | None:
        duration = self.settings.lease
        if not duration:
            return None
        # A separate transport: a renewal must not wait for a connection that a reconcile uses.
        access = self.settings.access
        transport = Transport(access, pool_size=2, retry_budget=duration / 3, agent=self.identity)
        client = KubernetesClient(transport, access.server)
        lease = ControllerLease(
            client,
            self.settings.lease_namespace,
            lease_name(self.settings.namespaces),
            self.identity,
            duration,
        )
        return Election(
            lease, self.leadership, self.dispatcher.follow_election, self.health.can_serve
        )

    @property
    def probes(self) -> Probes:
        health = self.health
        return {"/livez": health.broken, "/healthz": health.unserved, "/readyz": self.unready}

    def unready(self) -> str:
        """Return why it could neither lead nor take over now; empty if it could."""
        if self.cancellation.requested:
            return "it is stopping"
        if not self.watches.synced:
            return "the Bundles are not listed yet"
        return self.health.unreached(0.0) or self.watches.unseen(self.health.patience)

    def run(self) -> int:
        self._start()
        if self.election is None:
            while not self.cancellation.wait(_LONG):
                pass
        else:
            self.election.keep(self.cancellation)
        if self._end() and self.election is not None:
            self.election.resign()
        LOG.info("controller stopped")
        return 0

    def _start(self) -> None:
        self.watches.open()
        events = threading.Thread(
            target=self.watches.process_events,
            args=(lambda: self.cancellation.requested,),
            name="applyprune-news",
            daemon=True,
        )
        self.threads = self.health.threads = [
            events,
            *self.dispatcher.threads(),
            *self.dispatcher.sources.threads(),
        ]
        for thread in self.threads:
            thread.start()

    def _end(self) -> bool:
        """Let running work finish; return whether all of it did within the grace period."""
        self.dispatcher.end()
        until = time.monotonic() + self.settings.grace
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        ended = not any(thread.is_alive() for thread in self.threads)
        if not ended:
            LOG.warning(
                "stopped before all work had finished", extra=fields(grace=self.settings.grace)
            )
        self.dispatcher.kill()
        self.watches.close()
        return ended


# The folder of this process for what it keeps on the disk, and the removal of those left behind.
#
# A process that was killed removes nothing, and the disk of a Pod outlives its container.


_PREFIX = "applyprune-controller-"
_LOCK = "lock"


@contextmanager
def own_cache_folder() -> Iterator[Path | None]:
    """Yield a new folder that only this user can read; None if none can be written."""
    _remove_left()
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError:
        yield None
        return
    lock = None
    try:
        with suppress(OSError):
            lock = _locked(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int:
    """Lock a folder for as long as this process lives; a file of that name is always locked."""
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    # Nobody else has it yet.
    try_lock(lock)
    new.rename(folder / _LOCK)
    return lock


def _remove_left() -> None:
    """Remove the folders whose processes have gone."""
    # gettempdir needs a disk with space, and what is removed here may be what has filled it.
    named = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    place = next((name for name in named if name and Path(name).is_dir()), "/tmp")  # noqa: S108
    for folder in Path(place).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if try_lock(lock):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

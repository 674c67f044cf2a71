"""A worker process: it reconciles one Bundle at a time, as its parent tells it.

Its parent may kill it at any time, and so may the kernel. A run that is killed leaves a cluster
that the next run can go on with.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from applyprune.cluster.client import RememberingClient
from applyprune.cluster.transport import Transport
from applyprune.controller.bundle_client import BundleObjects
from applyprune.controller.constants import RETRY_BUDGET, Key
from applyprune.controller.fetching.fetch_task import Fetched, FetchTask
from applyprune.controller.fetching.source_settings import SourceSettings
from applyprune.controller.reconcile.next_time import unwritten
from applyprune.controller.reconcile.report import Reporter
from applyprune.controller.result import error_message
from applyprune.controller.runtime.event_recorder import EventRecorder
from applyprune.controller.runtime.impersonation import Impersonation
from applyprune.controller.runtime.logging import LOG, fields, log_to_stderr
from applyprune.controller.runtime.sent_requests import Counts, SentRequests
from applyprune.controller.task import Answer, Task
from applyprune.controller.workers.limits import (
    Limits,
    be_first_victim,
    limit_cpu,
    limit_memory,
    resident_size,
    write_no_core,
)
from applyprune.errors import ApplypruneError, problems_of
from applyprune.http import AddressRules
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import dataclass, field

if TYPE_CHECKING:

    from applyprune.cluster.access import ClusterAccess
    from applyprune.controller.reconcile.reconciler import Reconciler
    from applyprune.system.fork_server import Connection

OUT_OF_MEMORY = 86
"""The exit code of a worker that has reached its limit of memory."""
_POOL = 12
"""Connections: those of a run's threads, of the renewal of its lock, and of the controller."""
_ORPHANED = 20.0
"""Seconds in which a worker whose parent has gone finishes its reconcile."""
_BUG = "The log of the controller has more. Please report it."
_NO_THREAD = "can't start new thread"
_NOT_BEGUN = "in thread started by"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker process needs to start."""

    access: ClusterAccess
    """The API server."""
    cache: Path | None
    """The folder of this replica, which all workers share; None if none can be written."""
    agent: str
    """The name of this replica, in the audit log and in the status of Bundles."""
    log_level: str
    limits: Limits
    addresses: AddressRules = field(default_factory=AddressRules)
    """Which addresses other clusters may have."""
    sources: SourceSettings | None = None
    """How sources on other hosts are read; None if none are."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """A message to a worker: end the reconcile of an older generation; None ends any."""

    key: Key
    generation: int | None


@dataclass(frozen=True, slots=True)
class End:
    """A message to a worker: end the reconcile, and every later one."""


Message: TypeAlias = Task | FetchTask | CutOff | End
_Failure: TypeAlias = "threading.ExceptHookArgs | sys.UnraisableHookArgs"


@dataclass(frozen=True, slots=True)
class Started:
    """The first message from a worker: it takes tasks now."""


@dataclass(frozen=True, slots=True)
class Done:
    """A message from a worker: the reconcile has ended."""

    answer: Answer
    requests: Counts
    resident: int
    """The bytes of memory that the worker holds."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A message from a worker: the look at a source has ended."""

    fetched: Fetched
    resident: int
    """The bytes of memory that the worker holds."""


def work(connection: Connection, settings: WorkerSettings) -> None:
    """Reconcile what the parent sends until it closes the connection."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A signal to the whole group is the parent's to handle.
        signal.signal(number, signal.SIG_IGN)
    be_first_victim()
    write_no_core()
    if settings.cache is not None:
        # If all processes are killed at once, nobody removes private files but the next controller.
        tempfile.tempdir = str(settings.cache)
    log_to_stderr(settings.log_level)
    _end_with_lost_threads()
    requests = SentRequests()
    reconciler = _reconciler(settings, requests)
    tasks: SimpleQueue[Task | FetchTask | None] = SimpleQueue()
    fetches = threading.Event()
    listener = threading.Thread(
        target=_listen,
        args=(connection, tasks, reconciler, fetches),
        name="applyprune-listen",
        daemon=True,
    )
    listener.start()
    limit_memory(settings.limits)  # guard: limit-memory
    try:
        connection.send(Started())
        while (task := tasks.get()) is not None:
            limit_cpu(settings.limits)  # guard: limit-cpu
            if isinstance(task, FetchTask):
                fetches.set()
                looked = Looked(_fetch(settings, task), resident_size())
                fetches.clear()
                connection.send(looked)
                continue
            answer = _reconcile(reconciler, task)
            connection.send(Done(answer, requests.take(), resident_size()))
    except MemoryError:
        _end(OUT_OF_MEMORY)
    except OSError:
        pass  # the parent is gone
    _end(0)


def _reconcile(reconciler: Reconciler, task: Task) -> Answer:
    place = {"namespace": task.key[0], "bundle": task.key[1]}
    try:
        return reconciler.reconcile(task)
    except ApplypruneError as error:
        LOG.warning(
            "reconcile failed", extra=fields(**place, error=error_message(problems_of(error)))
        )
    except MemoryError:
        raise
    except Exception as error:
        if _NO_THREAD in str(error):
            # Its stack needs memory.
            raise MemoryError from error
        # A bug that one Bundle triggers must not stop the work on all others.
        LOG.exception("reconcile crashed", extra=fields(**place))
    return unwritten(task.past)


def _fetch(settings: WorkerSettings, task: FetchTask) -> Fetched:
    # Here, because the parent names `work` and must stay small.
    from applyprune.controller.fetching.fetch import fetch
    from applyprune.controller.fetching.source_cache import SourceCache

    sources = settings.sources
    if sources is None:
        raise ValueError("no source on another host can be read")
    try:
        return fetch(task, SourceCache(sources.folder, sources.limit))
    except MemoryError:
        raise
    except Exception as error:
        if _NO_THREAD in str(error):
            raise MemoryError from error
        # A bug that one source triggers must not stop the work on all others.
        LOG.exception("fetch crashed")
        reason = f"a bug of applyprune: {type(error).__name__}"
        problem = Problem(
            ProblemKind.FETCH_FAILED, "the source cannot be read", reason=reason, hint=_BUG
        )
        return Fetched(task.tip, problem=problem)


def _listen(
    connection: Connection,
    tasks: SimpleQueue[Task | FetchTask | None],
    reconciler: Reconciler,
    fetches: threading.Event,
) -> None:
    """Pass on what the parent sends; its end ends the reconcile, and soon the process.

    It ends a look at a source at once: nothing is lost with it, and its programs die with it.
    """
    try:
        while True:
            message: Message = connection.recv()
            match message:
                case Task() | FetchTask():
                    tasks.put(message)
                case CutOff(key, generation):
                    reconciler.cut_off(key, generation)
                case End():
                    reconciler.end()
    except MemoryError:
        _end(OUT_OF_MEMORY)
    except (EOFError, OSError):
        if fetches.is_set():
            _end(0)
        # What is in flight is finished and recorded, so that the next replica finds no dead holder.
        reconciler.end()
        tasks.put(None)
        time.sleep(_ORPHANED)
        _end(0)


def _end_with_lost_threads() -> None:
    """End the process if a thread has no memory to begin, or to go on.

    Else the reconcile would wait for it in vain. Another thread looks at what is lost, and its
    queue is written in C: there may be no memory to call a function of Python.
    """
    failures: SimpleQueue[_Failure] = SimpleQueue()
    threading.excepthook = sys.unraisablehook = failures.put
    threading.Thread(
        target=_judge, args=(failures,), name="applyprune-failures", daemon=True
    ).start()


def _judge(failures: SimpleQueue[_Failure]) -> None:
    while True:
        failure = failures.get()
        if issubclass(failure.exc_type, MemoryError) or _NO_THREAD in str(failure.exc_value):
            _end(OUT_OF_MEMORY)
        if isinstance(failure, threading.ExceptHookArgs):
            threading.__excepthook__(failure)
            continue
        if _NOT_BEGUN in (failure.err_msg or ""):  # guard: lost-thread
            # Why is not always told: the end of such a thread fails, too.
            _end(OUT_OF_MEMORY)
        sys.__unraisablehook__(failure)


def _reconciler(settings: WorkerSettings, requests: SentRequests) -> Reconciler:
    # Here, because the parent names `work` and must stay small; the process that is copied has it.
    from applyprune.controller.clusters.other_clusters import OtherClusters
    from applyprune.controller.reconcile.reconciler import Reconciler
    from applyprune.controller.reconcile.source_reader import SourceReader

    access = settings.access
    transport = Transport(
        access,
        pool_size=_POOL,
        retry_budget=RETRY_BUDGET,
        trace=requests.traced,
        agent=settings.agent,
    )
    client = RememberingClient(transport, access.server, cache=settings.cache)
    clusters = OtherClusters(client, settings.addresses, requests.traced, settings.agent)
    bundles = BundleObjects(client)
    reporter = Reporter(bundles, EventRecorder(client), settings.agent)
    sources = SourceReader(settings.sources)
    return Reconciler(bundles, Impersonation(client), clusters, sources, reporter)


def _end(code: int) -> NoReturn:
    # At once: a thread that waits for a server must not hold up the end.
    os._exit(code)

"""A worker process, its limits, and the handle by which the main process holds it.

The main process imports this too, so a worker imports what reads manifests when it needs it. Its
parent may kill it at any time, and so may the kernel: the next run takes the cluster as it is.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from msgspec import Struct, field

from applyprune.addresses import AddressRules
from applyprune.cluster.client import KubernetesClient, Memory
from applyprune.cluster.transport import Transport
from applyprune.controller.clients import BundleObjects, Impersonation
from applyprune.controller.reasons import LOG, RETRY_BUDGET, Key, Limit, fields, log_to_stderr
from applyprune.controller.report import EventRecorder, Reporter
from applyprune.controller.result import error_message
from applyprune.controller.status import unwritten_answer
from applyprune.controller.task import (
    Answer,
    CheckTask,
    Counts,
    FetchResult,
    FetchTask,
    SentRequests,
    SourceSettings,
    Task,
)
from applyprune.errors import ApplypruneError, problems_of
from applyprune.model.problem import Problem, ProblemKind
from applyprune.system.fork_server import UNKNOWN, ForkedProcess, ForkServer
from applyprune.system.processes import lower_limit

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.controller.reconcile import Reconciler


class WorkerSettings(Struct, frozen=True):
    access: ClusterAccess
    """The API server."""
    cache: Path | None
    """The folder of this replica, which all workers share; None if none can be written."""
    agent: str
    """The name of this replica, in the audit log and in the status of Bundles."""
    log_level: str
    limits: WorkerLimits
    addresses: AddressRules = field(default_factory=AddressRules)
    """Which addresses other clusters may have."""
    sources: SourceSettings | None = None
    """How sources on other hosts are read; None if none are."""


# Messages between the two processes.


class CutOff(Struct, frozen=True):
    """A message to a worker: end the reconcile of an older generation; None ends any."""

    key: Key
    generation: int | None


class End(Struct, frozen=True):
    """A message to a worker: end the reconcile, and every later one."""


class Check(Struct, frozen=True):
    """A message to the process that checks sources: check one more."""

    number: int
    task: CheckTask


class EndCheck(Struct, frozen=True):
    """A message to the process that checks sources: nobody waits for a check any more."""

    number: int


Message: TypeAlias = Task | FetchTask | Check | EndCheck | CutOff | End


class WorkerStarted(Struct, frozen=True):
    """The first message from a worker: it takes tasks now."""


class Reconciled(Struct, frozen=True):
    """A message from a worker: the reconcile has ended."""

    answer: Answer
    requests: Counts
    resident: int
    """The bytes of memory that the worker holds."""


class Fetched(Struct, frozen=True):
    """A message from a worker: the look at a source has ended."""

    result: FetchResult
    resident: int
    """The bytes of memory that the worker holds."""


# The worker.


OUT_OF_MEMORY = 86
"""The exit code of a worker that has reached its limit of memory."""
_POOL = 12
"""Connections: those of a run's threads, of the renewal of its lock, and of the controller."""
_NO_THREAD = "can't start new thread"
_BUG = "The log of the controller has more. Please report it."
_ORPHANED = 20.0
"""Seconds in which a worker whose parent has gone finishes its reconcile."""
_Failure: TypeAlias = "threading.ExceptHookArgs | sys.UnraisableHookArgs"
_NOT_BEGUN = "in thread started by"


def work(connection: Connection, settings: WorkerSettings) -> None:
    """Reconcile what the parent sends until it closes the connection."""
    begin_process(settings)
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
        connection.send(WorkerStarted())
        while (task := tasks.get()) is not None:
            limit_cpu(settings.limits)  # guard: limit-cpu
            if isinstance(task, FetchTask):
                fetches.set()
                fetched = Fetched(_fetch(settings, task), resident_size())
                fetches.clear()
                connection.send(fetched)
                continue
            answer = _reconcile(reconciler, task)
            connection.send(Reconciled(answer, requests.take(), resident_size()))
    except MemoryError:
        end_process(OUT_OF_MEMORY)
    except OSError:
        pass  # the parent is gone
    end_process(0)


def begin_process(settings: WorkerSettings) -> None:
    """Prepare this process for its work: it has no core, and a log of its own."""
    be_first_victim()
    write_no_core()
    if settings.cache is not None:
        # If all processes are killed at once, nobody removes private files but the next controller.
        tempfile.tempdir = str(settings.cache)
    log_to_stderr(settings.log_level)
    _end_with_lost_threads()


def _reconciler(settings: WorkerSettings, requests: SentRequests) -> Reconciler:
    # Here, because the parent names `work` and must stay small; the process that is copied has it.
    from applyprune.controller.clusters import OtherClusters
    from applyprune.controller.reconcile import Reconciler
    from applyprune.controller.sources import SourceReader

    access = settings.access
    transport = Transport(
        access,
        pool_size=_POOL,
        retry_budget=RETRY_BUDGET,
        trace=requests.traced,
        agent=settings.agent,
    )
    client = KubernetesClient(transport, access.server, cache=settings.cache, memory=Memory())
    clusters = OtherClusters(client, settings.addresses, requests.traced, settings.agent)
    bundles = BundleObjects(client)
    reporter = Reporter(bundles, EventRecorder(client), settings.agent)
    sources = SourceReader(settings.sources)
    return Reconciler(bundles, Impersonation(client), clusters, sources, reporter)


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
    return unwritten_answer(task.history)


def _fetch(settings: WorkerSettings, task: FetchTask) -> FetchResult:
    # Here, because the parent names `work` and must stay small.
    from applyprune.controller.fetch import SourceCache, fetch_source

    sources = settings.sources
    if sources is None:
        raise ValueError("no source on another host can be read")
    try:
        return fetch_source(task, SourceCache(sources.folder, sources.limit))
    except Exception as error:  # noqa: BLE001
        return FetchResult(problem=problem_of_bug(error))


def problem_of_bug(error: Exception) -> Problem:
    """Return why a source cannot be read: a bug that one triggers must not stop all others.

    Raises MemoryError if that was the reason.
    """
    if isinstance(error, MemoryError):
        raise error
    if _NO_THREAD in str(error):
        raise MemoryError from error
    LOG.error("source not read", exc_info=error)
    reason = f"a bug of applyprune: {type(error).__name__}"
    return Problem(ProblemKind.FETCH_FAILED, "the source cannot be read", reason=reason, hint=_BUG)


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
        end_process(OUT_OF_MEMORY)
    except (EOFError, OSError):
        if fetches.is_set():
            end_process(0)
        # What is in flight is finished and recorded, so that the next replica finds no dead holder.
        reconciler.end()
        tasks.put(None)
        time.sleep(_ORPHANED)
        end_process(0)


def _end_with_lost_threads() -> None:
    """End the process if a thread has no memory to begin, or to go on.

    Else the reconcile would wait for it in vain. Another thread looks at what is lost, and its
    queue is written in C: there may be no memory to call a function of Python.
    """
    failures: SimpleQueue[_Failure] = SimpleQueue()
    threading.excepthook = sys.unraisablehook = failures.put
    threading.Thread(
        target=_end_for_lost_thread, args=(failures,), name="applyprune-failures", daemon=True
    ).start()


def _end_for_lost_thread(failures: SimpleQueue[_Failure]) -> None:
    while True:
        failure = failures.get()
        if issubclass(failure.exc_type, MemoryError) or _NO_THREAD in str(failure.exc_value):
            end_process(OUT_OF_MEMORY)
        if isinstance(failure, threading.ExceptHookArgs):
            threading.__excepthook__(failure)
            continue
        if _NOT_BEGUN in (failure.err_msg or ""):  # guard: lost-thread never
            # Why is not always told: the end of such a thread fails, too.
            end_process(OUT_OF_MEMORY)
        sys.__unraisablehook__(failure)


def end_process(code: int) -> NoReturn:
    """End this process with an exit code."""
    # At once: a thread that waits for a server must not hold up the end.
    os._exit(code)


# The limits of one reconcile: worker processes exist for them.


MIB = 1 << 20
_FIRST_VICTIM = 1000
"""The most that oom_score_adj can be: in a container, its parent has up to 999 by the kubelet."""


class WorkerLimits(Struct, frozen=True):
    """What one reconcile may use."""

    memory: int = 256 * MIB
    """Bytes, beyond those of an idle worker process; the stacks of its threads count too."""
    cpu: float = 120.0
    """Seconds of CPU time."""
    time: float = 180.0
    """Seconds after which it is asked to end; what is left is done by the next reconcile."""
    grace: float = 20.0
    """Seconds that it then has to finish its requests in flight, and to record them."""

    def describe(self, limit: Limit) -> str:
        match limit:
            case Limit.MEMORY:
                return f"{self.memory // MIB} MiB of memory"
            case Limit.CPU:
                return f"{self.cpu:g} s of CPU time"
            case Limit.TIME:
                return f"{self.time:g} s"
            case Limit.CRASH:
                return "an unknown limit"


def limit_memory(limits: WorkerLimits) -> None:
    """Limit the memory of this process, once: a try to get more raises MemoryError."""
    if (used := _of_status("VmData:")) is not None:
        lower_limit(resource.RLIMIT_DATA, used + limits.memory)


def limit_cpu(limits: WorkerLimits) -> None:
    """Let the kernel end this process when it uses more CPU time from now on."""
    lower_limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + limits.cpu))


def write_no_core() -> None:
    """Let no limit write the memory of this process to a disk: it may hold Secrets."""
    lower_limit(resource.RLIMIT_CORE, 0)


def be_first_victim() -> None:
    """Let the kernel kill this process before its parent when the machine has no memory left.

    Where that may not be written, it is killed no later than its parent.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_FIRST_VICTIM))


def resident_size() -> int:
    """Return the bytes of memory that this process holds now; 0 where that is unknown."""
    return _of_status("VmRSS:") or 0


def _of_status(name: str) -> int | None:
    """Return a size from /proc in bytes; None where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(name)]
    return int(sizes[0]) * 1024 if sizes else None


# The parent's side: start a process, give it tasks, and end it at a limit.


_START = 60.0
"""Seconds in which a worker must have started."""
_MOST_RESIDENT = 160 * MIB
"""Bytes beyond which an idle worker is replaced: memory of a large Bundle does not come back."""
_JOIN = 5.0
_MOST_MESSAGES = 100
"""Messages about one task, at most: a worker that reads none must not hold up its parent."""


def worker_context() -> ForkServer:
    """Return the context that starts workers: each is a copy of a process with all modules."""
    return ForkServer("applyprune.controller.worker_preload")


class WorkerHandle(Struct):
    """One worker process, which is started again after it has ended.

    One thread starts it and gives it tasks. ``cut_off``, ``end`` and ``kill`` may be called from
    others.
    """

    context: ForkServer
    settings: WorkerSettings
    target: Callable[[Connection, WorkerSettings], None] = work
    """What the process does."""
    _process: ForkedProcess | None = None
    _connection: Connection | None = None
    _messages: int = 0
    _ending: bool = False
    _lock: Lock = field(default_factory=Lock)

    def start(self) -> None:
        """Start the process, unless it runs; raises WorkerUnavailable."""
        if self._connection is not None:
            if not self._connection.poll(0):
                return
            # It has ended while it was idle, for example because the machine had no memory left.
            self._close(0.0)
        if self._ending:
            raise WorkerUnavailable("the controller is stopping")
        try:
            connection = self._launch()
        except (OSError, EOFError) as error:
            reason = str(error) or type(error).__name__
            raise WorkerUnavailable("a worker process cannot be started", reason=reason) from error
        try:
            ended = not (connection.poll(_START) and isinstance(connection.recv(), WorkerStarted))
        except (EOFError, OSError):
            ended = True
        if ended:
            self.kill()
            code = self._close(_JOIN)
            raise WorkerUnavailable(
                "a worker process ended when it was started", reason=f"exit code {code}"
            )

    def _launch(self) -> Connection:
        process, connection = self.context.start(self.target, self.settings)
        with self._lock:
            self._process, self._connection = process, connection
        return connection

    def reconcile(self, task: Task) -> Reconciled:
        """Reconcile a Bundle; raises LimitExceeded if the process had to be ended.

        Raises WorkerUnavailable if none can be started, or the controller is stopping.
        """
        done = self._do(task)
        if not isinstance(done, Reconciled):
            raise TypeError("the worker has answered something else")
        return done

    def fetch(self, task: FetchTask) -> FetchResult:
        """Look at a source on another host; raises as ``reconcile`` does."""
        fetched = self._do(task)
        if not isinstance(fetched, Fetched):
            raise TypeError("the worker has answered something else")
        return fetched.result

    def _do(self, task: Task | FetchTask) -> Reconciled | Fetched:
        self.start()
        connection, limits = self._connection, self.settings.limits
        ends = time.monotonic() + limits.time
        if connection is None or not self.send(task):
            raise WorkerUnavailable("the worker process ended before it got the task")
        self._messages = 0
        if self._ending:
            # `end` may have come before the task.
            self.send(End())
        done = self._received(connection, ends)
        if done is None:
            if isinstance(task, Task):
                self.send(CutOff(task.key, None))
                done = self._received(connection, ends + limits.grace)
            if done is None:
                self.kill()
                self._close(_JOIN)
            if done is None or (isinstance(done, Reconciled) and done.answer.measured is None):
                took = f"it took longer than {limits.describe(Limit.TIME)}"
                raise LimitExceeded(Limit.TIME, took)
        if done.resident > _MOST_RESIDENT:
            self._close(_JOIN)
        return done

    def _received(self, connection: Connection, ends: float) -> Reconciled | Fetched | None:
        """Return the message of the worker, or None at that time; LimitExceeded if it has died."""
        try:
            if not connection.poll(max(0.0, ends - time.monotonic())):
                return None
            done: Reconciled | Fetched = connection.recv()
        except (EOFError, OSError):
            raise self.ended() from None
        return done

    def ended(self) -> LimitExceeded | WorkerUnavailable:
        """Return why the process has ended, whose connection is at its end."""
        code = self._close(_JOIN)
        if self._ending:
            return WorkerUnavailable("the controller is stopping")
        return self._death(code)

    def _death(self, code: int | None) -> LimitExceeded:
        """Return the error for the exit code of a worker that has died in a reconcile."""
        limits = self.settings.limits
        names = {-one.value: one.name for one in signal.Signals}
        how = names.get(code or 0, f"exit code {code}")
        if code == OUT_OF_MEMORY:
            limit = Limit.MEMORY
        elif how == "SIGXCPU":
            limit = Limit.CPU
        else:
            return LimitExceeded(
                Limit.CRASH, f"its process ended with {how}: it may have run out of memory"
            )
        return LimitExceeded(limit, f"it needed more than {limits.describe(limit)}")

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the reconcile of an older generation of a Bundle; None ends any."""
        if self._messages < _MOST_MESSAGES:
            self._messages += 1
            self.send(CutOff(key, generation))

    def end(self) -> None:
        """Let the reconcile finish its requests in flight and end, and start no other."""
        self._ending = True
        self.send(End())

    def kill(self) -> None:
        with self._lock:
            if self._process is not None:
                _kill(self._process)

    @property
    def connection(self) -> Connection | None:
        """Return the connection to the process; None if it does not run."""
        return self._connection

    def send(self, message: Message) -> bool:
        """Send a message; False if the process has ended."""
        with self._lock:
            if self._connection is None:
                return False
            try:
                self._connection.send(message)
            except OSError:
                return False
        return True

    def _close(self, seconds: float) -> int | None:
        """Let the process end, for so long; then kill it. Return its exit code."""
        with self._lock:
            process, connection = self._process, self._connection
            self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is None:
            return None
        if not wait([process.sentinel], seconds):
            _kill(process)
            wait([process.sentinel], _JOIN)
        code = process.exitcode
        process.close()
        return code


def _kill(process: ForkedProcess) -> None:
    if process.exitcode in {None, UNKNOWN}:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


class LimitExceeded(ApplypruneError):
    """A worker process was ended in the middle of a reconcile."""

    kind = ProblemKind.LIMIT_EXCEEDED

    def __init__(self, limit: Limit, text: str) -> None:
        super().__init__(text)
        self.limit = limit


class WorkerUnavailable(ApplypruneError):
    """No worker process could take the task, for no reason of the Bundle's."""

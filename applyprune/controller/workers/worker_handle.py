"""The parent's side of a worker process: start it, give it tasks, and end it at a limit."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from multiprocessing.connection import wait
from threading import Lock

from applyprune.controller.constants import Key, Limit
from applyprune.controller.fetching.fetch_task import Fetched, FetchTask
from applyprune.controller.task import Task
from applyprune.controller.workers.limits import MIB
from applyprune.controller.workers.worker import (
    OUT_OF_MEMORY,
    CutOff,
    Done,
    End,
    Looked,
    Message,
    Started,
    WorkerSettings,
    work,
)
from applyprune.errors import ApplypruneError
from applyprune.model.problem import ProblemKind
from applyprune.system.fork_server import Connection, ForkedProcess, ForkServer, fork_server
from applyprune.system.processes import kill
from applyprune.values import dataclass, field

_PRELOADED = "applyprune.controller.workers.preloaded"
_START = 60.0
"""Seconds in which a worker must have started."""
_UNKNOWN = 255
"""The exit code of a process whose end nobody sees: the process that has forked it is gone."""
_MOST_RESIDENT = 160 * MIB
"""Bytes beyond which an idle worker is replaced: memory of a large Bundle does not come back."""
_JOIN = 5.0
_MOST_TOLD = 100
"""Messages about one task, at most: a worker that reads none must not hold up its parent."""
# Of all handles, because multiprocessing looks at all of its processes when it starts one.
_PROCESSES = Lock()


class LimitExceeded(ApplypruneError):
    """A worker process was ended in the middle of a reconcile."""

    kind = ProblemKind.LIMIT_EXCEEDED

    def __init__(self, limit: Limit, text: str) -> None:
        """Keep the limit."""
        super().__init__(text)
        self.limit = limit


class WorkerUnavailable(ApplypruneError):
    """No worker process could take the task, for no reason of the Bundle's."""


def worker_context() -> ForkServer:
    """Return the context that starts workers: each is a copy of a process with all modules."""
    return fork_server(_PRELOADED)


@dataclass(slots=True)
class WorkerHandle:
    """One worker process, which is started again after it has ended.

    One thread starts it and gives it tasks. ``cut_off``, ``end`` and ``kill`` may be called from
    others.
    """

    context: ForkServer
    settings: WorkerSettings
    _process: ForkedProcess | None = None
    _connection: Connection | None = None
    _told: int = 0
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
            ended = not (connection.poll(_START) and isinstance(connection.recv(), Started))
        except (EOFError, OSError):
            ended = True
        if ended:
            self.kill()
            code = self._close(_JOIN)
            raise WorkerUnavailable(
                "a worker process ended when it was started", reason=f"exit code {code}"
            )

    def reconcile(self, task: Task) -> Done:
        """Reconcile a Bundle; raises LimitExceeded if the process had to be ended.

        Raises WorkerUnavailable if none can be started, or the controller is stopping.
        """
        done = self._do(task)
        if not isinstance(done, Done):
            raise TypeError("the worker has answered something else")
        return done

    def fetch(self, task: FetchTask) -> Fetched:
        """Look at a source on another host; raises as ``reconcile`` does."""
        looked = self._do(task)
        if not isinstance(looked, Looked):
            raise TypeError("the worker has answered something else")
        return looked.fetched

    def _do(self, task: Task | FetchTask) -> Done | Looked:
        self.start()
        connection, limits = self._connection, self.settings.limits
        ends = time.monotonic() + limits.time
        if connection is None or not self._send(task):
            raise WorkerUnavailable("the worker process ended before it got the task")
        self._told = 0
        if self._ending:
            # `end` may have come before the task.
            self._send(End())
        done = self._received(connection, ends)
        if done is None:
            if isinstance(task, Task):
                self._send(CutOff(task.key, None))
                done = self._received(connection, ends + limits.grace)
            if done is None:
                self.kill()
                self._close(_JOIN)
            if done is None or not _has_result(done):
                took = f"it took longer than {limits.describe(Limit.TIME)}"
                raise LimitExceeded(Limit.TIME, took)
        if done.resident > _MOST_RESIDENT:
            self._close(_JOIN)
        return done

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the reconcile of an older generation of a Bundle; None ends any."""
        if self._told < _MOST_TOLD:
            self._told += 1
            self._send(CutOff(key, generation))

    def end(self) -> None:
        """Let the reconcile finish its requests in flight and end, and start no other."""
        self._ending = True
        self._send(End())

    def kill(self) -> None:
        """Kill the process."""
        with self._lock:
            if self._process is not None:
                with _PROCESSES:
                    _kill(self._process)

    def _launch(self) -> Connection:
        ours, theirs = self.context.Pipe()
        try:
            with _PROCESSES:
                process = self.context.Process(
                    target=work, args=(theirs, self.settings), name="applyprune-worker", daemon=True
                )
                process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        with self._lock:
            self._process, self._connection = process, ours
        return ours

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
            with _PROCESSES:
                _kill(process)
            wait([process.sentinel], _JOIN)
        with _PROCESSES:
            code = process.exitcode
            if code is not None:
                process.close()
        return code

    def _send(self, message: Message) -> bool:
        """Send a message; False if the process has ended."""
        with self._lock:
            if self._connection is None:
                return False
            try:
                self._connection.send(message)
            except OSError:
                return False
        return True

    def _received(self, connection: Connection, ends: float) -> Done | Looked | None:
        """Return the message of the worker, or None at that time; LimitExceeded if it has died."""
        try:
            if not connection.poll(max(0.0, ends - time.monotonic())):
                return None
            done: Done | Looked = connection.recv()
        except (EOFError, OSError):
            code = self._close(_JOIN)
            if self._ending:
                raise WorkerUnavailable("the controller is stopping") from None
            raise self._death(code) from None
        return done

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
                Limit.CRASH, f"its process ended with {how}, perhaps for lack of memory"
            )
        return LimitExceeded(limit, f"it needed more than {limits.describe(limit)}")


def _has_result(done: Done | Looked) -> bool:
    return not isinstance(done, Done) or done.answer.measured is not None


def _kill(process: ForkedProcess) -> None:
    if process.exitcode in {None, _UNKNOWN} and process.pid is not None:
        with suppress(ProcessLookupError):
            kill(process.pid)

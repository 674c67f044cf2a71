"""The process that checks sources on other hosts, many at once, and the handle that holds it.

A check that waits for a server holds a thread there, and no worker. It ends soon after the last
Bundle that waits for it has gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread

from msgspec import Struct, field

from applyprune.clock import CLOCK
from applyprune.controller.reasons import Limit
from applyprune.controller.task import CheckResult, CheckTask
from applyprune.controller.worker import (
    OUT_OF_MEMORY,
    Check,
    EndCheck,
    LimitExceeded,
    WorkerHandle,
    WorkerSettings,
    WorkerStarted,
    WorkerUnavailable,
    begin_process,
    end_process,
    limit_cpu,
    limit_memory,
    problem_of_bug,
)
from applyprune.http import TICK, Stopped

_STACK = 1 << 20
"""Bytes for the stack of a thread: each counts for the memory of the process."""
_GRACE = 10.0
"""Seconds after its time in which a check must have ended; else the process is ended."""


class Checked(Struct, frozen=True):
    """A message from the process: a check has ended."""

    number: int
    result: CheckResult


def check_sources(connection: Connection, settings: WorkerSettings) -> None:
    """Check what the parent sends, each in a thread, until it closes the connection."""
    begin_process(settings)
    threading.stack_size(_STACK)
    limit_memory(settings.limits)
    sends, unwanted = Lock(), dict[int, Event]()
    try:
        connection.send(WorkerStarted())
        while True:
            match connection.recv():
                case Check() as asked:
                    limit_cpu(settings.limits)
                    unwanted[asked.number] = Event()
                    arguments = (connection, sends, asked, unwanted)
                    Thread(target=_check, args=arguments, daemon=True).start()
                case EndCheck(number) if (known := unwanted.get(number)) is not None:
                    known.set()
    except (MemoryError, RuntimeError):
        # No thread can be started.
        end_process(OUT_OF_MEMORY)
    except (EOFError, OSError):
        end_process(0)  # the parent is gone


def _check(connection: Connection, sends: Lock, asked: Check, unwanted: dict[int, Event]) -> None:
    # Here, because the parent names `check_sources` and must stay small.
    from applyprune.controller.fetch import check_source

    is_unwanted = unwanted[asked.number].is_set
    try:
        try:
            result = check_source(asked.task, is_wanted=lambda: not is_unwanted())
        except Stopped:
            result = CheckResult(asked.task.tip)
        except Exception as error:  # noqa: BLE001
            result = CheckResult(asked.task.tip, problem=problem_of_bug(error))
        del unwanted[asked.number]
        with sends:
            connection.send(Checked(asked.number, result))
    except MemoryError:
        end_process(OUT_OF_MEMORY)
    except OSError:
        end_process(0)


class Checker(Struct):
    """Holds the process, which is started again after it has ended; thread-safe."""

    handle: WorkerHandle
    _waiting: dict[int, SimpleQueue[CheckResult | LimitExceeded | WorkerUnavailable]] = field(
        default_factory=dict
    )
    _numbers: count[int] = field(default_factory=count)
    _reader: Thread | None = None
    _lock: Lock = field(default_factory=Lock)

    def check(self, task: CheckTask, is_wanted: Callable[[], bool]) -> CheckResult:
        """Check a source; raises LimitExceeded if the process had to be ended.

        Once ``is_wanted`` returns false, the check is ended, and its result means nothing. Raises
        WorkerUnavailable if no process can be started, or the controller is stopping.
        """
        answer: SimpleQueue[CheckResult | LimitExceeded | WorkerUnavailable] = SimpleQueue()
        number = next(self._numbers)
        with self._lock:
            self._start()
            self._waiting[number] = answer
            self.handle.send(Check(number, task))
        ends, is_ending = CLOCK.now() + task.timeout + _GRACE, False
        try:
            while CLOCK.now() < ends:
                with suppress(Empty):
                    found = answer.get(timeout=TICK)
                    if isinstance(found, CheckResult):
                        return found
                    raise found
                if not is_ending and not is_wanted():  # guard: unfollowed-check never
                    is_ending = self.handle.send(EndCheck(number))
        finally:
            self._waiting.pop(number, None)
        self.handle.kill()
        raise LimitExceeded(Limit.TIME, f"it took longer than {task.timeout:g} s")

    def end(self) -> None:
        """Start no process any more, and end the one that runs: nothing is lost with it."""
        self.handle.end()
        self.handle.kill()

    def _start(self) -> None:
        if self._reader is not None:
            return
        self.handle.start()
        if (connection := self.handle.connection) is None:
            raise WorkerUnavailable("the process that checks sources has ended")
        self._reader = Thread(
            target=self._read, args=(connection,), name="applyprune-checked", daemon=True
        )
        self._reader.start()

    def _read(self, connection: Connection) -> None:
        """Give each result to the thread that waits for it, until the process has ended."""
        try:
            while True:
                done: Checked = connection.recv()
                if (answer := self._waiting.get(done.number)) is not None:
                    answer.put(done.result)
        except (EOFError, OSError):
            with self._lock:
                error, self._reader = self.handle.ended(), None
                for answer in self._waiting.values():
                    answer.put(error)

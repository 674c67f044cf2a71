"""A process that has loaded modules once, and whose copies start with them: they share its memory.

It is a copy itself of the process that wants them, if that begins early enough: a copy of a process
with several threads has locks that nobody opens. Else, and after its death, another one is started.

The fork server of ``multiprocessing`` with its list of modules was tried (2026-11, Python 3.11). It
is always a new interpreter, which shares nothing with the process that wants the copies, and has a
resource tracker beside it: a controller with four idle workers took 90 MiB in place of 57 (PSS), a
worker 11.1 in place of 9.2, of which 5.3 in place of 3.2 are its own, and the first one had started
after 0.5 s in place of 0.03. And it listens at a socket in a temporary folder: where no disk can be
written, it cannot start a worker.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from threading import Lock, active_count
from typing import Any, NoReturn, TypeAlias

from msgspec import Struct, field

UNKNOWN = 255
"""The exit code of a process whose end nobody has seen: the process that has forked it is gone."""
_NUMBER = 8
"""Bytes of each number in a report: the process ID, and later the exit code."""
_NOT_FORKED = -1
"""What is reported in place of a process ID where the system allows no process more."""
_CYCLES = (700, 10, 10)
"""The thresholds of Python itself, most of whose versions have these."""
_FORKS: bool = sys.platform == "linux"
"""Whether a process may go on as a copy: on macOS, libraries may fail in one."""

Target: TypeAlias = Callable[..., None]
"""What a copy does, with its connection and the arguments; it can be pickled by its name."""


class ForkedProcess(Struct):
    """A copy; it ends with the code 1 if its target raises, and 0 if that returns."""

    pid: int
    sentinel: int
    """A file that can be read once it has ended."""
    _code: int | None = None

    @property
    def exitcode(self) -> int | None:
        """Return its exit code, or the negative number of the signal; None while it runs."""
        if self._code is None and wait([self.sentinel], 0):
            code = _read(self.sentinel)
            self._code = UNKNOWN if code is None else code
        return self._code

    def close(self) -> None:
        os.close(self.sentinel)


def _read(file: int) -> int | None:
    data = os.read(file, _NUMBER)
    return int.from_bytes(data, "little", signed=True) if len(data) == _NUMBER else None


class ForkServer(Struct):
    """Starts the process, and copies of it; thread-safe."""

    module: str
    """The module that imports all others which the copies need."""
    _lifeline: socket.socket | None = None
    """Its end is the end of the process, and of this one for that."""
    _pid: int = 0
    _lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Load the modules, and become two processes: the other one forks the copies.

        This one must have no thread yet, and no file open that the copies must not have. Where
        no such copy may be made, the first use starts the process.
        """
        if not _FORKS or active_count() > 1:  # guard: fork-without-threads -> not _FORKS
            return
        _load(self.module)
        self._lifeline, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            self._lifeline.close()
            _serve(theirs)
        theirs.close()

    def close(self) -> None:
        """End the process; its copies end with their connections."""
        with self._lock:
            if self._lifeline is not None:
                self._lifeline.close()
                self._lifeline = None

    def start(self, target: Target, *args: object) -> tuple[ForkedProcess, Connection]:
        """Start a copy; return it with the other end of its connection. Raises OSError."""
        # The process may end between the look at it and the request.
        made = self._fork() or self._fork()
        if made is None:
            raise ChildProcessError("the process that forks ends at once")
        process, connection = made
        with ExitStack() as unless_started:
            unless_started.callback(process.close)
            unless_started.callback(connection.close)
            if process.pid == _NOT_FORKED:
                raise ChildProcessError("no process can be forked")
            connection.send((target, args))
            unless_started.pop_all()
        return made

    def _fork(self) -> tuple[ForkedProcess, Connection] | None:
        """Return a copy that waits for its target; None if the process has ended meanwhile."""
        with ExitStack() as unless_forked:
            result, report = os.pipe()
            unless_forked.callback(os.close, result)
            ours, theirs = socket.socketpair()
            connection = Connection(ours.detach())
            unless_forked.callback(connection.close)
            try:
                with self._lock:
                    lifeline = self._running()
                    with suppress(ConnectionError):
                        socket.send_fds(lifeline, [b"+"], [theirs.fileno(), report])
            finally:
                theirs.close()
                os.close(report)
            pid = _read(result)
            if pid is None:
                self._end(lifeline)
                return None
            unless_forked.pop_all()
        return ForkedProcess(pid, result), connection

    def _end(self, lifeline: socket.socket) -> None:
        """See to it that the process of this lifeline is not asked again."""
        with self._lock:
            if self._lifeline is lifeline:
                lifeline.close()
                self._lifeline = None
                os.waitpid(self._pid, 0)

    def _running(self) -> socket.socket:
        """Return the connection to the process, which is started if it does not run."""
        if self._lifeline is not None:
            return self._lifeline
        ours, theirs = socket.socketpair()
        # Their end is its standard input: every other file is closed.
        files = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; "
        command = [sys.executable, "-P", "-c", f"{code}main({self.module!r})"]
        with theirs:
            try:
                self._pid = os.posix_spawn(command[0], command, os.environ, file_actions=files)
            except BaseException:
                ours.close()
                raise
        self._lifeline = ours
        return ours


# The process.


def main(module: str) -> NoReturn:
    """Be the process, for one that has its lifeline at our standard input."""
    lifeline = socket.socket(fileno=os.dup(0))
    _load(module)
    _serve(lifeline)


def _load(module: str) -> None:
    import_module(module)
    # A process that lives long must look for cycles more often than a command does.
    gc.set_threshold(*_CYCLES)  # guard: cycles-of-copies
    # The copies share these pages as long as no collection of theirs writes to them.
    gc.collect()
    gc.freeze()


def _serve(lifeline: socket.socket) -> NoReturn:
    """Start a copy for each request, and report its end, until the parent has gone."""
    code = 1
    try:
        # A signal to the whole group is the parent's to handle.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.close(nothing)
        _serve_all(lifeline)
        code = 0
    except Exception:  # noqa: BLE001
        traceback.print_exc()
    finally:
        # Whatever the parent does at its own end, this copy of it does not.
        os._exit(code)


def _serve_all(lifeline: socket.socket) -> None:
    woken, waker = socket.socketpair()
    waker.setblocking(False)  # noqa: FBT003 - the function has no other form
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    # Without a handler, the signal wakes nothing.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_ended(reports)
        if lifeline not in ready:
            continue
        asked, files, _, _ = socket.recv_fds(lifeline, 1, 2)
        if not asked:
            # The copies end too, and their signals must find no closed socket.
            signal.set_wakeup_fd(-1)
            return
        connection, report = files
        try:
            pid = os.fork()
        except OSError:
            pid = _NOT_FORKED
        if not pid:
            _run(connection, [lifeline, woken, waker], [report, *reports.values()])
        os.close(connection)
        _report(report, pid)
        if pid == _NOT_FORKED:
            os.close(report)
        else:
            reports[pid] = report


def _report_ended(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        _report(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _report(file: int, number: int) -> None:
    with suppress(OSError):  # nobody reads it any more
        os.write(file, number.to_bytes(_NUMBER, "little", signed=True))


# A copy.


def _run(connection: int, sockets: list[socket.socket], files: list[int]) -> NoReturn:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in sockets:
            one.close()
        for file in files:
            os.close(file)
        ours = Connection(connection)
        given: tuple[Target, tuple[Any, ...]] = ours.recv()
        target, args = given
        target(ours, *args)
        code = 0
    except EOFError:
        pass  # the parent is gone
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)

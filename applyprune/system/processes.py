"""Programs and processes: run and limit them, end them with all that they have started, lock files.

Where ``prlimit`` or ``setpriv`` (util-linux) is missing, as on macOS, only time and output are
limited.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from applyprune.clock import CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType


def run_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    deadline: float,
    max_output: int,
    pass_fds: Sequence[int] = (),
    cwd: str | None = "/",
    guard: ProcessGuard | None = None,
) -> FinishedProcess:
    """Run a program, without a shell and with no other environment, and return how it has ended.

    ``deadline`` is an instant of ``CLOCK``; ``max_output`` is in bytes. Raises
    TimeoutError, TooMuchOutput, and OSError if it cannot be started. In every case, its process
    group is killed before this function returns; by the ``guard`` also if this process is killed.
    """

    def check(_data: bytes, size: int) -> None:
        if size > max_output:
            raise TooMuchOutput

    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Without a terminal to ask at; and what it starts is killed with it.
        start_new_session=True,
        cwd=cwd,
        env=dict(env),
        pass_fds=pass_fds,
        bufsize=0,
    ) as process:
        try:
            if guard is not None:
                guard.add(process.pid)
            out, err = exchange(process, partial(_left, deadline), check, stdin)
            code = process.wait(_left(deadline))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            # Its number is taken until it was waited for; then the group may still have others.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if guard is not None:
                guard.forget(process.pid)
    return FinishedProcess(code, out, err)


class FinishedProcess(Struct, frozen=True):
    """How a program has ended."""

    code: int
    """Its exit code; the negative number of the signal that has killed it."""
    stdout: bytes
    stderr: bytes
    """The first ``MOST_ERRORS`` of it. It may contain parts of the input."""


class TooMuchOutput(Exception):
    """The program has written more than it may; it was killed."""


MOST_ERRORS = 64 * 1024
"""How many bytes are kept of what a program writes to standard error."""
_CHUNK = 64 * 1024


def exchange(
    process: subprocess.Popen[bytes],
    left: Callable[[], float],
    check: Callable[[bytes, int], None],
    stdin: bytes = b"",
    errors: slice = slice(MOST_ERRORS),
) -> tuple[bytes, bytes]:
    """Write the input while the output is read; return the output and a part of the errors.

    ``left`` returns the seconds until the deadline, or raises. ``check`` gets each piece of the
    output, with the size of all of it so far, and raises if that is too much.
    """
    out, err, rest = bytearray(), b"", memoryview(stdin)
    with selectors.DefaultSelector() as waiting:
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            waiting.register(process.stdin, selectors.EVENT_WRITE)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                waiting.register(stream, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select(left()):
                if key.fileobj is process.stdin:
                    rest = _written(key.fd, rest)
                    if not rest:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, _CHUNK)
                if not data:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    err = (err + data)[errors]
                else:
                    out += data
                    check(data, len(out))
    return bytes(out), err


def _written(fd: int, rest: memoryview) -> memoryview:
    """Write a part of the input; return what is left: nothing if nobody reads it any more."""
    try:
        return rest[os.write(fd, rest[:_CHUNK]) :]
    except BrokenPipeError:
        return rest[:0]


def _left(deadline: float) -> float:
    """Return the seconds until the deadline; raise TimeoutError if it has passed."""
    left = deadline - CLOCK.now()
    if left <= 0:
        raise TimeoutError
    return left


# Limits of a process.


class ProcessLimits(Struct, frozen=True):
    """What one process may use."""

    memory: int = 2**30
    """Bytes that it may allocate."""
    cpu: int = 60
    """Seconds of computing, of all its threads together."""
    file_size: int = 0
    """Bytes of one file that it writes; pipes are not counted."""
    files: int = 64
    """How many files it may have open."""
    address_space: int = 0
    """Bytes of addresses; 0 for no limit: a program in Go reserves gigabytes that it never uses."""

    def command(self) -> Sequence[str]:
        """Return the words before a command that runs with these limits; none where no program can.

        The command dies with the thread that starts it. What it starts itself does not.
        """
        command: list[str] = []
        if program := shutil.which("setpriv"):
            command += [program, "--pdeathsig", "KILL", "--"]
        if program := shutil.which("prlimit"):
            limits = {
                "data": (resource.RLIMIT_DATA, self.memory),
                "cpu": (resource.RLIMIT_CPU, self.cpu),
                "fsize": (resource.RLIMIT_FSIZE, self.file_size),
                "nofile": (resource.RLIMIT_NOFILE, self.files),
                "core": (resource.RLIMIT_CORE, 0),
            }
            if self.address_space:
                limits["as"] = (resource.RLIMIT_AS, self.address_space)
            command += [program]
            for name, (what, wanted) in limits.items():
                allowed = within_hard_limit(what, wanted)
                command.append(f"--{name}={allowed}:{allowed}")
            command.append("--")
        return command


def within_hard_limit(what: int, wanted: int) -> int:
    """Return the limit that is wanted, or the one that this process cannot exceed."""
    _, hard = resource.getrlimit(what)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def lower_limit(what: int, value: int) -> None:
    """Set a limit of this process, within the one that it cannot exceed."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (within_hard_limit(what, value), hard))


# Kill the child processes when this process ends, even by SIGKILL, and remove their private folder.
#
# A parent death signal reaches a child, but not what the child starts: git starts others that wait
# for the network. So a small process waits for the end of a pipe, which the kernel closes.


# Each line of its input is + or - and a process group. A shell, which is everywhere and small: many
# of them may wait at once.
_PROGRAM = """
groups=
while read -r sign group; do
    if [ "$sign" = + ]; then
        groups="$groups $group"
        continue
    fi
    left=
    for one in $groups; do
        [ "$one" = "$group" ] || left="$left $one"
    done
    groups=$left
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
rm -rf -- "$1"
"""


class ProcessGuard:
    """A process that outlives this one for a moment; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Start it; ``folder`` is removed at the end."""
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _PROGRAM, "sh", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            # The system's own programs first; some systems have theirs elsewhere.
            env={"PATH": f"{os.defpath}:{os.environ.get('PATH', os.defpath)}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End it: the groups that are left are killed, and the folder has gone."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def add(self, group: int) -> None:
        """Have a process group killed when this process ends."""
        self._say(f"+ {group}\n")

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group of a process that was added, and wait for the process.

        The process is not waited for before its group was killed: until then its number is taken.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self.forget(process.pid)
        process.wait()

    def forget(self, group: int) -> None:
        """Leave a process group that has ended alone: its number may be another's."""
        with contextlib.suppress(OSError):
            self._say(f"- {group}\n")

    def _say(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise BrokenPipeError
        os.write(stdin.fileno(), line.encode())


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""They ask a program to stop: Ctrl-C, and the end of a Pod."""


def try_lock(descriptor: int, *, is_shared: bool = False) -> bool:
    """Return whether the lock of an open file is ours now; False if another process holds it.

    It lasts until every process that has the file open has closed it, or ended. Any number may
    hold it together if it ``is_shared``. Raises OSError.
    """
    try:
        flock(descriptor, (LOCK_SH if is_shared else LOCK_EX) | LOCK_NB)
    except BlockingIOError:
        return False
    return True

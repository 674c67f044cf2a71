"""Run a program on input that is not trusted: with limits, and never longer than its caller.

Used for sops and for builds; git has the same limits. They are those of util-linux: where
``prlimit`` or ``setpriv`` is missing, as on macOS, only time and output are limited.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from applyprune.clock import CLOCK
from applyprune.system.processes import kill_group
from applyprune.system.resource_limits import Resource, within_hard_limit
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_STDERR = 16 * 1024
_CHUNK = 64 * 1024


class TooMuchOutput(Exception):
    """The program has written more than it may; it was killed."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
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
        """Return the beginning of a command that limits the rest; empty where no program can.

        The rest dies with the thread that starts it. What the rest starts does not.
        """
        command: list[str] = []
        if program := shutil.which("setpriv"):
            command += [program, "--pdeathsig", "KILL", "--"]
        if program := shutil.which("prlimit"):
            limits = {
                Resource.DATA: self.memory,
                Resource.CPU: self.cpu,
                Resource.FILE_SIZE: self.file_size,
                Resource.FILES: self.files,
                Resource.CORE: 0,
            }
            if self.address_space:
                limits[Resource.ADDRESS_SPACE] = self.address_space
            command += [program]
            for what, wanted in limits.items():
                allowed = within_hard_limit(what, wanted)
                command.append(f"--{what}={allowed}:{allowed}")
            command.append("--")
        return command


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program has ended."""

    code: int
    """Its exit code; the negative number of the signal that has killed it."""
    stdout: bytes
    stderr: str
    """The end of it. It may contain parts of the input: never show it."""


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    deadline: float,
    max_output: int,
    limits: ProcessLimits | None = None,
    pass_fds: Sequence[int] = (),
) -> Finished:
    """Run a program, without a shell and with no other environment, and return how it has ended.

    ``deadline`` is an instant of ``CLOCK``; ``max_output`` is in bytes. Raises
    TimeoutError, TooMuchOutput, and OSError if it cannot be started. In every case, its process
    group is killed before this function returns.
    """

    def check(_data: bytes, size: int) -> None:
        if size > max_output:
            raise TooMuchOutput

    with subprocess.Popen(
        [*(limits or ProcessLimits()).command(), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Without a terminal to ask at; and what it starts is killed with it.
        start_new_session=True,
        cwd="/",
        env=dict(env),
        pass_fds=pass_fds,
        bufsize=0,
    ) as process:
        try:
            out, err = exchange(process, partial(_left, deadline), check, stdin)
            code = process.wait(_left(deadline))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            # Its number is taken until it was waited for; then the group may still have others.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill_group(process.pid)
    return Finished(code, out, err)


def exchange(
    process: subprocess.Popen[bytes],
    left: Callable[[], float],
    check: Callable[[bytes, int], None],
    stdin: bytes = b"",
) -> tuple[bytes, str]:
    """Write the input while the output is read; return the output and the end of the errors.

    ``left`` returns the seconds until the deadline, or raises. ``check`` gets each piece of the
    output, with the size of all of it so far, and raises if that is too much.
    """
    out, err, rest = bytearray(), b"", memoryview(stdin)
    with selectors.DefaultSelector() as waiting:
        if process.stdin is not None:
            if sys.platform != "win32":  # where no such program is run
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
                    err = (err + data)[-_STDERR:]
                else:
                    out += data
                    check(data, len(out))
    return bytes(out), err.decode("utf-8", "replace")


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

"""Run a command, and return what it cost: seconds, CPU seconds, and memory."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LAUNCHER = Path(__file__).with_name("launcher.py")
_ROWS, _COLUMNS = 24, 100
_LIMIT = 1800
"""Seconds after which a command is killed: it has failed, and the others still have their turn."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process has cost, and how it ended."""

    code: int
    seconds: float
    cpu: float
    """CPU seconds of the process and all that it has started and awaited."""
    memory: int
    """The most bytes that one process of them has held (``ru_maxrss``)."""
    output: str
    """Both streams; on a terminal they are one."""


def cost_of(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    terminal: bool = False,
    limit: int = _LIMIT,
) -> Cost:
    """Run a command to its end; with ``terminal``, on a pseudo-terminal of its own."""
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as output:
        if terminal:
            ours, inner = os.openpty()
            fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        else:
            ours, inner = -1, os.dup(output.fileno())
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", _LAUNCHER, str(result.fileno())),
                "terminal" if terminal else "file",
                str(limit),
                *command,
            ],
            stdin=inner if terminal else subprocess.DEVNULL,
            stdout=inner,
            stderr=inner,
            env=dict(environment),
            pass_fds=[result.fileno()],
        )
        os.close(inner)
        reader = Thread(target=_keep, args=(ours, output.fileno()))
        if terminal:
            reader.start()
        process.wait()
        if terminal:
            reader.join()
            os.close(ours)
        result.seek(0)
        code, seconds, cpu, kilobytes = result.read().decode().split()
        output.seek(0)
        said = output.read().decode(errors="replace").replace("\r\n", "\n")
    return Cost(int(code), float(seconds), float(cpu), int(kilobytes) << 10, said)


def _keep(terminal: int, file: int) -> None:
    """Copy what a terminal shows to a file, until every process has closed it."""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(terminal, 65536):
            os.write(file, part)

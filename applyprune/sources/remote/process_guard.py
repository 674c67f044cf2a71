"""Kill the processes of this one when it ends, even by SIGKILL, and remove their private folder.

A parent death signal reaches a child, but not what the child starts: git starts others that wait
for the network. So a small process waits for the end of a pipe, which the kernel closes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from applyprune.system.processes import kill_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

# Each line of its input is + or - and a process group.
_PROGRAM = """
import os, signal, sys
groups, rest = set(), b""
while data := os.read(0, 65536):
    *lines, rest = (rest + data).split(b"\\n")
    for line in lines:
        (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
import shutil
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class ProcessGuard:
    """A process that outlives this one for a moment; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Start it; ``folder`` is removed at the end."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={},
        )

    def __enter__(self) -> Self:
        """Return the guard."""
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
        self._say(f"+{group}\n")

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group of a process that was added, and wait for the process.

        The process is not waited for before its group was killed: until then its number is taken.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill_group(process.pid)
        with contextlib.suppress(OSError):
            self._say(f"-{process.pid}\n")
        process.wait()

    def _say(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise BrokenPipeError
        os.write(stdin.fileno(), line.encode())


@contextlib.contextmanager
def guarding(folder: Path) -> Iterator[ProcessGuard | None]:
    """Yield a guard for the processes that work in a folder; None on Windows, which has no groups.

    There, a process that is ended at once leaves behind what it has started.
    """
    if sys.platform == "win32":
        yield None
    else:
        with ProcessGuard(folder) as guard:
            yield guard

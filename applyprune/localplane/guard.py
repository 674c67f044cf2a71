"""Runs a command that dies with its starter: ``python guard.py FD COMMAND…``.

A compiler has no lifeline of its own, and on macOS no signal tells a child that its parent died. So
this small process stands between: at the end of the pipe FD it kills the command's process group.
It is run as a file, isolated, which halves its start-up time: standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


@contextmanager
def guarded(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Start the command and give the process and its output, both streams in one.

    When the block ends, or this process dies, what is left of the command is killed.
    """
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", __file__, str(read_end), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=dict(env),
            cwd=cwd,
            pass_fds=(read_end,),
            # Ctrl-C and a closing terminal reach the starter alone, which then ends this.
            start_new_session=True,
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    assert process.stdout is not None  # noqa: S101 - asked for a pipe above
    try:
        yield process, process.stdout
    finally:
        os.close(write_end)
        process.stdout.close()
        process.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code; 137 when the starter died."""
    lifeline = int(arguments[0])
    woken, waker = socket.socketpair()
    waker.setblocking(False)  # noqa: FBT003 - the function has no other form
    signal.set_wakeup_fd(waker.fileno())
    # Without a handler there is no waking.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A group of its own, so that everything that the command starts is killed with it.
    process = subprocess.Popen(list(arguments[1:]), start_new_session=True)
    while process.poll() is None:
        ready, _, _ = select.select([woken.fileno(), lifeline], [], [])
        if woken.fileno() in ready:
            woken.recv(4096)
        if lifeline in ready:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            break
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

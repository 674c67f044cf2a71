"""Run a command that dies with its starter: ``python kill_group.py FD COMMAND…``.

A compiler does not notice when its starter dies, and macOS has no signal for the death of a parent.
So this small process runs the command and kills its process group when the pipe FD ends. It runs as
an isolated file with the standard library only, which halves its start-up time."""

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
    """Start the command; yield the process and its output, with both streams combined.

    When the block ends, or this process dies, the rest of the command is killed.
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
            # Ctrl-C and a closing terminal reach only the starter, which then ends this process.
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
    """Run the command and return its exit code; 137 if the starter died."""
    lifeline = int(arguments[0])
    woken, waker = socket.socketpair()
    waker.setblocking(False)  # noqa: FBT003 - the function has no other form
    signal.set_wakeup_fd(waker.fileno())
    # Without a handler, the signal wakes nothing.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A separate process group: everything that the command starts is killed with it.
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
    # Both ends are closed with this call.
    signal.set_wakeup_fd(-1)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

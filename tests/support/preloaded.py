"""Commands as forks of a process that has imported the program: a start costs most of a command.

Each is a process of its own, from the first line of ``__main__`` to its exit. What it shares with
others is the import of modules, so tests about a start, a signal or a terminal start a new
interpreter instead.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tests.support.linux import pidfd_open

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT = Path(__file__).parents[2]
_LEFT_OUT = ("applyprune.controller.", "applyprune.localplane.", "applyprune.__main__")
"""What no command imports, or what is to be run."""
_MOST = 1 << 20
"""Bytes of a request: its arguments and environment."""


class Preloaded:
    """The process that is forked; it starts with the first command and ends with this process."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._start_environment = _of_interpreter(os.environ)

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Return whether a new interpreter would start alike, and forks can be awaited."""
        is_same = self._start_environment == _of_interpreter(environment)
        return is_same and hasattr(os, "pidfd_open")

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None,
        stdin: str,
        timeout: float,
    ) -> tuple[int, str, str]:
        """Run a command to its end; return its exit code and its output."""
        told = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(cwd or Path.cwd()),
        }
        with ExitStack() as ends:
            out, err = (ends.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            their_stdin, our_stdin = _pipe(ends)
            our_status, their_status = _pipe(ends)
            theirs = (their_stdin, out, err, their_status)
            with self._lock:
                control = self._started()
                socket.send_fds(
                    control, [json.dumps(told).encode()], [one.fileno() for one in theirs]
                )
            their_stdin.close()
            their_status.close()
            writer = threading.Thread(target=_write, args=(our_stdin, stdin), daemon=True)
            writer.start()
            pid = int(our_status.readline())
            if not select.select([our_status], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout)
            code = int(our_status.readline())
            writer.join()
            return code, _text(out), _text(err)

    def _started(self) -> socket.socket:
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for one in (ours, theirs):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
            program = f"from tests.support.preloaded import serve; serve({theirs.fileno()})"
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    cwd=_ROOT,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            self._control = ours
            atexit.register(_end, ours, process)
        return self._control


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    process.wait()


def serve(control: int) -> None:
    """Fork a process for each request, until the other side is gone; in a fork, run the command."""
    for module in pkgutil.walk_packages([str(_ROOT / "applyprune")], "applyprune."):
        if not f"{module.name}.".startswith(_LEFT_OUT):
            import_module(module.name)
    gc.freeze()
    running: dict[int, tuple[int, int]] = {}
    with socket.socket(fileno=control) as requests:
        while True:
            ready = select.select([control, *running], [], [])[0]
            for process in running.keys() & ready:
                pid, status = running.pop(process)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(BrokenPipeError):  # it took too long, and nobody waits any more
                    os.write(status, b"%d\n" % code)
                os.close(status)
                os.close(process)
            if control in ready:
                raw, received, _, _ = socket.recv_fds(requests, _MOST, 4)
                if not raw:
                    return
                *streams, status = received
                pid = os.fork()
                if pid == 0:
                    break
                os.write(status, b"%d\n" % pid)
                running[pidfd_open(pid)] = pid, status
                for stream in streams:
                    os.close(stream)
    _become(json.loads(raw), streams)


def _become(told: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Be as a new interpreter that runs the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1 << 16)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False))  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(
        open(2, "wb", closefd=False),  # noqa: SIM115
        errors="backslashreplace",
        line_buffering=True,
    )
    sys.argv = ["-m", *told["arguments"]]
    sys.path[0] = told["cwd"]
    tempfile.tempdir = None  # of TMPDIR
    runpy.run_module("applyprune", run_name="__main__", alter_sys=True)


def _of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an interpreter reads only at its start."""
    prefixes = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "GLIBC_")
    return {key: value for key, value in environment.items() if key.startswith(prefixes)}


def _pipe(ends: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    source, sink = os.pipe()
    return (
        ends.enter_context(os.fdopen(source, "rb", buffering=0)),
        ends.enter_context(os.fdopen(sink, "wb")),
    )


def _write(pipe: BinaryIO, text: str) -> None:
    # A command that ends early may not read all of it.
    with suppress(BrokenPipeError), pipe:
        pipe.write(text.encode())


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return io.StringIO(file.read().decode(), newline=None).read()


PRELOADED = Preloaded()

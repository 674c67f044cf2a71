"""Real namespaces of the kernel (time, PID, mount): a machine as containers and services see it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.linux import pidfd_open
from tests.support.processes import family, suspend
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

PROVED = (False, pytest.param(True, marks=pytest.mark.sweep))
"""The values of ``proof``: a machine without the rights skips a story, but fails its sweep."""
OWN_PIDS = ("--pid", "--mount-proc")
"""Options of ``unshare``: no process of the rest of the machine is visible, nor this one to it."""


def own_namespaces(*options: str, proof: bool, mounts: Sequence[str] = ()) -> Sequence[str]:
    """Return the beginning of a command that runs the rest in namespaces of its own.

    ``mounts`` are shell commands to run before it. If this machine cannot do it, skip the test, or
    fail it with ``proof``.
    """
    # Without a namespace of its own, a mount would change this machine.
    assert not mounts or {"--mount", "--mount-proc"} & {*options}, "mounts need --mount"
    script = " && ".join((*mounts, 'exec "$@"'))
    command = (*_UNSHARE, *options, "sh", "-c", script, "sh")
    why = _why_not(command)
    if why and proof:
        pytest.fail(f"this machine cannot prove it: {why}")
    if why:
        pytest.skip(f"needs the right to create namespaces (root, on Linux): {why}")
    return command


def pod(*, proof: bool) -> Sequence[str]:
    """Return the beginning of a command that runs the rest as in a Pod of its own."""
    return own_namespaces(*OWN_PIDS, proof=proof)


@cache
def own_pids() -> Sequence[str]:
    """Return what begins a command that runs the rest in a PID namespace; empty if impossible."""
    command = (*_UNSHARE, *OWN_PIDS)
    return () if _why_not(command) else command


def terminate_inside(process: subprocess.Popen[str]) -> None:
    """Send SIGTERM to what runs in namespaces of its own, or without; ``unshare`` ignores it."""
    os.kill(_pid_inside(process), signal.SIGTERM)


def kill_inside(process: subprocess.Popen[str]) -> None:
    """SIGKILL what runs in namespaces of its own, or without, and return when it has ended."""
    if (pid := _pid_inside(process)) == process.pid:
        process.kill()
        process.wait(60)
        return
    ended = pidfd_open(pid)
    try:
        process.kill()  # unshare takes it along
        process.wait(60)
        assert select.select([ended], [], [], 60)[0], "it has not ended"
    finally:
        os.close(ended)


def kill_all_inside(process: subprocess.Popen[str]) -> None:
    """SIGKILL what runs in namespaces of its own, or without, and all that it has started.

    As when a container has no memory left: nobody sees the end of another one.
    """
    stop_inside(process)
    for pid in all_inside(process):
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)
    process.wait(60)


def stop_inside(process: subprocess.Popen[str]) -> None:
    """SIGSTOP what runs in namespaces of its own, or without, and all that it has started."""
    stopped: set[int] = set()
    while new := set(all_inside(process)) - stopped:
        # What was stopped starts nothing more, so this ends.
        for pid in new:
            with suppress(ProcessLookupError):
                suspend(pid)
        stopped |= new


def resume_inside(process: subprocess.Popen[str]) -> None:
    """SIGCONT what was stopped."""
    for pid in all_inside(process):
        os.kill(pid, signal.SIGCONT)


def all_inside(process: subprocess.Popen[str]) -> Sequence[int]:
    """Return what runs in namespaces of its own, or without, and all that it has started."""
    return family(_pid_inside(process))


def _pid_inside(process: subprocess.Popen[str]) -> int:
    """Return the PID of what ``unshare`` runs, or of the process itself."""
    if not isinstance(process.args, list) or process.args[0] != _UNSHARE[0]:
        return process.pid
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(eventually(children.read_text, lambda: "the process in the namespace"))


_UNSHARE = ("unshare", "--fork", "--kill-child")


def _why_not(command: Sequence[str]) -> str:
    """Return why this machine cannot run a command; empty if it can."""
    try:
        tried = subprocess.run((*command, "true"), capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""

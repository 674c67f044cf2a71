"""Who this run is, so that another can tell whether it still lives."""

from __future__ import annotations

import getpass
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from applyprune.model.inventory import Holder, LastRun

_PROC = Path("/proc")


def new_holder(run: str, *, lease: float, who: str = "") -> Holder:
    """Return the holder that this process is, for one run; ``lease`` in seconds.

    ``who`` is told to those who ask who runs; default: the user and the host.
    """
    return Holder(
        run=run,
        who=who or f"{_user()}@{platform.node()}",
        host=_host_mark(),
        process=_process_mark(os.getpid()),
        lease=lease,
    )


def last_run(holder: Holder, mode: str, exit_code: int) -> LastRun:
    """Return what is kept of a holder's run, which ends now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return LastRun(run=holder.run, mode=mode, who=holder.who, at=at, exit_code=exit_code)


def is_dead(holder: Holder) -> bool:
    """Return whether a holder is surely gone: it ran on this very machine, and runs no more.

    False when that cannot be told; then only its lease can run out.
    """
    if not holder.host or holder.host != _host_mark():
        return False
    pid, _, _ = holder.process.partition("@")
    return pid.isdecimal() and _process_mark(int(pid)) != holder.process


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _host_mark() -> str:
    """Return a mark of this boot and this space of process numbers; empty where there is none."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _process_mark(pid: int) -> str:
    """Return the number and start time of a process, which together are never used again."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{pid}@"
    # The command's name, in parentheses, may hold anything; the 20th field after it is the start.
    return f"{pid}@{stat.rpartition(')')[2].split()[19]}"

"""Processes in sessions of their own end with the process of the tests, however that ends."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from threading import Lock

# It has its own session too: what kills a group of tests leaves it alive.
_WATCH = """
import os, signal, sys
def begun(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""
# Hours later, another process may have the number.
started = {}
for line in sys.stdin:
    started[int(line)] = begun(int(line))
for pid, when in started.items():
    try:
        if begun(pid) == when and os.getsid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
_LOCK = Lock()


@cache
def _watcher() -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-E", "-c", _WATCH]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)


def end_with_the_tests(leader: int) -> None:
    """Let the group of a session's leader be killed when this process has ended."""
    with _LOCK:
        pipe = _watcher().stdin
        assert pipe is not None
        pipe.write(f"{leader}\n")
        pipe.flush()

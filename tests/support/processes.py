"""Other processes, as ``/proc`` shows them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import eventually

_PROC = Path("/proc")


def children(parent: int) -> list[int]:
    """Return the IDs of the processes that a process has started, without those that have ended."""
    found = []
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            state, of = _stat(int(folder.name))
            if of == parent and state != "Z":
                found.append(int(folder.name))
    return sorted(found)


def family(parent: int) -> list[int]:
    """Return a process and all that it has started, directly or not."""
    found = [parent]
    for process in found:
        found += children(process)
    return found


def working_in(folder: Path) -> list[int]:
    """Return the processes that work in a folder, or have it in their arguments or environment."""
    found = []
    for process in _PROC.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is not ours
            place = str((process / "cwd").readlink())
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if place.startswith(str(folder)) or str(folder).encode() in words:
                found.append(int(process.name))
    return sorted(found)


def open_files(process: int) -> int:
    """Return how many files a process has open, connections and pipes too."""
    return len(list((_PROC / str(process) / "fd").iterdir()))


def is_connected(process: int) -> bool:
    """Return whether a process has a socket."""
    for one in (_PROC / str(process) / "fd").iterdir():
        with suppress(OSError):  # it has been closed meanwhile
            if str(one.readlink()).startswith("socket:"):
                return True
    return False


def is_running(process: int) -> bool:
    """Return whether a process has not ended yet."""
    state = _stat(process)[0]
    with suppress(OSError):
        # The first thread may have ended before the others.
        return state not in {"", "X"} and (state != "Z" or threads_of(process) > 1)
    return False


def suspend(process: int) -> None:
    """Stop a process, and return when none of its threads runs: a signal alone takes its time."""
    os.kill(process, signal.SIGSTOP)
    eventually(lambda: not is_running(process) or _is_stopped(process), lambda: "the stop")


def threads_of(process: int) -> int:
    """Return how many threads a process has."""
    return len(list((_PROC / str(process) / "task").iterdir()))


def name_of(process: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    with suppress(OSError):
        return (_PROC / str(process) / "cmdline").read_text().replace("\0", " ")
    return ""


def has_started(parent: int, command: str) -> bool:
    """Return whether a process runs a command that begins so, directly or not."""
    return any(name_of(one).startswith(command) for one in family(parent))


def proportional_size(process: int) -> int:
    """Return the bytes of a process, each page divided by the processes that share it (PSS)."""
    lines = (_PROC / str(process) / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _is_stopped(process: int) -> bool:
    with suppress(OSError):
        threads = (_PROC / str(process) / "task").iterdir()
        return {_stat(f"{process}/task/{one.name}")[0] for one in threads} == {"T"}
    return False


def _stat(process: int | str) -> tuple[str, int]:
    """Return the state of a process or thread and its parent; "" and 0 if there is none."""
    with suppress(OSError):
        fields = (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[1])
    return "", 0

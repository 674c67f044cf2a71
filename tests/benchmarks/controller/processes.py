"""What the processes of a controller cost, by /proc: CPU seconds, and memory that is shared once.

PSS divides a page by the number of processes that share it, so its sum is what all of them hold.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Self

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE = 1.0


def family(parent: int) -> list[int]:
    """Return a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [parent]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(parent: int) -> float:
    """Return the CPU time of a process and its descendants, with those that have ended."""
    ticks = 0
    for pid in family(parent):
        with suppress(OSError):
            ticks += sum(map(int, _stat(pid)[11:15]))
    return ticks / _TICKS


def memory(parent: int, without: tuple[str, ...] = ()) -> dict[int, int]:
    """Return the bytes of memory (PSS) of a process and its descendants.

    Those whose program has a name that begins with one ``without`` do not count.
    """
    found: dict[int, int] = {}
    for pid in family(parent):
        with suppress(OSError):
            if without and (_PROC / str(pid) / "comm").read_text().startswith(without):
                continue
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            found[pid] = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return {pid: kilobytes * 1024 for pid, kilobytes in found.items()}


def _stat(pid: int) -> list[str]:
    """Return the fields of a process's stat after its name: state, parent, …"""
    text = (_PROC / str(pid) / "stat").read_text()
    return text.rpartition(")")[2].split()


@dataclass(slots=True)
class PeakMemory:
    """Looks at the memory of several controllers once a second; ``most`` is the largest sum."""

    parents: list[int]
    without: tuple[str, ...] = ()
    """The names of programs that do not count."""
    most: int = 0
    parts: tuple[int, ...] = ()
    """The memory of each process at that time."""
    _over: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look once more, and end."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._over.wait(_PAUSE):
            self._look()

    def _look(self) -> None:
        parts = tuple(
            size for parent in self.parents for size in memory(parent, self.without).values()
        )
        if sum(parts) > self.most:
            self.most, self.parts = sum(parts), parts

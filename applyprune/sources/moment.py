"""Files and folders of this machine, read as they all were at one moment.

What changes while the input is read may be missing from it, and would be pruned. So what has just
changed is read when it has rested, because somebody may be at it; and when all is read, everything
must be as it was. A file's content is not compared: who writes it changes its times.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from applyprune.clock import SystemClock
from applyprune.errors import InputError
from applyprune.model.problem import Origin
from applyprune.sources.tree import shown_path

if TYPE_CHECKING:
    from applyprune.clock import Clock

REST = 0.2
"""Seconds that a file or folder must be unchanged before it is read: more than the step of the
times that a file system keeps, and than the pause of a program that writes a file in pieces."""
_MOST_WAITS = 10
_WALL_CLOCK = SystemClock(time.time)

_Mark: TypeAlias = "tuple[int, int, int, int]"


class Moment:
    """What one call has read, and how each file and folder looked then."""

    def __init__(self, clock: Clock = _WALL_CLOCK) -> None:
        """Remember nothing yet; ``clock`` must show the time that files are marked with."""
        self._clock = clock
        self._files: dict[str, _Mark] = {}
        self._folders: dict[str, tuple[_Mark, Sequence[str]]] = {}
        self._failed: set[str] = set()

    @property
    def files(self) -> Iterable[str]:
        """Return the files that were read or noted."""
        return self._files.keys()

    @property
    def folders(self) -> Mapping[str, Sequence[str]]:
        """Return the names in each folder that was read."""
        return {folder: names for folder, (_, names) in self._folders.items()}

    def read(self, path: Path, most: int, *, waits: bool = True) -> bytes:
        """Return the first ``most`` bytes of a file; raise OSError, ValueError or InputError.

        Without ``waits``, only a regular file is read: a pipe might never end.
        """
        found = self._rested(str(path))
        with open(path, "rb", opener=None if waits else without_waiting) as stream:
            opened = os.fstat(stream.fileno())
            is_file = stat.S_ISREG(opened.st_mode)
            if not (is_file or waits):  # guard: regular-file never
                raise not_regular(shown_path(str(path)))
            if is_file and _mark(opened) != _mark(found):
                raise self._changed(str(path))
            data = at_most(stream, most)
        if is_file:
            self._files.setdefault(str(path), _mark(found))
        return data

    def watch(self, path: str) -> None:
        """Note a file that another program reads from now on; raise OSError or InputError."""
        found = self._rested(path)
        self._files.setdefault(path, _mark(found))

    def has(self, path: str) -> bool:
        """Return whether a file was read or noted."""
        return path in self._files

    def names(self, folder: str) -> Sequence[str]:
        """Return the names in a folder, sorted; raise OSError or InputError."""
        found = self._rested(folder)
        names = _names(folder)
        self._folders.setdefault(folder, (_mark(found), names))
        return names

    def changes(self) -> Iterator[InputError]:
        """Yield an error for each file and folder that is not as it was when it was read."""
        for path, mark in self._files.items():
            # guard: file-of-one-moment never
            if path not in self._failed and not _is_same(path, mark):
                yield self._changed(path)
        for path, (mark, names) in self._folders.items():
            # guard: folder-of-one-moment never
            if path not in self._failed and not _is_same(path, mark, names):
                yield self._changed(path)

    def _rested(self, path: str) -> os.stat_result:
        """Return the status of a path when it has not changed for a while."""
        for _ in range(_MOST_WAITS):
            found = os.stat(path)  # noqa: PTH116
            age = self._clock.now() - found.st_mtime
            is_written = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
            # A time of another day, or of the future, says nothing.
            # guard: rest always
            if not is_written or abs(age) >= REST or self._failed:
                return found
            self._clock.wait(Event(), REST - age)
        raise self._changed(path)

    def _changed(self, path: str) -> InputError:
        self._failed.add(path)
        return changed(path)


def changed(path: str) -> InputError:
    """Return the error for a file or folder that was not the same all the time."""
    return InputError(
        "changed while it was read",
        location=Origin(shown_path(path)),
        reason="a part of it may be missing, and would be pruned",
        hint="Run again when no other program is writing it.",
    )


def not_regular(shown: str) -> InputError:
    """Return the error for a pipe or a device: reading it may never end."""
    return InputError("not a regular file", location=Origin(shown))


def read_at_once(path: Path, most: int, *, waits: bool = True) -> bytes:
    """Return what one file holds, as ``Moment.read`` does, if it has not changed meanwhile."""
    moment = Moment()
    data = moment.read(path, most, waits=waits)
    for error in moment.changes():
        raise error
    return data


def _mark(found: os.stat_result) -> _Mark:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_same(path: str, mark: _Mark, names: Sequence[str] | None = None) -> bool:
    try:
        if _mark(os.stat(path)) != mark:  # noqa: PTH116
            return False
        return names is None or _names(path) == names
    except (OSError, ValueError):
        return False


def _names(folder: str) -> Sequence[str]:
    return sorted(path.name for path in Path(folder).iterdir())


_BLOCK = 2**20


def without_waiting(name: str, flags: int) -> int:
    """Open a file for ``open``, whose ``opener`` it is; else a pipe waits for its writer."""
    return os.open(name, flags | os.O_NONBLOCK)


def at_most(stream: BinaryIO, most: int) -> bytes:
    """Return what a stream holds; ``read(most)`` would allocate so much for the smallest file."""
    blocks: list[bytes] = []
    while most > 0 and (block := stream.read(min(most, _BLOCK))):
        blocks.append(block)
        most -= len(block)
    return b"".join(blocks)

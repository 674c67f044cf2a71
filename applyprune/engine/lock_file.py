"""A locked file in memory, by which a run on the same machine sees whether another has ended.

The kernel releases the lock when the process has ended, however it ended, and not before. So no
process needs to see another one, which ``hidepid`` and PID namespaces prevent. The file exists only
in the memory of this machine (tmpfs): a cloned virtual machine has the same boot id, but not the
file. Without this evidence, nothing is known about another run.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from applyprune.system.files import NO_LINKS, NO_WAITING, device_number, is_own, try_lock
from applyprune.values import dataclass, pattern

_FOLDER = Path("/dev/shm")  # noqa: S108 -- its type, and the owner of each file, are checked
_PROC = Path("/proc")
_NAME = pattern(r"applyprune-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class LockFile:
    """The file of one run that has not ended."""

    name: str
    _handle: int

    def close(self, *, remove: bool) -> None:
        """Release the lock: the run has ended; ``remove`` the file if nobody will ask for it."""
        if remove:
            remove_file(self.name)
        os.close(self._handle)


def create_file() -> LockFile | None:
    """Create a file and lock it; None if there is no place where it would prove anything."""
    if not _is_memory(_FOLDER):  # guard: memory-only
        return None

    name = f"applyprune-{os.urandom(16).hex()}"
    try:
        handle = os.open(_FOLDER / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except OSError:
        return None
    try:
        is_ours = try_lock(handle)
    except OSError:
        is_ours = False
    if not is_ours:
        os.close(handle)
        remove_file(name)
        return None
    return LockFile(name, handle)


def remove_file(name: str) -> None:
    """Remove the file of a run that has ended."""
    if _NAME.fullmatch(name):
        with suppress(OSError):
            (_FOLDER / name).unlink()


def has_ended(host: str, name: str) -> bool:
    """Return whether the run with that file has certainly ended; False if that is unknown.

    A file of another user proves nothing: whoever can read the inventory knows its name.
    """
    if not host or host != host_id() or not _NAME.fullmatch(name):
        return False
    try:
        handle = os.open(_FOLDER / name, os.O_RDONLY | NO_LINKS | NO_WAITING)
    except OSError:
        return False  # on another machine, or in another container
    try:
        found = os.fstat(handle)
        ours = stat.S_ISREG(found.st_mode) and is_own(found)  # guard: own-lock-file
        if not ours or not _is_memory(_FOLDER):
            return False
        if not try_lock(handle, is_shared=True):  # guard: seen-to-end
            return False  # the run works
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def host_id() -> str:
    """Return the id of this boot; empty if the system has none. Cloned machines share it."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _is_memory(folder: Path) -> bool:
    """Return whether a folder is in this machine's memory only, by the list of mounts."""
    try:
        number = device_number(folder.stat())
        mounts = (_PROC / "self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        if mount.split()[2:3] == [number]:
            return source.split()[:1] == ["tmpfs"]
    return False

"""Files, where systems differ: replace and lock them, their paths and names, the user's folder."""

from __future__ import annotations

import ntpath
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


if sys.platform == "win32":

    def replace_file(source: Path, target: Path) -> None:
        """Give a file another name, that of a file which has to go; raises OSError."""
        # Windows refuses that while another program, such as a virus scanner, has either open.
        until_allowed(lambda: source.replace(target))

else:

    def replace_file(source: Path, target: Path) -> None:
        """Give a file another name, that of a file which has to go; raises OSError."""
        source.replace(target)


PATIENCE = 2.0
"""Seconds."""


def until_allowed(work: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Call ``work`` again while it raises PermissionError, for so long; then raise that."""
    ends = time.monotonic() + seconds
    while True:
        try:
            work()
        except PermissionError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)
        else:
            return


# Open files: flags and locks.


if sys.platform == "win32":
    NO_WAITING = 0
    """For ``os.open``: Windows has no pipes in the file system."""
    NO_LINKS = 0
    """For ``os.open``: Windows has no flag that makes it fail for a symbolic link."""

    def try_lock(descriptor: int, *, is_shared: bool = False) -> bool:
        """Raise OSError: a lock of Windows ends with its process, also if others have the file."""
        del descriptor, is_shared
        raise OSError("Windows has no locks of open files")

else:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    NO_WAITING = os.O_NONBLOCK
    """For ``os.open``: do not wait for the other end of a pipe in the file system."""
    NO_LINKS = os.O_NOFOLLOW
    """For ``os.open``: fail for a symbolic link."""

    def try_lock(descriptor: int, *, is_shared: bool = False) -> bool:
        """Return whether the lock is ours now; False if another process holds it.

        It lasts until every process that has the file open has closed it, or ended. Any number may
        hold it together if it ``is_shared``. Raises OSError.
        """
        try:
            flock(descriptor, (LOCK_SH if is_shared else LOCK_EX) | LOCK_NB)
        except BlockingIOError:
            return False
        return True


# Paths, also those whose parts are patterns.


if sys.platform == "win32":
    IGNORES_CASE = True
    """Whether two names that differ in upper and lower case are one."""

    def split_path(path: str) -> tuple[str, Sequence[str]]:
        """Return what a path begins at, empty for a relative one, and its parts."""
        return split_windows_path(path)

else:
    IGNORES_CASE = False
    """Whether two names that differ in upper and lower case are one."""

    def split_path(path: str) -> tuple[str, Sequence[str]]:
        """Return what a path begins at, empty for a relative one, and its parts."""
        root = "/" if path.startswith("/") else ""
        return root, [part for part in path.split("/") if part]


def split_windows_path(path: str) -> tuple[str, Sequence[str]]:
    """Return the drive or share, with a separator unless the path is relative; and the parts."""
    drive, rest = ntpath.splitdrive(path)
    rest = rest.replace("\\", "/")
    return drive + ("\\" if rest.startswith("/") else ""), [one for one in rest.split("/") if one]


# File names: on Windows some lead elsewhere, or to a device.


_FORBIDDEN = r'[\x00-\x1f<>:"\\|?*]'
_DEVICE = r"con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$"


if sys.platform == "win32":

    def can_name_file(name: str) -> bool:
        """Return whether one part of a path, not ``.`` or ``..``, names a file of its folder."""
        return is_windows_name(name)

    def file_name(name: str) -> str:
        """Return the name of a file for that of an object."""
        return without_colons(name)

else:

    def can_name_file(name: str) -> bool:
        """Return whether one part of a path, not ``.`` or ``..``, names a file of its folder."""
        del name
        return True

    def file_name(name: str) -> str:
        """Return the name of a file for that of an object."""
        return name


def is_windows_name(name: str) -> bool:
    """Return whether one part of a path names a file of its folder on Windows, and only that."""
    return (
        re.search(_FORBIDDEN, name) is None
        and re.fullmatch(_DEVICE, name.partition(".")[0].rstrip(), re.IGNORECASE) is None
        and not name.endswith((".", " "))
    )


def without_colons(name: str) -> str:
    """Return a name without the character that objects may have in theirs, and files may not."""
    return name.replace(":", "-")


# The folder in which a user's programs keep their settings.


def in_home(environ: Mapping[str, str], *parts: str) -> Path | None:
    """Return a file in the user's folder; None if there is no such folder.

    Of several folders it is the first that has the file, or the first of all.
    """
    files = [Path(home, *parts) for home in _homes(environ)]
    return next((file for file in files if file.exists()), files[0] if files else None)


def windows_homes(environ: Mapping[str, str]) -> Sequence[str]:
    """Return the folders that may be the user's on Windows, in kubectl's order."""
    drive, path = environ.get("HOMEDRIVE", ""), environ.get("HOMEPATH", "")
    found = (
        environ.get("HOME", ""),
        f"{drive}{path}" if drive and path else "",
        environ.get("USERPROFILE", ""),
    )
    return tuple(dict.fromkeys(filter(None, found)))


if sys.platform == "win32":
    _homes = windows_homes
else:

    def _homes(environ: Mapping[str, str]) -> Sequence[str]:
        home = environ.get("HOME", "")
        return (home,) if home else ()

"""Open files: flags, locks, and what their status says."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    NO_WAITING = 0
    """For ``os.open``: Windows has no pipes in the file system."""
    NO_LINKS = 0
    """For ``os.open``: Windows has no flag that makes it fail for a symbolic link."""

    def try_lock(descriptor: int, *, is_shared: bool = False) -> bool:
        """Raise OSError: a lock of Windows ends with its process, also if others have the file."""
        del descriptor, is_shared
        raise OSError("Windows has no locks of open files")

    def is_own(found: os.stat_result) -> bool:
        """Return False: the status of a file does not name its owner."""
        del found
        return False

    def device_number(found: os.stat_result) -> str:
        """Return an empty text: a device has no such number."""
        del found
        return ""

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

    def is_own(found: os.stat_result) -> bool:
        """Return whether a file belongs to the user of this process."""
        return found.st_uid == os.geteuid()

    def device_number(found: os.stat_result) -> str:
        """Return the number of the device that a file is on, as the list of mounts has it."""
        return f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"

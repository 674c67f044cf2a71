"""What the system lets a process use; Windows has no such limits."""

from __future__ import annotations

import sys
from enum import StrEnum


class Resource(StrEnum):
    """Something that a process uses; the value is the name that ``prlimit`` has for it."""

    DATA = "data"
    """Bytes that it may allocate."""
    CPU = "cpu"
    """Seconds of computing, of all its threads together."""
    FILE_SIZE = "fsize"
    """Bytes of one file that it writes."""
    FILES = "nofile"
    """How many files it may have open."""
    CORE = "core"
    """Bytes of its memory that are written to the disk when it crashes."""
    ADDRESS_SPACE = "as"
    """Bytes of addresses."""


if sys.platform == "win32":

    def within_hard_limit(what: Resource, wanted: int) -> int:
        """Return the limit that is wanted."""
        del what
        return wanted

    def lower_limit(what: Resource, value: int) -> None:
        """Raise OSError."""
        del value
        raise OSError(f"Windows has no limit of {what}")

else:
    import resource

    _NUMBERS = {
        Resource.DATA: resource.RLIMIT_DATA,
        Resource.CPU: resource.RLIMIT_CPU,
        Resource.FILE_SIZE: resource.RLIMIT_FSIZE,
        Resource.FILES: resource.RLIMIT_NOFILE,
        Resource.CORE: resource.RLIMIT_CORE,
        Resource.ADDRESS_SPACE: resource.RLIMIT_AS,
    }

    def within_hard_limit(what: Resource, wanted: int) -> int:
        """Return the limit that is wanted, or the one that this process cannot exceed."""
        _, hard = resource.getrlimit(_NUMBERS[what])
        return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)

    def lower_limit(what: Resource, value: int) -> None:
        """Set a limit of this process, within the one that it cannot exceed."""
        _, hard = resource.getrlimit(_NUMBERS[what])
        resource.setrlimit(_NUMBERS[what], (within_hard_limit(what, value), hard))

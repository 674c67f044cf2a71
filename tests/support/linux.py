"""What only Linux has; the tests that use it run nowhere else."""

from __future__ import annotations

import ctypes
import os
import sys

_CLONE_NEWNET = 0x40000000

if sys.platform == "linux":
    from os import pidfd_open
else:

    def pidfd_open(pid: int) -> int:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"cannot wait for process {pid} on {sys.platform}")


def enter_network() -> None:
    """Move this thread into a new network, which has no connection to any other.

    Raises OSError without the right, and AttributeError where there are no such networks.
    """
    # Python has os.unshare since 3.12 only.
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


__all__ = ["enter_network", "pidfd_open"]

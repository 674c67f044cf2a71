"""What only Linux has; the tests that use it run nowhere else."""

from __future__ import annotations

import sys

if sys.platform == "linux":
    from os import pidfd_open
else:

    def pidfd_open(pid: int) -> int:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"cannot wait for process {pid} on {sys.platform}")


__all__ = ["pidfd_open"]

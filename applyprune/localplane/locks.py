"""File locks that the kernel releases when their holder dies."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from applyprune.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def try_lock(path: Path) -> int | None:
    """Return the descriptor of the locked file, or None if another process holds the lock.

    The lock belongs to the open file, not to the process: it lasts until every process that
    inherited the descriptor has closed it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not files.try_lock(descriptor):
            os.close(descriptor)
            return None
        # The previous holder may have removed the file in between: that lock would be useless.
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two processes that only check do not see each other.
        return not files.try_lock(descriptor, is_shared=True)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, while_waiting: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock; until it is free, call ``while_waiting`` with the seconds waited so far."""
    start = time.monotonic()
    while (descriptor := try_lock(path)) is None:
        while_waiting(time.monotonic() - start)
        time.sleep(0.2)
    try:
        yield
    finally:
        os.close(descriptor)

"""The folder of this process for what it keeps on the disk, and the removal of those left behind.

A process that was killed removes nothing, and the disk of a Pod outlives its container.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from applyprune.system.files import NO_LINKS, try_lock

_PREFIX = "applyprune-controller-"
_LOCK = "lock"


@contextmanager
def cache_folder() -> Iterator[Path | None]:
    """Yield a new folder that only this user can read; None if none can be written."""
    _remove_left()
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError:
        yield None
        return
    lock = None
    try:
        with suppress(OSError):
            lock = _locked(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int:
    """Lock a folder for as long as this process lives; a file of that name is always locked."""
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    # Nobody else has it yet.
    try_lock(lock)
    new.rename(folder / _LOCK)
    return lock


def _remove_left() -> None:
    """Remove the folders whose processes have gone."""
    # gettempdir needs a disk with space, and what is removed here may be what has filled it.
    named = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    place = next((name for name in named if name and Path(name).is_dir()), "/tmp")  # noqa: S108
    for folder in Path(place).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | NO_LINKS)
            try:
                if try_lock(lock):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

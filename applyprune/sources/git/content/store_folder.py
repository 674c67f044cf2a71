"""The folder of a store: one repository, a lock, and the removal of what a killed git has left."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.sources.remote.fetch_errors import FetchFailed
from applyprune.system.files import try_lock
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.sources.git.program.deadline import Deadline

_PAUSE = 0.02
REPOSITORY = "repository"
"""The name of the repository in the folder."""
_LOCK, _COMPLETE = "lock", "complete"
# What git gives another name, or removes, before it ends by itself.
_UNFINISHED = pattern(r".*\.lock|tmp_.*|.*\.keep|shallow_.*|incoming-.*|\.tmp-.*")
_PACK = pattern(r"(pack-[0-9a-f]+)\.(.+)")


@contextlib.contextmanager
def locked(folder: Path, where: str, deadline: Deadline, *, writes: bool) -> Iterator[Path]:
    """Yield the repository of a store; it may not exist yet. Many may read, one may write.

    Before a write, what an earlier one has left unfinished is removed. Raises FetchFailed.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(error, where) from None
    try:
        while not try_lock(lock, is_shared=not writes):
            time.sleep(min(_PAUSE, deadline.left(where)))
        repository = folder / REPOSITORY
        if writes:
            try:
                _clean(repository)
            except OSError as error:
                raise _unusable(error, where) from None
        yield repository
    finally:
        # Closing it releases the lock; git has not inherited it.
        os.close(lock)


def is_complete(repository: Path) -> bool:
    """Return whether a repository was created to its end."""
    return (repository / _COMPLETE).is_file()


def mark_complete(repository: Path) -> None:
    """Mark a repository that was created; one without the mark is removed before the next write."""
    (repository / _COMPLETE).touch()


def _clean(repository: Path) -> None:
    if not repository.exists():
        return
    if not (repository / "HEAD").is_file() or not is_complete(repository):
        shutil.rmtree(repository)
        return
    for top, folders, files in os.walk(repository):
        for name in [*folders, *files]:
            if _UNFINISHED.fullmatch(name):
                _remove(Path(top, name))
    packs = repository / "objects" / "pack"
    for file in packs.iterdir():
        # The index comes last: without it git does not know the pack.
        found = _PACK.fullmatch(file.name)
        if found and not (packs / f"{found[1]}.idx").exists():
            _remove(file)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _unusable(error: OSError, where: str) -> FetchFailed:
    return FetchFailed(
        "the store of the source cannot be used",
        location=where,
        reason=error.strerror or "",
        hint="Check the free space of this machine.",
    )

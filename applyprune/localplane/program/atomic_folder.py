"""Create a folder atomically: it is either absent or complete, even after interruptions."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.localplane.locks import locked
from applyprune.localplane.program.step_progress import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.localplane.program.step_progress import Progress


def make_once(
    folder: Path,
    fill: Callable[[Path], None],
    doing: str,
    progress: Progress,
    *,
    programs: Sequence[str] = (),
) -> None:
    """Let ``fill`` create the folder's content, unless the folder exists.

    ``fill`` writes to a temporary folder beside it, which is renamed at the end. If another
    process does the same, this process waits, reports what the other is ``doing``, and uses the
    other's folder. A folder without all of the ``programs`` counts as absent. Raises AccessError
    if the cache cannot be written.
    """

    def while_waiting(seconds: float) -> None:
        if seconds < 0.1:
            progress.step(f"another process is {doing}: waiting for it")
        else:
            progress.tick(f"another process is {doing}: waiting for {clock(seconds)}")

    if is_whole(folder, programs):
        return
    with _writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, while_waiting):
        if is_whole(folder, programs):
            return
        with _writing(folder.parent):
            for left_over in folder.parent.glob(f"{folder.name}.making-*"):
                shutil.rmtree(left_over)
            making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.making-"))
        try:
            fill(making)
            with _writing(folder.parent):
                if folder.is_dir():
                    shutil.rmtree(folder)
                making.rename(folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


def is_whole(folder: Path, programs: Sequence[str] = ()) -> bool:
    """Return whether the folder exists, with all of the programs."""
    return folder.is_dir() and all(os.access(folder / name, os.X_OK) for name in programs)


def not_written(folder: Path, error: OSError) -> AccessError:
    """Return the error for a cache that is read-only or full."""
    return AccessError(
        "the cache cannot be written",
        location=str(folder),
        reason=error.strerror or str(error),
        hint="Free space or make it writable, or set XDG_CACHE_HOME to another folder.",
    )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_written(folder, error) from None


@contextmanager
def _locked(folder: Path, while_waiting: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock of the folder; only the attempt to lock is an attempt to write the cache."""
    with ExitStack() as stack:
        with _writing(folder.parent):
            lock = locked(folder.with_name(f"{folder.name}.lock"), while_waiting)
            stack.enter_context(lock)
        yield

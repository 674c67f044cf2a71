"""Create a folder atomically: it is either absent or complete, even after interruptions."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.locks import locked
from applyprune.localplane.program.step_progress import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane.program.step_progress import Progress


def make_once(folder: Path, fill: Callable[[Path], None], doing: str, progress: Progress) -> None:
    """Let ``fill`` create the folder's content, unless the folder exists.

    ``fill`` writes to a temporary folder beside it, which is renamed at the end. If another
    process does the same, this process waits, reports what the other is ``doing``, and uses the
    other's folder.
    """

    def while_waiting(seconds: float) -> None:
        if seconds < 0.1:
            progress.step(f"another process is {doing}: waiting for it")
        else:
            progress.tick(f"another process is {doing}: waiting for {clock(seconds)}")

    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock"), while_waiting):
        if folder.is_dir():
            return
        for left_over in folder.parent.glob(f"{folder.name}.making-*"):
            shutil.rmtree(left_over)
        making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.making-"))
        try:
            fill(making)
            making.rename(folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise

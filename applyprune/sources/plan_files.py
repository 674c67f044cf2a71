"""Read and write plan files: a bounded read of a plain file, an atomic write for its owner only."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path

from applyprune.errors import UsageError
from applyprune.planning.approval import (
    LARGEST,
    PlanFile,
    PlanFiles,
    decode_plan_files,
    encode_plan_file,
    encode_plan_files,
    is_plan_file,
)
from applyprune.sources.moment import without_waiting
from applyprune.sources.tree import shown_path


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Return the plan in a file.

    Raises UsageError for anything but a plain file, for a file that is too large, for a content
    that is not exactly as it was written, and for the plans of many sets.
    """
    found = read_plans(path)
    if isinstance(found, PlanFiles):
        raise UsageError(
            "the file has the plans of many sets",
            location=shown_path(os.fspath(path)),
            hint="Give it to `applyprune apply --plan`.",
        )
    return found


def read_plans(path: str | os.PathLike[str]) -> PlanFile | PlanFiles:
    """Return the plan in a file, or those of many sets; raise UsageError as ``read_plan`` does."""
    shown = shown_path(os.fspath(path))
    if not shown:
        raise _unreadable(shown, ValueError("the path is empty"))
    try:
        file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise _unreadable(shown, error) from None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UsageError(
                "a plan file must be a plain file",
                location=shown,
                reason="a pipe or a device can deliver a different plan each time",
            )
        try:
            data = file.read(LARGEST + 1)
        except OSError as error:
            raise _unreadable(shown, error) from None
    if len(data) > LARGEST:
        reason = f"it has more than {LARGEST // 2**20} MiB"
        raise UsageError("the plan file is too large", location=shown, reason=reason)
    return decode_plan_files(data, source=shown)


def _unreadable(shown: str, error: Exception) -> UsageError:
    return UsageError("the plan file cannot be read", location=shown, reason=_reason(error))


def write_plan(path: str | os.PathLike[str], file: PlanFile | PlanFiles) -> None:
    """Write a plan file, whole or not at all, that only its owner may read.

    It replaces an earlier plan file, and no other file. Raises UsageError if it cannot be written.
    """
    refuse_unwritable(path)
    target = Path(path)
    try:
        with ExitStack() as unless_moved:
            with tempfile.NamedTemporaryFile(
                dir=target.parent, prefix=".applyprune-plan-", delete=False
            ) as fresh:
                unless_moved.callback(Path(fresh.name).unlink)
                fresh.write(
                    encode_plan_files(file)
                    if isinstance(file, PlanFiles)
                    else encode_plan_file(file)
                )
                fresh.flush()
                os.fsync(fresh.fileno())
            Path(fresh.name).replace(target)
            unless_moved.pop_all()
    except OSError as error:
        raise _unwritable(path, _reason(error)) from None


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no plan file can be written to, before anything is planned."""
    target = Path(path)
    try:
        if not os.fspath(path):
            raise _unwritable(path, "the path is empty")
        if target.exists() and not target.is_file():
            raise _unwritable(path, "it is not a plain file")
        # guard: keep-other-files -> target.exists() and False
        if target.exists() and not _may_be_replaced(target):
            raise _unwritable(path, "another file has this name, and it is not a plan file")
        if not target.parent.is_dir():
            raise _unwritable(path, f"there is no folder {shown_path(str(target.parent))}")
    except (OSError, ValueError) as error:
        raise _unwritable(path, _reason(error)) from None
    if not os.access(target.parent, os.W_OK):
        raise _unwritable(path, "its folder is not writable")


def _may_be_replaced(target: Path) -> bool:
    """Return whether a file is a plan file, or empty as ``mktemp`` makes it."""
    with target.open("rb") as file:
        beginning = file.read(100)
    return not beginning or is_plan_file(beginning)


def _unwritable(path: str | os.PathLike[str], reason: str) -> UsageError:
    shown = shown_path(os.fspath(path))
    return UsageError("the plan file cannot be written", location=shown, reason=reason)


def _reason(error: Exception) -> str:
    # The text of an OSError repeats the path.
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)

"""What nobody has foreseen: a few words instead of a traceback, and an exit code of its own."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from pathlib import PurePath

from applyprune._version import __version__

BUG = 70
"""The exit code for a mistake in the program itself, as sysexits.h has it (EX_SOFTWARE)."""
FAILED = 3

TRACEBACK = "APPLYPRUNE_TRACEBACK"
_NEXT = "What was written to the cluster is recorded; the next run goes on from there."


def words_of(error: Exception) -> tuple[str, int]:
    """Return what to say of an error that is none of ours, and the exit code.

    Never the error's own words but those of the operating system: they may hold a Secret's value.
    """
    if isinstance(error, MemoryError):
        return f"the memory is used up\n  Give it more, or split the set. {_NEXT}", FAILED
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        name = f" ({error.filename})" if isinstance(error.filename, str) else ""
        return f"{error.strerror}{name}\n  {_NEXT}", FAILED
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    words = (
        f"a mistake in applyprune itself: {name} at {_place(error)} "
        f"(applyprune {__version__}, Python {sys.version.split()[0]})\n"
        f"  Please report that line. {_NEXT}\n"
        f"  {TRACEBACK}=1 shows where it comes from; values of your objects may stand in that."
    )
    return words, BUG


def details(error: Exception) -> str:
    """Return the traceback where it was asked for by the environment, else nothing."""
    return "".join(traceback.format_exception(error)) if os.environ.get(TRACEBACK) else ""


_OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
)


def _place(error: Exception) -> str:
    """Return module and line of the innermost frame that is ours, of any frame if none is."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "applyprune" in PurePath(frame.filename).parts[:-1]]
    if not (ours or frames):
        return "an unknown place"
    frame = (ours or frames)[-1]
    parts = PurePath(frame.filename).with_suffix("").parts
    if ours:
        parts = parts[len(parts) - 1 - parts[::-1].index("applyprune") :]
    return f"{'.'.join(parts if ours else parts[-2:])}:{frame.lineno}"

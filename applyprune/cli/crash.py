"""Report an unexpected exception: a short message instead of a traceback, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from pathlib import PurePath

from applyprune._version import __version__

BUG = 70
"""The exit code for an internal error: EX_SOFTWARE of sysexits.h."""
FAILED = 3
WRONG_INPUT = 2
TRACEBACK = "APPLYPRUNE_TRACEBACK"
_NEXT_STEP = "What was written to the cluster is recorded; the next run continues from there."
_GONE = "Change to one that exists, and run again. A job may have cleaned its checkout meanwhile."
_SYSTEM_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
)


def describe_crash(error: Exception) -> tuple[str, int]:
    """Return the message for an exception that is not an ApplypruneError, and the exit code.

    Only an OSError's message is printed: other messages may contain a Secret's value.
    """
    if _lacks_memory(error):
        return f"out of memory\n  Allow more memory, or split the set. {_NEXT_STEP}", FAILED
    if _lacks_folder(error):
        return f"the current folder no longer exists\n  {_GONE}", WRONG_INPUT
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
        name = f" ({error.filename})" if isinstance(error.filename, str) else ""
        return f"{error.strerror}{name}\n  {_NEXT_STEP}", FAILED
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    message = (
        f"internal error (bug): {name} at {_location(error)} "
        f"(applyprune {__version__}, Python {sys.version.split()[0]})\n"
        f"  Please report this line. {_NEXT_STEP}\n"
        f"  {TRACEBACK}=1 prints a traceback, which may contain values of your objects."
    )
    return message, BUG


def _lacks_folder(error: Exception) -> bool:
    """Return whether the current folder was deleted: then a relative path means nothing."""
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return False
    try:
        os.getcwd()  # noqa: PTH109 -- the error of pathlib is the same
    except FileNotFoundError:
        return True
    return False


# What Python and the system's loader say where they do not raise MemoryError.
_NO_MEMORY = (
    "can't start new thread",
    "cannot allocate memory",
    "failed to map segment",
    "out of memory",
)


def _lacks_memory(error: BaseException | None) -> bool:
    """Return whether an exception comes from too little memory, also from an earlier one."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return True
        is_system = isinstance(error, RuntimeError | ImportError | OSError)
        if is_system and any(words in str(error).lower() for words in _NO_MEMORY):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def _location(error: Exception) -> str:
    """Return module and line of the innermost frame of our own code, else of any code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "applyprune" in PurePath(frame.filename).parts[:-1]]
    if not (ours or frames):
        return "an unknown line"
    frame = (ours or frames)[-1]
    parts = PurePath(frame.filename).with_suffix("").parts
    if ours:
        parts = parts[len(parts) - 1 - parts[::-1].index("applyprune") :]
    return f"{'.'.join(parts if ours else parts[-2:])}:{frame.lineno}"


def requested_traceback(error: Exception) -> str:
    """Return the traceback if the environment requests it, else an empty text."""
    return "".join(traceback.format_exception(error)) if os.environ.get(TRACEBACK) else ""

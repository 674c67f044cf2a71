"""The error for what runs on Linux and macOS only."""

from __future__ import annotations

import sys

from applyprune.errors import UsageError


def require_posix(what: str, *, reason: str, hint: str) -> None:
    """Raise UsageError on Windows, with these words; return on other systems."""
    if sys.platform == "win32":
        raise UsageError(f"{what} on Windows", reason=reason, hint=hint)

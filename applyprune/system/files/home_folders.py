"""The folders in which a user's programs keep their settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def windows_homes(environ: Mapping[str, str]) -> Sequence[str]:
    """Return the folders that may be the user's on Windows, in kubectl's order."""
    drive, path = environ.get("HOMEDRIVE", ""), environ.get("HOMEPATH", "")
    found = (
        environ.get("HOME", ""),
        f"{drive}{path}" if drive and path else "",
        environ.get("USERPROFILE", ""),
    )
    return tuple(dict.fromkeys(filter(None, found)))


if sys.platform == "win32":
    _homes = windows_homes
else:

    def _homes(environ: Mapping[str, str]) -> Sequence[str]:
        home = environ.get("HOME", "")
        return (home,) if home else ()


def in_home(environ: Mapping[str, str], *parts: str) -> Path | None:
    """Return a file in the user's folder; None if there is no such folder.

    Of several folders it is the first that has the file, or the first of all.
    """
    files = [Path(home, *parts) for home in _homes(environ)]
    return next((file for file in files if file.exists()), files[0] if files else None)

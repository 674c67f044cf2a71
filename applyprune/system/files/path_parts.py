"""Split a path into what it begins at and its parts, also if parts of it are patterns."""

from __future__ import annotations

import ntpath
import sys
from collections.abc import Sequence


def split_windows_path(path: str) -> tuple[str, Sequence[str]]:
    """Return the drive or share, with a separator unless the path is relative; and the parts."""
    drive, rest = ntpath.splitdrive(path)
    rest = rest.replace("\\", "/")
    return drive + ("\\" if rest.startswith("/") else ""), [one for one in rest.split("/") if one]


if sys.platform == "win32":
    IGNORES_CASE = True
    """Whether two names that differ in upper and lower case are one."""

    def split_path(path: str) -> tuple[str, Sequence[str]]:
        """Return what a path begins at, empty for a relative one, and its parts."""
        return split_windows_path(path)

else:
    IGNORES_CASE = False
    """Whether two names that differ in upper and lower case are one."""

    def split_path(path: str) -> tuple[str, Sequence[str]]:
        """Return what a path begins at, empty for a relative one, and its parts."""
        root = "/" if path.startswith("/") else ""
        return root, [part for part in path.split("/") if part]

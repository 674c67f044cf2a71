"""Which names a file of Windows may have: others lead elsewhere, or to a device."""

from __future__ import annotations

import re
import sys

_FORBIDDEN = r'[\x00-\x1f<>:"\\|?*]'
_DEVICE = r"con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$"


def is_windows_name(name: str) -> bool:
    """Return whether one part of a path names a file of its folder on Windows, and only that."""
    return (
        re.search(_FORBIDDEN, name) is None
        and re.fullmatch(_DEVICE, name.partition(".")[0].rstrip(), re.IGNORECASE) is None
        and not name.endswith((".", " "))
    )


def without_colons(name: str) -> str:
    """Return a name without the character that objects may have in theirs, and files may not."""
    return name.replace(":", "-")


if sys.platform == "win32":

    def can_name_file(name: str) -> bool:
        """Return whether one part of a path, not ``.`` or ``..``, names a file of its folder."""
        return is_windows_name(name)

    def file_name(name: str) -> str:
        """Return the name of a file for that of an object."""
        return without_colons(name)

else:

    def can_name_file(name: str) -> bool:
        """Return whether one part of a path, not ``.`` or ``..``, names a file of its folder."""
        del name
        return True

    def file_name(name: str) -> str:
        """Return the name of a file for that of an object."""
        return name

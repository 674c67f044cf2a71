"""Replace a file by another one, whole or not at all."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 2.0
"""Seconds."""
_PAUSE = 0.05


def until_allowed(work: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Call ``work`` again while it raises PermissionError, for so long; then raise that."""
    ends = time.monotonic() + seconds
    while True:
        try:
            work()
        except PermissionError:
            if time.monotonic() > ends:
                raise
            time.sleep(_PAUSE)
        else:
            return


if sys.platform == "win32":

    def replace_file(source: Path, target: Path) -> None:
        """Give a file another name, that of a file which has to go; raises OSError."""
        # Windows refuses that while another program, such as a virus scanner, has either open.
        until_allowed(lambda: source.replace(target))

else:

    def replace_file(source: Path, target: Path) -> None:
        """Give a file another name, that of a file which has to go; raises OSError."""
        source.replace(target)

"""What a benchmark of the controller prints at its end."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from applyprune import __version__
from applyprune.output.terminal import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.controller.jobs import Figure


def report(figures: Sequence[Figure], load: float, notes: str) -> str:
    """Return the machine with its load at the start, a table of the figures, and the notes."""
    rows = [(one.job, one.what, one.value, one.target, _verdict(one.reached)) for one in figures]
    return (
        f"applyprune {__version__} (Python {platform.python_version()}); {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, load average {load:.1f} at the start\n\n"
        f"{table(('JOB', 'FIGURE', 'VALUE', 'TARGET', ''), rows)}\n\n{notes}"
    )


def _verdict(reached: bool | None) -> str:
    return "" if reached is None else "reached" if reached else "MISSED"

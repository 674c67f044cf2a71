"""The program with clocks that a test moves, as a sleep of the machine does while nothing runs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
"""Where the command must be started."""


def with_clocks_of(slept: Path) -> Sequence[str]:
    """Return the beginning of a command whose clocks are ahead by the seconds in a file."""
    return (sys.executable, "-m", "tests.support.asleep", str(slept))


def _ahead(real: Callable[[], clock.Instant], slept: Path) -> Callable[[], clock.Instant]:
    def read() -> clock.Instant:
        now, ahead = real(), float(slept.read_text())
        return clock.Instant(now.boot + ahead, now.wall + ahead)

    return read


if __name__ == "__main__":
    # Before any other module has imported it.
    vars(clock)["read_clock"] = _ahead(clock.read_clock, Path(sys.argv[1]))
    # The rest is: the interpreter, -m, the module, its arguments.
    del sys.argv[:4]
    runpy.run_module("applyprune", run_name="__main__", alter_sys=True)

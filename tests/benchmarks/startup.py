"""How long the command line takes to say a word, beside `import click`: its floor."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from applyprune.output.terminal.table import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FLOOR = "python -c 'import click'"
CALLS: Mapping[str, Sequence[str]] = {
    FLOOR: ("-c", "import click"),
    "applyprune --help": ("-m", "applyprune", "--help"),
    "applyprune version --client": ("-m", "applyprune", "version", "--client"),
}
GOAL = 1.5
"""How many times the floor a call may take; printed, never asserted."""


def measure(rounds: int, environment: Mapping[str, str]) -> Mapping[str, Sequence[float]]:
    """Return the wall seconds of each call; all of them once a round, after one to warm up."""
    times: dict[str, list[float]] = {name: [] for name in CALLS}
    for turn in range(-1, rounds):
        for name, arguments in CALLS.items():
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, *arguments],
                env=dict(environment),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            if turn >= 0:
                times[name].append(time.perf_counter() - began)
    return times


def report(times: Mapping[str, Sequence[float]]) -> str:
    """Return the table: a line for each call, with the median of its ratios to the floor's."""
    rows = []
    for name, seconds in times.items():
        ratio = statistics.median(
            one / floor for one, floor in zip(seconds, times[FLOOR], strict=True)
        )
        verdict = "reached" if ratio <= GOAL else "MISSED"
        rows.append(
            (
                name,
                f"{statistics.median(seconds) * 1000:.0f} ms",
                f"{min(seconds) * 1000:.0f} ms",
                f"{ratio:.2f}×",
                "" if name == FLOOR else f"≤ {GOAL}×: {verdict}",
            )
        )
    return table(("START-UP", "MEDIAN", "MIN", "RATIO", "GOAL"), rows)

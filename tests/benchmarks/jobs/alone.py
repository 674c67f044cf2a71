"""Rows about single processes: the start of the command line, and large inventories."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from tests.benchmarks.measuring.processes import cost_of
from tests.benchmarks.rows import Measured, Sample, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.rows import Results, Row

_FLOOR = ("-c", "import click")
_IMPORT = re.compile(r"^import time:\s*(\d+) \|\s*(\d+) \|(\s*)(\S+)$", re.MULTILINE)


def measure(rows: Sequence[Row], rounds: int, environment: Mapping[str, str]) -> Results:
    """Measure rows that share their work; all commands take turns, after one to warm up."""
    results: Results = {}
    # What is written must be there before it is read.
    ordered = sorted(rows, key=lambda row: "write" not in row.command)
    for turn in range(-1, rounds):
        for row in ordered:
            for subject in row.subjects:
                command = _FLOOR if subject is Subject.FLOOR else row.command
                measured = results.setdefault((row.name, subject), Measured())
                if measured.failure:
                    continue
                cost = cost_of((sys.executable, *command), environment)
                if cost.code != 0:
                    measured.failure = f"exit code {cost.code}: {cost.output[-300:].strip()}"
                elif turn >= 0:
                    printed = re.search(r"^seconds (\S+)$", cost.output, re.MULTILINE)
                    seconds = float(printed[1]) if printed else cost.seconds
                    measured.samples.append(Sample(seconds, cost.cpu, cost.memory))
    click.echo(f"{', '.join(row.name for row in rows)}: {rounds} rounds", err=True)
    return results


def imports(command: Sequence[str], environment: Mapping[str, str]) -> list[tuple[str, float]]:
    """Return the modules that a command imports, and the milliseconds of each without others.

    The slowest come first.
    """
    arguments = (sys.executable, "-X", "importtime", *command)
    cost_of(arguments, environment)
    output = cost_of(arguments, environment).output
    found = [(name, int(own) / 1000) for own, _, _, name in _IMPORT.findall(output)]
    return sorted(found, key=lambda one: -one[1])

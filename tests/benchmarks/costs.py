"""What a command costs, on a terminal of its own; and the rows that are single commands."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import click

from tests.benchmarks.rows import Measured
from tests.benchmarks.workload import write_manifests
from tests.support.forty_services import ENVIRONMENTS, committed
from tests.support.pseudo_terminal import PseudoTerminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.programs import Programs
    from tests.benchmarks.rows import Figures, Results, Row

_LAUNCHER = Path(__file__).with_name("launcher.py")
_IN_EACH = 28
"""Objects of a set whose files are compared with a commit."""
_LIMIT = 1800.0
"""Seconds after which a command has failed, and the others still have their turn."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command has cost, and how it ended."""

    figures: Figures
    """Seconds; CPU seconds with those of all that it has awaited; MB of the largest process."""
    code: int
    output: str

    def problem(self, codes: Sequence[int] = (0,), says: str = "") -> str:
        """Return why it has failed, with the end of its output; nothing if it has not."""
        if self.code in codes and says in self.output:
            return ""
        return f"exit code {self.code}: {' '.join(self.output.split())[-300:]}"


def cost_of(command: Sequence[str | Path], environment: Mapping[str, str]) -> Cost:
    """Run a command to its end."""
    with NamedTemporaryFile() as result:
        launched = (sys.executable, "-I", "-S", _LAUNCHER, result.name, *command)
        with PseudoTerminal(launched, columns=100, environment=environment) as terminal:
            try:
                terminal.ended(_LIMIT)
            except AssertionError as failure:
                return Cost({}, -1, str(failure))
        code, seconds, cpu, kibibytes = result.read().decode().split()
    figures = {
        "seconds": round(float(seconds), 4),
        "cpu": round(float(cpu), 4),
        "memory": round(int(kibibytes) * 1024 / 1e6, 1),
    }
    return Cost(figures, int(code), terminal.shown)


def measure(rows: Sequence[Row], rounds: int, programs: Programs) -> Results:
    """Measure rows that share their work; all commands take turns, after one to warm up."""
    objects = programs.folder / "objects"
    if rows[0].work.objects:
        write_manifests(objects, rows[0].work.objects, "read", rows[0].work.namespaces)
    one, folder = programs.folder / "repository/deploy/prod/web", programs.folder / "repository"
    if rows[0].work.sets:
        _write_sets(folder, rows[0].work.sets, one)
    places = {"objects": objects, "sets": folder / "deploy", "one": one}
    results: Results = {row.name: {} for row in rows}
    for turn in range(-1, rounds):
        for row in rows:
            for program in programs.of(row):
                measured = results[row.name].setdefault(program, Measured())
                command = programs.command(program, row.command, **places)
                cost = cost_of(command, programs.environment(program))
                measured.failure = measured.failure or cost.problem()
                if turn >= 0:
                    measured.samples.append(cost.figures)
    click.echo(f"{', '.join(row.name for row in rows)}: {rounds} rounds", err=True)
    return results


def _write_sets(folder: Path, sets: int, one: Path) -> None:
    """Write so many sets with 25 files each, and commit them; then change a file of one."""
    committed(folder, sets // len(ENVIRONMENTS), _IN_EACH, builds=False)
    file = one / "manifests/flags.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("one", "two"), encoding="utf-8")

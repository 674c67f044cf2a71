"""``python -m tests.benchmarks``: applyprune beside kubectl and others, in one run."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.benchmarks import bundles, costs, sets
from tests.benchmarks.programs import programs_in
from tests.benchmarks.rows import ROWS
from tests.benchmarks.tables import Report, read_report, text

_MEASURES = {"sets": sets.measure, "costs": costs.measure, "bundles": bundles.measure}
_NOTES = """\
Whole processes by the wall clock, each on a terminal of its own; all take turns at going first.
CPU is the least of all rounds, with that of all that a process has started; memory is the most MB
that one process has held. Every round has fresh objects, and every program its own; discovery
caches are warm. The plane has no controller manager and no nodes: nothing but the API server and
etcd works beside a program, and nobody waits for readiness. Requests are those of the audit log,
the most of a round; writes are those that are no dry runs. kubectl records and prunes nothing.
Of a controller, CPU and memory (PSS) are sums over all its processes."""


@click.command()
@click.option(
    "--job",
    "names",
    multiple=True,
    type=click.Choice([row.name for row in ROWS]),
    help="By default, all; with it, also the rows that its targets compare with.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="Instead of each row's own number.")
@click.option("--quick", is_flag=True, help="Fewer rounds, without the long rows.")
@click.option("--peers/--no-peers", default=True, help="Whether to run kapp, kapply and helmfile.")
@click.option("--bundles", default=1000, show_default=True, help="How many the last rows have.")
@click.option(
    "--beside",
    "other",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Another checkout of applyprune, to run by turns with this one.",
)
@click.option(
    "--json",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write all figures; rows of the same machine and versions stay there.",
)
def main(
    *,
    names: tuple[str, ...],
    rounds: int | None,
    quick: bool,
    peers: bool,
    bundles: int,
    other: Path | None,
    target: Path | None,
) -> None:
    """Measure, print the table, and exit with 1 if a target is missed."""
    # Each command would compile the whole package.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    wanted = set(names or (row.name for row in ROWS if row.work.quick or not quick))
    wanted |= {one.row for row in ROWS if row.name in wanted for one in row.targets if one.row}
    with tempfile.TemporaryDirectory(prefix="applyprune-bench-") as scratch:
        programs = programs_in(Path(scratch), peers=peers, other=other, bundles=bundles)
        machine = {
            "cores": str(os.cpu_count()),
            "system": f"{platform.system()} {platform.machine()}",
            "load": f"{os.getloadavg()[0]:.1f}",
            "date": time.strftime("%Y-%m-%d"),
        }
        report = Report(machine, programs.versions)
        for work in dict.fromkeys(row.work for row in ROWS if row.name in wanted):
            together = [row for row in ROWS if row.work == work and row.name in wanted]
            count = rounds or (work.quick if quick else work.rounds) or work.rounds
            report.results |= _MEASURES[work.measured_by](together, count, programs)
            if target is not None:
                # A whole run takes long, and may be interrupted.
                _keep(report, target)
    click.echo(f"{text(report)}\n\n{_NOTES}")
    for wrong in (*report.failures, *report.missed):
        click.echo(wrong, err=True)
    sys.exit(1 if report.failures or report.missed else 0)


def _keep(report: Report, target: Path) -> None:
    """Write the figures, with those of other rows that are there."""
    whole = read_report(target).updated(report) if target.exists() else report
    whole.write(target)


if __name__ == "__main__":
    main()

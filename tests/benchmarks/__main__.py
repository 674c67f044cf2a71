"""``python -m tests.benchmarks``: applyprune beside kubectl, kapp and kapply, in one run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune import __version__
from applyprune.localplane import ensure_built, progress_on
from tests.benchmarks import report as reports
from tests.benchmarks.jobs import alone, sets
from tests.benchmarks.measuring.site import site_in
from tests.benchmarks.peers.calls import APPLYPRUNE, Programs
from tests.benchmarks.peers.programs import KAPP, KAPPLY, ensure_peer
from tests.benchmarks.rows import Subject, failures
from tests.benchmarks.targets import ROWS, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.localplane import Binaries
    from tests.benchmarks.rows import Row, Work

NOTES = """\
Whole processes by the wall clock, those about sets on a terminal of their own; all take turns at
going first. CPU is that of the process and all that it has started; memory is the most that one
process has held. Every round has fresh objects, and every program its own; discovery caches are
warm. The plane has no controller manager and no nodes: nothing but the API server and etcd works
beside a program, and nobody waits for readiness. Requests are those of the audit log, the most of
a round; writes are those that are no dry runs; so many "deep" waited for each other. kubectl
records nothing and prunes nothing."""


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
@click.option("--peers/--no-peers", default=True, help="Whether to run kapp and kapply too.")
@click.option(
    "--json",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write all figures.",
)
def main(
    *, names: tuple[str, ...], rounds: int | None, quick: bool, peers: bool, target: Path | None
) -> None:
    """Measure, print the table, and exit with 1 if a target is missed."""
    binaries = ensure_built(progress_on(sys.stderr))
    programs, versions = _programs(binaries, peers=peers)
    rows = chosen(names, quick=quick)
    machine = {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "date": time.strftime("%Y-%m-%d"),
    }
    report = reports.Report(machine, versions, {})
    with tempfile.TemporaryDirectory(prefix="applyprune-bench-") as scratch:
        folder = Path(scratch)
        for number, (work, together) in enumerate(_by_work(rows).items()):
            count = rounds or (work.quick if quick else work.rounds) or 1
            place = folder / f"work-{number}"
            if work.objects:
                found = sets.measure(together, count, programs, binaries, place)
                report = replace(report, results=report.results | found)
            else:
                with site_in(place, binaries, folder / "caches") as site:
                    report = _alone(report, together, count, site.environment)
            if target is not None:
                # A whole run takes long, and may be interrupted.
                target.parent.mkdir(parents=True, exist_ok=True)
                data = json.dumps(reports.to_json(report, rows), indent=1)
                target.write_text(data, encoding="utf-8")
    click.echo(f"{reports.text(report, rows)}\n\n{NOTES}")
    for failure in failures(report.results):
        click.echo(f"failed: {failure}", err=True)
    sys.exit(reports.exit_code(report, rows))


def _alone(
    report: reports.Report, rows: Sequence[Row], rounds: int, environment: Mapping[str, str]
) -> reports.Report:
    found = alone.measure(rows, rounds, environment)
    imports = report.imports
    if any("--help" in row.command for row in rows):
        imports = alone.imports((str(APPLYPRUNE), "--help"), environment)
    return replace(report, results=report.results | found, imports=imports)


def _by_work(rows: Sequence[Row]) -> Mapping[Work, list[Row]]:
    found: dict[Work, list[Row]] = {}
    for row in rows:
        found.setdefault(row.work, []).append(row)
    return found


def _programs(binaries: Binaries, *, peers: bool) -> tuple[Programs, dict[str, str]]:
    """Return the programs that are there, and the version of each."""
    paths = {Subject.KUBECTL: binaries.kubectl}
    kubernetes = _json_of(paths[Subject.KUBECTL], "version", "--client", "-o", "json")
    versions = {
        "applyprune": __version__,
        "Python": platform.python_version(),
        "Kubernetes": kubernetes["clientVersion"]["gitVersion"],
    }
    for subject, program in ((Subject.KAPP, KAPP), (Subject.KAPPLY, KAPPLY)):
        if peers and (path := ensure_peer(program)) is not None:
            paths[subject] = path
            versions[program.name] = program.version
    return Programs(paths), versions


def _json_of(*command: str | Path) -> Any:
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    main()

"""``python -m tests.benchmarks.controller``: the controller with many Bundles."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune.localplane import ensure_built, progress_on
from tests.benchmarks.controller import jobs
from tests.benchmarks.controller.report import report
from tests.benchmarks.controller.site import Running, audited_site

if TYPE_CHECKING:
    from tests.benchmarks.controller.jobs import Figure

JOBS = ("first", "unchanged", "drift", "restart", "many", "takeover")
SECONDS, MEMORY = 120.0, 200
"""The goals for 1,000 Bundles."""
NOTES = """\
Requests are those of the audit log, without those about Leases. CPU and memory are sums over all
processes of the controller; memory is PSS, once a second, the largest sum. The plane runs on the
same machine: the API server and etcd only."""


@click.command()
@click.option("--job", "wanted", multiple=True, type=click.Choice(JOBS), help="By default, all.")
@click.option("--bundles", default=1000, help="For all jobs but many.")
@click.option("--many", "many_bundles", default=5000, help="For many.")
@click.option("--namespaces", default=50)
@click.option("--interval", default=600, help="Seconds between two reconciles of a Bundle.")
@click.option("--changes", default=200, help="How many objects are changed from outside.")
@click.option("--rate", default=5.0, help="How many changes a second.")
@click.argument("controller_arguments", nargs=-1)
def main(
    *,
    wanted: tuple[str, ...],
    bundles: int,
    many_bundles: int,
    namespaces: int,
    interval: int,
    changes: int,
    rate: float,
    controller_arguments: tuple[str, ...],
) -> None:
    """Measure, and print the table. CONTROLLER_ARGUMENTS go to the controller, after ``--``."""
    binaries = ensure_built(progress_on(sys.stderr))
    load, names = os.getloadavg()[0], wanted or JOBS
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="applyprune-bench-") as scratch:
        folder = Path(scratch)
        if {"first", "unchanged", "drift", "restart"} & set(names):
            with audited_site(binaries, folder / "one") as site:
                running = Running(site.plane, folder / "log", *controller_arguments)
                teams = site.make_namespaces(namespaces)
                goals = (SECONDS * bundles / 1000, MEMORY)
                figures += jobs.first(site, running, bundles, teams, goals, interval)
                if "unchanged" in names:
                    figures += jobs.unchanged(site, running, interval)
                if "drift" in names:
                    figures += jobs.drift(site, changes, rate)
                running.stop()
                if "restart" in names:
                    running = Running(site.plane, folder / "again", *controller_arguments)
                    figures += jobs.restart(site, running)
                    running.stop()
        if "many" in names:
            with audited_site(binaries, folder / "many") as site:
                running = Running(site.plane, folder / "log", *controller_arguments)
                teams = site.make_namespaces(namespaces)
                goals = (1.1 * SECONDS * many_bundles / 1000, 500)
                figures += jobs.first(site, running, many_bundles, teams, goals)
                running.stop()
        if "takeover" in names:
            with audited_site(binaries, folder / "takeover") as site:
                teams = site.make_namespaces(namespaces)
                figures += jobs.takeover(site, folder, bundles, teams, controller_arguments)
    click.echo(report(figures, load, NOTES))


if __name__ == "__main__":
    main()

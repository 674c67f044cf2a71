"""``python -m tests.benchmarks.controller``: the controller with many Bundles."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune import __version__
from applyprune.localplane import API_SERVER_ONLY, ensure_built, progress_on, start
from applyprune.output.terminal.table import table
from tests.benchmarks.controller import jobs
from tests.benchmarks.controller.site import Running, Site, site_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.localplane import Binaries
    from tests.benchmarks.controller.jobs import Figure

JOBS = ("first", "unchanged", "drift", "many", "replicas")
SECONDS, MEMORY = 120.0, 200
"""The goals for 1,000 Bundles."""
NOTES = """\
Requests are those of the audit log, without those about Leases. CPU and memory are sums over all
processes of the controller; memory is PSS, once a second, the largest sum. The plane runs on the
same machine: the API server and etcd only."""


@click.command()
@click.option("--job", "wanted", multiple=True, type=click.Choice(JOBS), help="By default, all.")
@click.option("--bundles", default=1000, help="For first, unchanged and drift.")
@click.option("--many", "many_bundles", default=5000, help="For many.")
@click.option("--replicated", default=2000, help="For replicas.")
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
    replicated: int,
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
        if {"first", "unchanged", "drift"} & set(names):
            with _site(binaries, folder / "one") as site:
                running = Running(site.plane, folder / "log", *controller_arguments)
                teams = site.make_namespaces(namespaces)
                goals = (SECONDS * bundles / 1000, MEMORY)
                figures += jobs.first(site, running, bundles, teams, goals, interval)
                if "unchanged" in names:
                    figures += jobs.unchanged(site, running, interval)
                if "drift" in names:
                    figures += jobs.drift(site, changes, rate)
                running.stop()
        if "many" in names:
            with _site(binaries, folder / "many") as site:
                running = Running(site.plane, folder / "log", *controller_arguments)
                teams = site.make_namespaces(namespaces)
                goals = (1.1 * SECONDS * many_bundles / 1000, 500)
                figures += jobs.first(site, running, many_bundles, teams, goals)
                running.stop()
        if "replicas" in names:
            with _site(binaries, folder / "replicas") as site:
                teams = site.make_namespaces(namespaces)
                figures += jobs.replicas(site, folder, replicated, teams, controller_arguments)
    click.echo(
        f"applyprune {__version__} (Python {platform.python_version()}); {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, load average {load:.1f} at the start\n"
    )
    click.echo(report(figures))
    click.echo(f"\n{NOTES}")


@contextmanager
def _site(binaries: Binaries, folder: Path) -> Iterator[Site]:
    spec = replace(API_SERVER_ONLY, audit=True)
    with start(binaries, spec, folder) as plane, site_on(plane) as site:
        yield site


def report(figures: Sequence[Figure]) -> str:
    """Return the table: a line for each figure."""
    rows = [(one.job, one.what, one.value, one.target, _verdict(one.reached)) for one in figures]
    return table(("JOB", "FIGURE", "VALUE", "TARGET", ""), rows)


def _verdict(reached: bool | None) -> str:
    return "" if reached is None else "reached" if reached else "MISSED"


if __name__ == "__main__":
    main()

"""``python -m tests.benchmarks.sources``: manifests from Git and from a registry."""

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
from tests.benchmarks.controller.__main__ import report
from tests.benchmarks.controller.site import site_on
from tests.benchmarks.sources import bundle_jobs, fetch_jobs
from tests.components import ensure_components

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Binaries
    from tests.benchmarks.controller.jobs import Figure
    from tests.benchmarks.controller.site import Site

JOBS = ("commit", "unchanged", "fetch", "artifact", "memory")
NOTES = """\
Times are medians. Requests are those of the audit log, without those about Leases, and those in
the log of the Git server. Memory is PSS, once a second, the largest sum over all processes of the
controller but git's own. The plane and the servers run on the same machine."""


@click.command()
@click.option("--job", "wanted", multiple=True, type=click.Choice(JOBS), help="By default, all.")
@click.option("--bundles", default=1000, help="For commit and unchanged: each has a folder.")
@click.option("--namespaces", default=50)
@click.option("--interval", default=5, help="Seconds between two looks at the repository.")
@click.option("--files", default=4000, help="For fetch.")
@click.option("--objects", default=1000, help="For artifact.")
@click.option("--repositories", default=20, help="For memory; each has ten Bundles.")
@click.option("--size", default=50, help="For memory: megabytes of each repository.")
@click.option("--rounds", default=5)
@click.argument("controller_arguments", nargs=-1)
def main(
    *,
    wanted: tuple[str, ...],
    bundles: int,
    namespaces: int,
    interval: int,
    files: int,
    objects: int,
    repositories: int,
    size: int,
    rounds: int,
    controller_arguments: tuple[str, ...],
) -> None:
    """Measure, and print the table. CONTROLLER_ARGUMENTS go to the controller, after ``--``."""
    binaries = ensure_built(progress_on(sys.stderr))
    load, names = os.getloadavg()[0], wanted or JOBS
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="applyprune-bench-") as scratch:
        folder = Path(scratch)
        if {"commit", "unchanged"} & set(names):
            with (
                _site(binaries, folder / "one") as site,
                bundle_jobs.monorepo(
                    site, folder, bundles, namespaces, interval, controller_arguments
                ) as (followed, first),
            ):
                figures += first
                if "commit" in names:
                    figures += bundle_jobs.commit(followed, rounds)
                if "unchanged" in names:
                    figures += bundle_jobs.unchanged(followed, looks=12)
        if "fetch" in names:
            figures += fetch_jobs.fetch(folder / "fetch", files, rounds)
        if "artifact" in names:
            components = ensure_components(progress_on(sys.stderr))
            with _site(binaries, folder / "artifact") as site:
                figures += fetch_jobs.artifact(
                    site.plane, components, folder / "oci", objects, rounds
                )
        if "memory" in names:
            with _site(binaries, folder / "memory") as site:
                figures += bundle_jobs.memory(
                    site, folder / "large", repositories, size, controller_arguments
                )
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


if __name__ == "__main__":
    main()

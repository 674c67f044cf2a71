"""``python -m tests.benchmarks.sources``: manifests from Git and from a registry."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune.localplane import ensure_built, progress_on
from tests.benchmarks.controller.report import report
from tests.benchmarks.controller.site import audited_site
from tests.benchmarks.sources import bundle_jobs, fetch_jobs
from tests.components import ensure_components

if TYPE_CHECKING:
    from tests.benchmarks.controller.jobs import Figure

JOBS = ("commit", "unchanged", "fetch", "artifact", "memory", "order", "silent")
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
                audited_site(binaries, folder / "one") as site,
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
            with audited_site(binaries, folder / "artifact") as site:
                figures += fetch_jobs.artifact(
                    site.plane, components, folder / "oci", objects, rounds
                )
        if "memory" in names:
            with audited_site(binaries, folder / "memory") as site:
                figures += bundle_jobs.memory(
                    site, folder / "large", repositories, size, controller_arguments
                )
        if "order" in names:
            with audited_site(binaries, folder / "order") as site:
                figures += bundle_jobs.order(
                    site, folder / "both", 20 * rounds, controller_arguments
                )
        if "silent" in names:
            for number, (shape, timeout) in enumerate((((10, 4), "60s"), ((2, 12), "10m"))):
                with audited_site(binaries, folder / f"silent-{number}") as site:
                    figures += bundle_jobs.silent(
                        site,
                        folder / f"silent-{number}-host",
                        shape,
                        timeout,
                        4 * rounds,
                        controller_arguments,
                    )
    click.echo(report(figures, load, NOTES))


if __name__ == "__main__":
    main()

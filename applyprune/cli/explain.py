"""``applyprune explain``: why a run does with an object what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from applyprune.cli.access import cluster_options
from applyprune.cli.completing import FILE, OBJECT
from applyprune.cli.helping import Verb
from applyprune.cli.options import set_argument
from applyprune.cli.reporting import reporting_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.where import Where
    from applyprune.model.events import Event


@click.command(cls=Verb)
@set_argument
@click.argument("ref", type=OBJECT, metavar="KIND/NAME")
@click.option(
    "-f",
    "--filename",
    "paths",
    type=FILE,
    multiple=True,
    metavar="PATH",
    help="The input; without it the object is judged as if it alone had left the set.",
)
@cluster_options
@reporting_options
def explain(name: str, ref: str, paths: tuple[str, ...], where: Where, reporting: Reporting) -> int:
    """Tell what `apply` would do about one object, and everything that it is judged by.

    KIND/NAME is deployment/web or deployment.apps/web, in every namespace of the set, or in one:
    shop/deployment/web. It may be an object that is in no set, or in another. Nothing is written.

    \b
    Examples:
      applyprune explain web deployment/web -f manifests/
      applyprune explain web configmap/old
    """
    return reporting.follow(_judged(where, name, ref, paths))


def _judged(where: Where, name: str, ref: str, paths: tuple[str, ...]) -> Iterator[Event]:
    from applyprune.cli.session import at_work
    from applyprune.engine.judging import judge
    from applyprune.planning.tracking import identity
    from applyprune.sources import read

    manifests = read(paths, stdin=sys.stdin.buffer) if paths else None
    with at_work(where) as work:
        target = identity(name, work.namespace)
        yield from judge(
            target,
            manifests,
            ref,
            work.cluster,
            work.store(target),
            work.stop,
            namespace=work.namespace,
        )

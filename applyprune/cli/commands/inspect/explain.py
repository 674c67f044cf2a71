"""``applyprune explain``: explain what ``apply`` would do with one object, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.completion import OBJECT
from applyprune.cli.options.planning import optional_planning_options
from applyprune.cli.options.reporting import reporting_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=Command)
@optional_planning_options
@click.argument("ref", type=OBJECT, metavar="KIND/NAME")
@reporting_options
def explain(
    name: str,
    ref: str,
    paths: tuple[str | Overlay, ...],
    cluster_target: ClusterTarget,
    options: Options,
    reporting: Reporting,
) -> int:
    """Explain what `apply` would do with one object, and why.

    KIND/NAME is deployment/web or deployment.apps/web, in every namespace of the set, or in one:
    shop/deployment/web. The object may be in no set, or in another. Without input, the
    explanation assumes that only this object has left the set. Give the options of the `apply`.
    Nothing is written.

    \b
    Examples:
      applyprune explain web deployment/web -f manifests/
      applyprune explain web configmap/old
    """
    return reporting.print_events(_events(cluster_target, name, ref, paths, options))


def _events(
    cluster_target: ClusterTarget,
    name: str,
    ref: str,
    paths: tuple[str | Overlay, ...],
    options: Options,
) -> Iterator[Event]:
    from applyprune.cli.session import input_reader, open_session, read_input

    given = None
    if paths:
        given = yield from read_input(input_reader(paths))
    with open_session(cluster_target) as session:
        yield from session.applyset(name).iter_explain(
            ref, given, options=options.apply, prune=options.prune, cancellation=session.stop
        )

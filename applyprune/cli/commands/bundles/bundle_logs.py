"""``applyprune bundle logs``: what the controller has logged about a Bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.commands.bundles.bundle_name import bundle_argument
from applyprune.cli.options.cluster_access import cluster_options, namespace_name
from applyprune.cli.options.completion import NAMESPACE
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import duration_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event


@click.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
@click.option("-f", "--follow", is_flag=True, help="Keep running and show new lines, until Ctrl-C.")
@click.option(
    "--since",
    metavar="TIME",
    callback=duration_or_none,
    help="Only lines of the last TIME: 10m, 1h.  [default: all lines]",
)
@click.option(
    "--controller-namespace",
    default="applyprune-system",
    type=NAMESPACE,
    metavar="NS",
    callback=namespace_name,
    show_default=True,
    help="The namespace in which the controller runs.",
)
def logs(
    name: str,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    follow: bool,
    since: float | None,
    controller_namespace: str,
) -> int:
    """Show the lines of the controller's log about the Bundle NAME, of all replicas.

    Reads the logs of the controller's Pods: that needs the rights `list` on pods and `get` on
    pods/log in the controller's namespace.

    \b
    Examples:
      applyprune bundle logs web -n shop --since 1h
      applyprune bundle logs web --follow
      applyprune bundle logs web -o jsonl
    """
    return reporting.print_events(
        _lines(
            cluster_target,
            name,
            follow=follow,
            since=since,
            controller_namespace=controller_namespace,
        )
    )


def _lines(
    cluster_target: ClusterTarget,
    name: str,
    *,
    follow: bool,
    since: float | None,
    controller_namespace: str,
) -> Iterator[Event]:
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        yield from Bundle(name, cluster=session.cluster).iter_logs(
            follow=follow,
            since=since,
            controller_namespace=controller_namespace,
            cancellation=session.stop,
        )

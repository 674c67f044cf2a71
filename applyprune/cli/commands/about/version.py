"""``applyprune version``: show the versions of applyprune and of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune._version import __version__
from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.reporting import Reporting, reporting_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event


@click.command(cls=Command)
@cluster_options
@reporting_options
@click.option(
    "--client", is_flag=True, help="Show applyprune's own version only; do not contact the server."
)
def version(cluster_target: ClusterTarget, reporting: Reporting, client: bool) -> int:
    """Show the versions of applyprune and of the server.

    Exits with 7 if no server answers, after printing applyprune's own version.

    \b
    Examples:
      applyprune version
      applyprune version --client
    """
    import platform

    ours = (__version__, platform.python_version(), f"{platform.system()} {platform.machine()}")
    if client and reporting == Reporting():
        # Editors and prompts call this often. One line needs no stream of events.
        from applyprune.output.inspection import version_line
        from applyprune.output.terminal import Terminal

        Terminal().out(version_line(*ours, server=""))
        return 0
    return reporting.print_events(_events(cluster_target, ours, client=client))


def _events(
    cluster_target: ClusterTarget, ours: tuple[str, str, str], *, client: bool
) -> Iterator[Event]:
    from applyprune.cli.session import connection_to
    from applyprune.model.reports.version import VersionReport

    server = ""
    try:
        if not client:
            with connection_to(cluster_target) as cluster:
                server = cluster.client.version()
    finally:
        yield VersionReport(*ours, server)

"""``applyprune status``: show the health and drift of each object in a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import fail_fast_option, timeout_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import StatusOptions


@click.command(cls=Command)
@name_argument
@cluster_options
@reporting_options
@click.option(
    "--drift", is_flag=True, help="Name the fields that have drifted, and who wrote them."
)
@click.option(
    "--values",
    is_flag=True,
    help="Compare every value with the last applied manifest, not only the server's record.",
)
@click.option(
    "--fail-on-drift",
    is_flag=True,
    help="Exit with 1 if an object has drifted, or if that is unknown.",
)
@click.option("-w", "--watch", is_flag=True, help="Keep running and show changes, until Ctrl-C.")
@click.option(
    "--wait/--no-wait",
    default=False,
    help="Whether to wait until every object is ready, or one can never be.  [default: no-wait]",
)
@fail_fast_option
@click.option(
    "--tree",
    is_flag=True,
    help="Show the set by wave, with what each object owns, down to Pods.",
)
@click.option(
    "--logs",
    is_flag=True,
    help="Add the last 10 log lines of failing containers, also of the instance that crashed.",
)
@timeout_option("How long to wait for everything to be ready.")
def status(
    name: str,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    drift: bool,
    values: bool,
    fail_on_drift: bool,
    watch: bool,
    wait: bool,
    fail_fast: bool,
    tree: bool,
    logs: bool,
    timeout: float,
) -> int:
    """Show the health and drift of each object in the set NAME.

    Of an object that is not ready, it names the Pod, the condition and the last warning events.

    Exits with 5 if an object is not ready or missing, and with 3 if one could not be read. An
    object has drifted if somebody else has changed a field that the set owns. The server's own
    record (managedFields) shows this.

    \b
    Examples:
      applyprune status web
      applyprune status web --tree --logs
      applyprune status web --drift
      applyprune status web --drift --values
      applyprune status web --wait --timeout 2m
      applyprune status web --fail-on-drift -q        # for a nightly job
    """
    from applyprune.model.options import StatusOptions

    status_options = StatusOptions(
        drift=drift,
        values=values,
        fail_on_drift=fail_on_drift,
        watch=watch,
        wait=wait,
        fail_fast=fail_fast,
        tree=tree,
        logs=logs,
        timeout=timeout,
    )
    return reporting.print_events(_events(cluster_target, name, status_options))


def _events(
    cluster_target: ClusterTarget, name: str, status_options: StatusOptions
) -> Iterator[Event]:
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        yield from session.applyset(name).iter_status(status_options, cancellation=session.stop)

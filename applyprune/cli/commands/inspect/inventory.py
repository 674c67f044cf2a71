"""``applyprune inventory``: show and check inventories; and its other subcommands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import CommandGroup
from applyprune.cli.commands.inspect.inventory_changes import (
    move,
    orphan,
    own,
    release,
    repair,
    repair_events,
)
from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import cluster_options
from applyprune.model.events import (
    EntryListed,
    Finished,
    MismatchFound,
    RunListed,
    Started,
)
from applyprune.model.inventory import Inventory, Ownership
from applyprune.model.options import DryRun, Options
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event


@click.group(cls=CommandGroup)
def inventory() -> None:
    """Show, check and repair inventories; move or orphan objects."""


@inventory.command()
@name_argument
@cluster_options
@reporting_options
def show(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """List the objects in the inventory of the set NAME.

    `applyprune status` shows their health.

    \b
    Examples:
      applyprune inventory show web
    """
    return reporting.print_events(_entries(cluster_target, name))


@inventory.command()
@name_argument
@cluster_options
@reporting_options
def history(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """List the last ten runs that changed an object of the set NAME.

    The API server's audit log has the ID of the run in the User-Agent of each request. A run is
    unfinished while it works, and if it was killed. Whoever may write the inventory may forge this
    list.

    \b
    Examples:
      applyprune inventory history web
      applyprune inventory history web -o json
    """
    return reporting.print_events(_runs(cluster_target, name))


@inventory.command()
@name_argument
@cluster_options
@reporting_options
def check(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Compare the inventory of the set NAME with the cluster; change nothing.

    Exits with 1 if they differ. Each difference says what a repair would do.

    \b
    Examples:
      applyprune inventory check web
    """
    events = repair_events(cluster_target, name, Options(dry_run=DryRun.SERVER), Ownership.ADOPTED)
    return reporting.print_events(_with_exit_code(events))


inventory.add_command(repair)
inventory.add_command(orphan)
inventory.add_command(own)
inventory.add_command(move)
inventory.add_command(release)


def _read(cluster_target: ClusterTarget, name: str) -> Inventory:
    """Return the inventory of a set; raise UsageError if there is none."""
    from applyprune.api.sets import ApplySet
    from applyprune.cli.session import connection_to
    from applyprune.engine.preflight import no_such_set

    with connection_to(cluster_target) as cluster:
        applyset = ApplySet(name, cluster=cluster)
        found = applyset.inventory()
    if not found.exists:
        raise no_such_set(applyset.identity)
    return found


def _entries(cluster_target: ClusterTarget, name: str) -> Iterator[Event]:
    found = _read(cluster_target, name)
    yield from (EntryListed(found.name, found.namespace, one) for one in found.entries.values())


def _runs(cluster_target: ClusterTarget, name: str) -> Iterator[Event]:
    found = _read(cluster_target, name)
    yield from (RunListed(found.name, found.namespace, one) for one in found.history)


def _with_exit_code(events: Iterable[Event]) -> Iterator[Event]:
    """Pass events on; change the exit code 0 to 1 if there was a mismatch."""
    found = False
    for event in events:
        if isinstance(event, Started):
            # A check is not the dry run of a repair for its user.
            yield replace(event, dry_run=DryRun.OFF)
            continue
        found = found or isinstance(event, MismatchFound)
        if found and isinstance(event, Finished) and event.exit_code == 0:
            yield replace(event, exit_code=1)
        else:
            yield event

"""``applyprune inventory``: list, show and check inventories; and its other subcommands."""

from __future__ import annotations

from dataclasses import replace
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
from applyprune.errors import AccessError, InventoryError, UsageError, as_problem
from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    Finished,
    MismatchFound,
    Started,
    WarningRaised,
)
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.session import Session
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event


@click.group(cls=CommandGroup)
def inventory() -> None:
    """List, check and repair inventories; move or orphan objects."""


@inventory.command("list")
@cluster_options
@reporting_options
@click.option("-A", "--all-namespaces", is_flag=True, help="List the sets of all namespaces.")
@click.option(
    "--count-ready", is_flag=True, help="Count the ready objects too; this reads all of them."
)
def list_(
    cluster_target: ClusterTarget, reporting: Reporting, all_namespaces: bool, count_ready: bool
) -> int:
    """List the sets: their objects, the last run that changed something, and the current run.

    A set whose inventory cannot be read is listed with a warning.

    \b
    Examples:
      applyprune inventory list -A
      applyprune inventory list -n shop --count-ready
    """
    return reporting.print_events(
        _applysets(cluster_target, everywhere=all_namespaces, count_ready=count_ready)
    )


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


def _applysets(
    cluster_target: ClusterTarget, *, everywhere: bool, count_ready: bool
) -> Iterator[Event]:
    from applyprune.cli.session import open_session
    from applyprune.cluster.inventory.listed import list_inventories
    from applyprune.engine.operations.status import applyset_listed

    with open_session(cluster_target) as session:
        namespace = session.cluster.namespace
        found = list_inventories(session.cluster.client, "" if everywhere else namespace)
        if not found:
            place = "any namespace" if everywhere else namespace
            yield WarningRaised(as_problem(UsageError(f"no sets in {place}")))
        for listed in found:
            name, namespace = listed.name, listed.namespace
            if listed.root is not None and count_ready:
                yield from _applyset_status(session, name, namespace)
            elif listed.root is not None:
                yield applyset_listed(listed.root.inventory, objects=listed.root.count)
            else:
                error = InventoryError(
                    f"the inventory of {name} in namespace {namespace} cannot be read",
                    reason=listed.reason,
                    hint=f"See: applyprune inventory check {name} -n {namespace}",
                )
                yield ApplySetListed(name, namespace, problem=as_problem(error))


def _applyset_status(session: Session, name: str, namespace: str) -> Iterator[Event]:
    """Yield a set and its number of ready objects; an error is part of the event, not raised."""
    events = session.applyset(name, namespace).iter_status(cancellation=session.stop)
    try:
        yield from (event for event in events if isinstance(event, ApplySetListed))
    except (AccessError, InventoryError, UsageError) as error:
        yield ApplySetListed(name, namespace, problem=as_problem(error))


def _entries(cluster_target: ClusterTarget, name: str) -> Iterator[Event]:
    from applyprune.api.apply_set import ApplySet
    from applyprune.cli.session import connection_to
    from applyprune.engine.preflight import no_such_set

    with connection_to(cluster_target) as cluster:
        applyset = ApplySet(name, cluster=cluster)
        found = applyset.inventory()
    if not found.exists:
        raise no_such_set(applyset.identity)
    yield from (
        EntryListed(applyset.name, applyset.namespace, entry) for entry in found.entries.values()
    )


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

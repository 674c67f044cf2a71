"""``applyprune list``: list the sets of a namespace, or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.reporting import reporting_options
from applyprune.errors import AccessError, InventoryError, UsageError, as_problem
from applyprune.model.events import ApplySetListed, WarningRaised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.session import Session
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event


@click.command("list", cls=Command)
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
      applyprune list -A
      applyprune list -n shop --count-ready
    """
    return reporting.print_events(
        _applysets(cluster_target, everywhere=all_namespaces, count_ready=count_ready)
    )


def _applysets(
    cluster_target: ClusterTarget, *, everywhere: bool, count_ready: bool
) -> Iterator[Event]:
    from applyprune.cli.session import open_session
    from applyprune.cluster.inventory_store import list_inventories
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

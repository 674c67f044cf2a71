"""``applyprune inventory``: look at what the sets record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.options import cluster_options
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from applyprune.cli.options import Where


@click.group()
def inventory() -> None:
    """Look at the inventories."""


@inventory.command("list")
@cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
def list_(where: Where, all_namespaces: bool) -> None:
    """List the sets, a line each: namespace, name, objects, who works on it now."""
    from applyprune.cli.session import transport_to
    from applyprune.cluster.inventory_store import list_inventories
    from applyprune.output.tables import table

    with transport_to(where) as (transport, _, home):
        found = list_inventories(transport, "" if all_namespaces else home)
    if not found:
        click.echo(f"no sets in {'any namespace' if all_namespaces else home}", err=True)
        return
    rows = [
        (
            one.inventory.namespace,
            one.inventory.name,
            str(one.count),
            one.inventory.holder.who if one.inventory.holder else "-",
        )
        for one in found
    ]
    click.echo(table(("NAMESPACE", "NAME", "OBJECTS", "HELD BY"), rows))


@inventory.command()
@click.argument("name")
@cluster_options
def show(name: str, where: Where) -> None:
    """List the objects that the set NAME records, a line each."""
    from applyprune.cli.session import transport_to
    from applyprune.cluster.inventory_store import ConfigMapStore
    from applyprune.output.tables import table
    from applyprune.planning.tracking import identity

    with transport_to(where) as (transport, _, home):
        found = ConfigMapStore(transport, identity(name, home)).read()
    if not found.exists:
        raise UsageError(
            f"there is no set {name} in namespace {home}",
            hint="`applyprune inventory list -A` lists those that there are.",
        )
    rows = [
        (entry.ref.namespace or "-", entry.ref.short, str(entry.made), entry.uid or "not confirmed")
        for entry in found.entries.values()
    ]
    click.echo(table(("NAMESPACE", "OBJECT", "MADE", "UID"), rows))

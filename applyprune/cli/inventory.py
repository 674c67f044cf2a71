"""``applyprune inventory``: look at what the sets record, check it, mend it, hand it on."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from applyprune.cli.options import RunCommand, cluster_options, record_options
from applyprune.cli.reporting import reporting_options
from applyprune.errors import UsageError
from applyprune.model.events import Found
from applyprune.model.inventory import Made
from applyprune.model.options import DryRun, Mode, Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.cli.options import Where
    from applyprune.cli.reporting import Reporting
    from applyprune.cluster.api_server import ApiServer
    from applyprune.model.events import Event


@click.group()
def inventory() -> None:
    """Look at the inventories, check and repair them, hand objects on."""


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
            one.namespace,
            one.name,
            str(one.root.count) if one.root else "?",
            one.root.inventory.holder.who if one.root and one.root.inventory.holder else "-",
        )
        for one in found
    ]
    click.echo(table(("NAMESPACE", "NAME", "OBJECTS", "HELD BY"), rows))
    for one in found:
        if one.root is None:
            called = f"{one.name} -n {one.namespace}"
            click.echo(
                f"warning: the inventory of {one.name} in namespace {one.namespace} cannot be "
                f"read: {one.reason}\n  See: applyprune inventory check {called}",
                err=True,
            )


@inventory.command()
@click.argument("name")
@cluster_options
def show(name: str, where: Where) -> None:
    """List the objects that the set NAME records, a line each."""
    from applyprune.cli.session import transport_to
    from applyprune.cluster.inventory_store import ConfigMapStore
    from applyprune.engine.preconditions import no_set
    from applyprune.output.tables import table
    from applyprune.planning.tracking import identity

    with transport_to(where) as (transport, _, home):
        target = identity(name, home)
        found = ConfigMapStore(transport, target).read()
    if not found.exists:
        raise no_set(target)
    rows = [
        (entry.ref.namespace or "-", entry.ref.short, str(entry.made), entry.uid or "not confirmed")
        for entry in found.entries.values()
    ]
    click.echo(table(("NAMESPACE", "OBJECT", "MADE", "UID"), rows))


@inventory.command()
@click.argument("name")
@cluster_options
@reporting_options
def check(name: str, where: Where, reporting: Reporting) -> int:
    """Compare what the set NAME records with what is there; change nothing.

    Exit code 1 when there is a difference. What a repair would do stands after each.
    """
    found: list[Found] = []
    events = _mend(where, name, Options(dry_run=DryRun.SERVER), Made.ADOPTED)
    return reporting.follow(_kept(events, found)) or (1 if found else 0)


@inventory.command(cls=RunCommand)
@click.argument("name")
@cluster_options
@record_options
@reporting_options
@click.option(
    "--as",
    "made",
    type=click.Choice([str(one) for one in Made]),
    default=str(Made.ADOPTED),
    show_default=True,
    help="What an object counts as that bears the set's marks and is not listed.",
)
@click.option(
    "--partly", is_flag=True, help="Make a lost record anew though not every kind could be seen."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def repair(
    name: str,
    where: Where,
    reporting: Reporting,
    options: Options,
    made: str,
    partly: bool,
    yes: bool,
) -> int:
    """Make the record of the set NAME fit what is there.

    Deletes and creates no object: it lists, takes off the list, and puts a lost label back. What
    is listed as adopted is abandoned rather than deleted when it leaves the set.

    \b
    Examples:
      applyprune inventory repair web --dry-run
      applyprune inventory repair web --yes
    """
    if options.dry_run is DryRun.OFF and not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                f"repairing the record of the set {name} needs a yes",
                why="there is no terminal to ask on",
                hint="Add --yes, or look first with --dry-run.",
            )
        click.confirm(f"Make the record of the set {name} fit what is there?", abort=True, err=True)
    return reporting.follow(_mend(where, name, replace(options, partly=partly), Made(made)))


@inventory.command(cls=RunCommand)
@click.argument("name")
@click.argument("objects", nargs=-1, metavar="[KIND/NAME]...")
@cluster_options
@record_options
@reporting_options
@click.option("--all", "everything", is_flag=True, help="All objects, and the set itself.")
def abandon(
    name: str,
    objects: tuple[str, ...],
    where: Where,
    reporting: Reporting,
    options: Options,
    everything: bool,
) -> int:
    """Forget objects of the set NAME without deleting them.

    Takes the set's label and its ownership of fields off them.

    \b
    Examples:
      applyprune inventory abandon web deployment.apps/web
      applyprune inventory abandon web --all
    """
    from applyprune.cli.session import carry_out

    select = _selected(objects, everything=everything)
    decided = replace(options, mode=Mode.ABANDON, select=select)
    return reporting.follow(carry_out(where, name, tuple, decided))


@inventory.command(cls=RunCommand)
@click.argument("source", metavar="FROM")
@click.argument("to", metavar="TO")
@click.argument("objects", nargs=-1, metavar="[KIND/NAME]...")
@cluster_options
@record_options
@reporting_options
@click.option("--all", "everything", is_flag=True, help="All objects; the set FROM is removed.")
@click.option(
    "--to-namespace", default="", metavar="NS", help="Namespace of the inventory of TO, if another."
)
def move(
    source: str,
    to: str,
    objects: tuple[str, ...],
    where: Where,
    reporting: Reporting,
    options: Options,
    everything: bool,
    to_namespace: str,
) -> int:
    """Hand objects of the set FROM to the set TO without deleting them.

    A move that was cut off is gone on with by the same command.

    \b
    Examples:
      applyprune inventory move web shop service/web deployment.apps/web
      applyprune inventory move web shop --all --to-namespace shop
    """
    from applyprune.cli.session import at_work
    from applyprune.engine.moving import Side
    from applyprune.engine.moving import move as hand_on
    from applyprune.planning.tracking import identity

    decided = replace(options, select=_selected(objects, everything=everything))

    def events() -> Iterator[Event]:
        with at_work(where) as work:
            leaving = identity(source, work.namespace)
            joining = identity(to, to_namespace or work.namespace)
            sides = Side(leaving, work.store(leaving)), Side(joining, work.store(joining))
            yield from hand_on(*sides, decided, work.cluster, work.stop)

    return reporting.follow(events())


@inventory.command(cls=RunCommand)
@click.argument("name")
@cluster_options
@record_options
@reporting_options
def release(name: str, where: Where, reporting: Reporting, options: Options) -> int:
    """Take the set NAME back from the Bundle that owns it.

    The Bundle must be suspended or gone. Only the inventory is written; every object stays as it
    is, and stays listed.

    \b
    Examples:
      kubectl patch bundle web --type merge -p '{"spec": {"suspend": true}}'
      applyprune inventory release web
    """
    from applyprune.cli.session import at_work
    from applyprune.engine.releasing import release as let_go
    from applyprune.planning.tracking import identity

    def events() -> Iterator[Event]:
        with at_work(where) as work:
            target = identity(name, work.namespace)
            yield from let_go(
                target,
                options,
                work.store(target),
                work.stop,
                is_active=lambda owner: _is_active(work.cluster, owner),
            )

    return reporting.follow(events())


def _is_active(cluster: ApiServer, owner: str) -> bool:
    """Return whether a Bundle is there and not suspended."""
    from applyprune.errors import NotFound, NotServed
    from applyprune.model.builtin import BUNDLES
    from applyprune.model.refs import Ref

    namespace, _, bundle = owner.removeprefix(f"{BUNDLES.kind} ").partition("/")
    try:
        live = cluster.get(BUNDLES, Ref(BUNDLES.group, BUNDLES.kind, namespace, bundle), full=True)
    except (NotFound, NotServed):
        return False
    return not ((live.body or {}).get("spec") or {}).get("suspend")


def _mend(where: Where, name: str, options: Options, made: Made) -> Iterator[Event]:
    from applyprune.cli.session import at_work
    from applyprune.engine.repairing import repair as mend
    from applyprune.planning.tracking import identity

    with at_work(where) as work:
        target = identity(name, work.namespace)
        yield from mend(target, options, made, work.cluster, work.store(target), work.stop)


def _selected(objects: tuple[str, ...], *, everything: bool) -> frozenset[str]:
    """Return the names that were given; none of them means all, which must be said."""
    if bool(objects) == everything:
        raise UsageError("name the objects, as KIND/NAME, or say --all")
    return frozenset(objects)


def _kept(events: Iterable[Event], found: list[Found]) -> Iterator[Event]:
    """Pass events on, and keep what was found among them."""
    for event in events:
        if isinstance(event, Found):
            found.append(event)
        yield event

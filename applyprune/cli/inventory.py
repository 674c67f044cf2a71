"""``applyprune inventory``: show and check inventories, and change who lists or owns an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.options import (
    CLUSTER,
    LIST_OUTPUT,
    NAME,
    OBJECTS,
    OUTPUT,
    OWN_NAME,
    RECORD,
    YES,
    CommandGroup,
    Option,
    command,
)
from applyprune.errors import NotFound, NotServed, UsageError
from applyprune.model.events import EntryListed, Finished, MismatchFound, Started
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.inventory import OF_CLUSTER, Ownership
from applyprune.model.options import DryRun, Mode, Options
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.cluster.client import KubernetesClient
    from applyprune.model.events import Event


@click.group(cls=CommandGroup)
def inventory() -> None:
    """Show, check and repair inventories; orphan objects."""


@command(NAME, CLUSTER, LIST_OUTPUT, of=inventory)
def show(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """List the objects in the inventory of the set NAME.

    `applyprune status` shows their health.

    \b
    Examples:
      applyprune inventory show web
    """
    return reporting.print_events(_entries(cluster_target, name))


def _entries(cluster_target: ClusterTarget, name: str) -> Iterator[Event]:
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        found = session.existing_inventory(name)
    yield from (EntryListed(found.name, found.namespace, one) for one in found.entries.values())


@command(NAME, CLUSTER, OUTPUT, of=inventory)
def check(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Compare the inventory of the set NAME with the cluster; change nothing.

    Exits with 1 if they differ. Each difference says what a repair would do.

    \b
    Examples:
      applyprune inventory check web
    """
    options = Options(Mode.REPAIR, DryRun.SERVER)
    events = repair_events(cluster_target, name, options, Ownership.ADOPTED)
    return reporting.print_events(_with_exit_code(events))


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


@command(
    NAME,
    OBJECTS,
    CLUSTER,
    RECORD,
    OUTPUT,
    Option(
        "--record-as",
        "ownership",
        one_of=Ownership,
        default=Ownership.ADOPTED,
        help="How to record an unlisted object that has the set's label and field manager, and a "
        "listed one without the annotation of ownership; `owned` writes the annotation. With "
        "KIND/NAME, `owned` is about these adopted objects only.",
    ),
    Option(
        "--allow-partial",
        is_flag=True,
        help="Rebuild a lost inventory although not every kind could be listed.",
    ),
    YES,
    of=inventory,
)
def repair(
    name: str,
    objects: tuple[str, ...],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    ownership: Ownership,
    allow_partial: bool,
    yes: bool,
) -> int:
    """Reconcile the inventory of the set NAME with the cluster.

    Neither creates nor deletes objects: it adds and removes inventory entries, and restores a
    lost label. An object that is recorded as adopted is orphaned, not deleted, when it leaves the
    set.

    With `--record-as owned` and KIND/NAME, only these objects become owned: a later prune or delete
    deletes them. One that another set or another tool may manage is refused.

    \b
    Examples:
      applyprune inventory repair web --dry-run
      applyprune inventory repair web --yes
      applyprune inventory repair web --record-as owned configmap/settings
    """
    from applyprune.cli.confirmation import Confirmation

    if objects:
        if ownership is not Ownership.OWNED or allow_partial:
            raise UsageError(
                "a repair is about the whole inventory",
                hint="Leave out KIND/NAME. To make adopted objects owned: --record-as owned "
                "KIND/NAME, without --allow-partial.",
            )
        options = replace(options, mode=Mode.REPAIR, select=frozenset(objects))
        return reporting.print_events(
            _owned_events(cluster_target, name, reporting, options, yes=yes)
        )
    if options.dry_run is DryRun.OFF:
        Confirmation(reporting, yes).confirm(
            f"repairing the inventory of the set {name}",
            f"Reconcile the inventory of the set {name} with the cluster?",
        )
    options = replace(options, mode=Mode.REPAIR, allow_partial=allow_partial)
    return reporting.print_events(repair_events(cluster_target, name, options, ownership))


def repair_events(
    cluster_target: ClusterTarget, name: str, options: Options, ownership: Ownership
) -> Iterator[Event]:
    """Check or repair the inventory of a set, and yield the events."""
    from applyprune.cli.session import open_session
    from applyprune.engine.context import RunRequest
    from applyprune.engine.inventory import repair as repair_inventory

    with open_session(cluster_target) as session:
        applyset = session.applyset(name)
        repaired = repair_inventory(
            RunRequest(applyset.identity, options=options),
            session.cluster.client,
            applyset.store(),
            session.stop,
            ownership,
        )
        yield from session.reported(repaired)


def _owned_events(
    cluster_target: ClusterTarget,
    name: str,
    reporting: Reporting,
    options: Options,
    *,
    yes: bool,
) -> Iterator[Event]:
    """Ask, make objects of a set owned, and yield the events."""
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import open_session
    from applyprune.engine.context import RunRequest
    from applyprune.engine.inventory import own

    action = f"making objects of the set {name} owned"
    confirmation = Confirmation(reporting, yes)
    if options.dry_run is DryRun.OFF:
        confirmation.require(action)
    with open_session(cluster_target) as session:
        applyset = session.applyset(name)

        def agree(objects: Mapping[Ref, str]) -> None:
            if not yes:
                names = {ref: kubectl_name(ref, applyset.namespace) for ref in objects}
                shown = [
                    f"{names[ref]} (it stays: {kept})" if kept else names[ref]
                    for ref, kept in objects.items()
                ]
                reporting.terminal.err("\n".join(shown))
                deleted = [ref for ref, kept in objects.items() if not kept]
                warning = (
                    f"A later prune or delete of the set deletes {_them(deleted)}. "
                    if deleted
                    else ""
                )
                confirmation.ask(action, f"{warning}Make {_them(list(objects))} owned?")

        request = RunRequest(applyset.identity, options=options)
        cluster, store = session.cluster.client, applyset.store()
        yield from own(request, cluster, store, session.stop, agree)


def _them(refs: Sequence[Ref]) -> str:
    return "this object" if len(refs) == 1 else f"these {len(refs)} objects"


@command(
    OWN_NAME,
    OBJECTS,
    CLUSTER,
    RECORD,
    OUTPUT,
    YES,
    Option("--all", "everything", is_flag=True, help="All objects, and the set itself."),
    of=inventory,
)
def orphan(
    name: str,
    objects: tuple[str, ...],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
    everything: bool,
) -> int:
    """Remove objects from the set NAME without deleting them.

    Removes the set's label and field manager from them: no prune deletes them any more. On a
    terminal, it shows them and asks.

    \b
    Examples:
      applyprune inventory orphan web deployment.apps/web
      applyprune inventory orphan web --all --yes
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import no_input, run_set

    select = _selected(objects, everything=everything)
    options = replace(options, mode=Mode.ORPHAN, select=select)
    confirmation = Confirmation(reporting, yes)
    return reporting.print_events(
        run_set(cluster_target, name, no_input, options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )


def _selected(objects: tuple[str, ...], *, everything: bool) -> frozenset[str]:
    """Return the named objects; empty for ``--all``. Raise UsageError for both or neither."""
    if bool(objects) == everything:
        raise UsageError("name the objects as KIND/NAME, or give --all")
    return frozenset(objects)


@command(OWN_NAME, CLUSTER, RECORD, OUTPUT, of=inventory)
def release(
    name: str, cluster_target: ClusterTarget, reporting: Reporting, options: Options
) -> int:
    """Take the set NAME back from the Bundle that owns it.

    The Bundle must be suspended or gone. Only the inventory is written; every object stays as it
    is, and stays listed.

    \b
    Examples:
      kubectl patch bundle web --type merge -p '{"spec": {"suspend": true}}'
      applyprune inventory release web
    """
    from applyprune.cli.session import open_session
    from applyprune.engine.context import RunRequest
    from applyprune.engine.inventory import release as release_set

    def events() -> Iterator[Event]:
        with open_session(cluster_target) as session:
            applyset = session.applyset(name)
            released = release_set(
                RunRequest(applyset.identity, options=replace(options, mode=Mode.REPAIR)),
                session.cluster.client,
                applyset.store(),
                session.stop,
                is_active=lambda owner: _is_active(session.cluster.client, owner),
            )
            yield from session.reported(released)

    return reporting.print_events(events())


def _is_active(cluster: KubernetesClient, owner: str) -> bool:
    """Return whether a Bundle exists and is not suspended; raises NotServed if nobody can know.

    A Bundle of another cluster cannot be asked for, and does not take a set over again.
    """
    spec = bundle_spec(cluster, owner)
    return spec is not None and not spec.get("suspend")


def bundle_spec(cluster: KubernetesClient, owner: str) -> Mapping[str, Any] | None:
    """Return the spec of the Bundle that owns a set; None if it does not exist in this cluster.

    Raises NotServed if nobody can know.
    """
    from applyprune.model.live import BUNDLES, DEFINITIONS, LiveObject, mapping

    if OF_CLUSTER in owner:
        return None
    namespace, _, bundle = owner.removeprefix(f"{BUNDLES.kind} ").partition("/")
    try:
        live = cluster.get(BUNDLES, Ref(BUNDLES.group, BUNDLES.kind, namespace, bundle), full=True)
    except NotFound:
        return None
    except NotServed:
        # The kind is gone only with its CRD; a server that has just started serves none either.
        crd = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", BUNDLES.full_plural)
        if isinstance(cluster.read(DEFINITIONS, crd), LiveObject):
            raise
        return None
    return mapping(mapping(live.body).get("spec"))

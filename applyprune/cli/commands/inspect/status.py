"""``applyprune status``: show the health and drift of each object in a set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.config_defaults import names_argument, no_set_given
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import fail_fast_option, is_given, timeout_option
from applyprune.errors import (
    AccessError,
    InventoryError,
    NotReady,
    RunFailed,
    UsageError,
    as_problem,
)
from applyprune.model.events import ApplySetListed, Finished, WarningRaised
from applyprune.model.text.display import and_more
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.api.sets import ApplySet
    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.engine.cancellation import Cancellation
    from applyprune.model.events import Event
    from applyprune.model.options import StatusOptions

_DRIFTED = 1
_SHOWN = 5


@click.command(cls=Command)
@names_argument
@cluster_options
@reporting_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the sets of all namespaces.")
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
@click.option(
    "--wait-for",
    type=click.Choice(["ready", "deleted"]),
    help="What to wait for: `ready` is the same as --wait; `deleted` waits until the set and all "
    "of its objects are gone.",
)
@timeout_option("How long to wait, for all sets together.")
def status(
    names: tuple[str, ...],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    drift: bool,
    values: bool,
    fail_on_drift: bool,
    watch: bool,
    wait: bool,
    wait_for: str | None,
    fail_fast: bool,
    tree: bool,
    logs: bool,
    timeout: float,
    all_namespaces: bool,
) -> int:
    """Show the health and drift of each object in the set NAME, or in several sets.

    Of an object that is not ready, it names the Pod, the condition and the last warning events.

    Exits with 5 if an object is not ready or missing, and with 3 if one could not be read. An
    object has drifted if somebody else has changed a field that the set owns. The server's own
    record (managedFields) shows this. With --wait-for deleted, it shows nothing, and exits with 5
    if something is left at the timeout.

    \b
    Examples:
      applyprune status web
      applyprune status web --tree --logs
      applyprune status web --drift
      applyprune status web --drift --values
      applyprune status web shop
      applyprune status -A
      applyprune status web --wait --timeout 2m
      applyprune status web --wait-for deleted
      applyprune status web --fail-on-drift -q        # for a nightly job
    """
    from applyprune.model.options import StatusOptions

    if all_namespaces and is_given("names"):
        raise UsageError("-A shows all sets: give either -A or NAME")
    names = () if all_namespaces else names
    if not (names or all_namespaces):
        raise no_set_given()
    if watch and (all_namespaces or len(names) > 1):
        raise UsageError("--watch follows a single set", hint="Give one NAME.")
    if wait_for == "deleted" and (wait or watch):
        raise UsageError("--wait-for deleted excludes --wait and --watch")
    status_options = StatusOptions(
        drift=drift,
        values=values,
        fail_on_drift=fail_on_drift,
        watch=watch,
        wait=wait or wait_for == "ready",
        deleted=wait_for == "deleted",
        fail_fast=fail_fast,
        tree=tree,
        logs=logs,
        timeout=timeout,
    )
    return reporting.print_events(_events(cluster_target, names, status_options))


def _events(
    cluster_target: ClusterTarget, names: tuple[str, ...], status_options: StatusOptions
) -> Iterator[Event]:
    """Yield the events of each set; ``names`` is empty for all sets of all namespaces."""
    from applyprune.cli.session import open_session
    from applyprune.cluster.inventory_store import list_sets

    with open_session(cluster_target) as session:
        if len(names) == 1:
            events = session.applyset(names[0]).iter_status(
                status_options, cancellation=session.stop
            )
            yield from events
            return
        sets = [session.applyset(name) for name in dict.fromkeys(names)]
        if not names:
            listed = list_sets(session.cluster.client)
            sets = [session.applyset(one.name, one.namespace) for one in listed]
        if not sets:
            yield WarningRaised(as_problem(UsageError("no sets in any namespace")))
        yield from _each(sets, status_options, session.stop)


def _each(
    sets: Sequence[ApplySet], status_options: StatusOptions, stop: Cancellation
) -> Iterator[Event]:
    """Yield the events of several sets, one after the other, and one end for all of them.

    A set that cannot be read does not end the others: its event says why.
    """
    began = time.monotonic()
    failed: dict[str, int] = {}
    for applyset in sets:
        left = max(0.0, status_options.timeout - (time.monotonic() - began))
        options = replace(status_options, timeout=left)
        try:
            for event in applyset.iter_status(options, cancellation=stop):
                if not isinstance(event, Finished):
                    yield event
                elif event.exit_code:
                    failed[applyset.identity.arguments] = event.exit_code
        except (AccessError, InventoryError, UsageError) as error:
            yield ApplySetListed(applyset.name, applyset.namespace, problem=as_problem(error))
            failed[applyset.identity.arguments] = error.exit_code
        if stop.requested:
            break
    yield _ended(failed, len(sets), stop, time.monotonic() - began)


def _ended(failed: Mapping[str, int], count: int, stop: Cancellation, elapsed: float) -> Finished:
    codes = set(failed.values())
    if stop.requested:
        return Finished({}, stop.exit_code, elapsed)
    if codes <= {_DRIFTED}:
        return Finished({}, max(codes, default=0), elapsed)
    message = f"{len(failed)} of the {count} sets failed: {and_more(list(failed), _SHOWN)}"
    is_late = codes <= {_DRIFTED, NotReady.exit_code}
    error = NotReady(message) if is_late else RunFailed(message)
    return Finished({}, error.exit_code, elapsed, as_problem(error))

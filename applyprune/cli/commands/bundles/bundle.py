"""``applyprune bundle``: list Bundles, look at one, and tell the controller what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command, CommandGroup
from applyprune.cli.commands.bundles.approve import approve
from applyprune.cli.commands.bundles.bundle_logs import logs
from applyprune.cli.commands.bundles.bundle_name import bundle_argument
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import fail_fast_option, timeout_option
from applyprune.errors import UsageError, as_problem
from applyprune.model.events import Event, ObjectDone, Outcome, WarningRaised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget


@click.group(cls=CommandGroup)
def bundle() -> None:
    """List, inspect, suspend, reconcile and approve Bundles.

    The controller does the work: these commands read a Bundle, or change one field or annotation.
    """


@bundle.command("list", cls=Command)
@cluster_options
@reporting_options
@click.option("-A", "--all-namespaces", is_flag=True, help="List the Bundles of all namespaces.")
def list_(cluster_target: ClusterTarget, reporting: Reporting, all_namespaces: bool) -> int:
    """List the Bundles: whether they are ready, why, their revision, drift and objects.

    `kubectl get bundles` shows the same columns.

    \b
    Examples:
      applyprune bundle list -n shop
      applyprune bundle list -A
      applyprune bundle list -A -o name
    """
    return reporting.print_events(_bundles(cluster_target, everywhere=all_namespaces))


@bundle.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
def show(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Show everything that the controller has reported about the Bundle NAME.

    Its conditions, the objects that fail, the plan that waits for an approval and its digest, the
    last change, source, account and inventory.

    \b
    Examples:
      applyprune bundle show web -n shop
      applyprune bundle show web -o json
    """
    return reporting.with_text("bundle").print_events(_state(cluster_target, name))


@bundle.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
def tree(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Show the objects of the Bundle NAME by wave, with what each owns, down to Pods.

    The objects of a Bundle that is one of them are below it. It is `applyprune status --tree` of
    the Bundle's set, with its exit codes: 5 if an object is not ready or missing.

    \b
    Examples:
      applyprune bundle tree web -n shop
    """
    return reporting.print_events(_tree(cluster_target, name))


@bundle.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
def suspend(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Suspend the Bundle NAME: the controller does nothing about it, not even cleanup.

    Sets spec.suspend. What runs in the cluster stays as it is. If the Bundle is applied from a
    file that sets spec.suspend, the next apply changes it back.

    \b
    Examples:
      applyprune bundle suspend web -n shop
    """
    return reporting.print_events(_suspended(cluster_target, name, suspended=True))


@bundle.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
def resume(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Resume the suspended Bundle NAME: the controller reconciles it at once.

    \b
    Examples:
      applyprune bundle resume web -n shop
    """
    return reporting.print_events(_suspended(cluster_target, name, suspended=False))


@bundle.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
@click.option(
    "--wait/--no-wait",
    default=False,
    help="Whether to wait until the controller is done and the Bundle is ready.  [default: "
    "no-wait]",
)
@fail_fast_option
@timeout_option("How long --wait waits.")
def reconcile(
    name: str,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    wait: bool,
    fail_fast: bool,
    timeout: float,
) -> int:
    """Let the controller reconcile the Bundle NAME now.

    Sets the annotation applyprune.dev/reconcile-now. With --wait it exits with 5 if the Bundle is
    not ready in time, with 6 if a plan waits for an approval, with 4 if objects are in conflict,
    and with 3 if objects failed. The controller retries what may pass, and the wait goes on.

    \b
    Examples:
      applyprune bundle reconcile web -n shop
      applyprune bundle reconcile web --wait --timeout 2m
    """
    return reporting.print_events(
        _reconciled(cluster_target, name, wait=wait, fail_fast=fail_fast, timeout=timeout)
    )


bundle.add_command(approve)
bundle.add_command(logs)


def _bundles(cluster_target: ClusterTarget, *, everywhere: bool) -> Iterator[Event]:
    from applyprune.api.bundles import list_bundles
    from applyprune.cli.session import connection_to

    with connection_to(cluster_target) as cluster:
        found = list_bundles(cluster, all_namespaces=everywhere)
        if not found:
            place = "any namespace" if everywhere else cluster.namespace
            yield WarningRaised(as_problem(UsageError(f"no Bundles in {place}")))
        yield from found


def _state(cluster_target: ClusterTarget, name: str) -> Iterator[Event]:
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import connection_to

    with connection_to(cluster_target) as cluster:
        yield Bundle(name, cluster=cluster).status()


def _tree(cluster_target: ClusterTarget, name: str) -> Iterator[Event]:
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        yield from Bundle(name, cluster=session.cluster).iter_tree(cancellation=session.stop)


def _suspended(cluster_target: ClusterTarget, name: str, *, suspended: bool) -> Iterator[Event]:
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import connection_to

    with connection_to(cluster_target) as cluster:
        one = Bundle(name, cluster=cluster)
        changed = one.suspend() if suspended else one.resume()
        outcome = Outcome.CONFIGURED if changed else Outcome.UNCHANGED
        yield ObjectDone(one.ref, outcome, reason="suspended" if suspended else "not suspended")


def _reconciled(
    cluster_target: ClusterTarget, name: str, *, wait: bool, fail_fast: bool, timeout: float
) -> Iterator[Event]:
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        yield from Bundle(name, cluster=session.cluster).iter_reconcile(
            wait=wait, fail_fast=fail_fast, timeout=timeout, cancellation=session.stop
        )

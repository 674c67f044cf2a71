"""``applyprune bundle``: approve the plan of a Bundle, and tell the controller what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.options import (
    BUNDLE,
    CLUSTER,
    FAIL_FAST,
    OUTPUT,
    TIMEOUT,
    YES,
    CommandGroup,
    Option,
    command,
    digest_value,
    not_empty,
)
from applyprune.errors import UsageError
from applyprune.model.events import Event, ObjectDone
from applyprune.model.fate import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from applyprune.api.bundles import Bundle
    from applyprune.cli.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.engine.ports import Cancellation
    from applyprune.model.reports import BundleStatus


@click.group(cls=CommandGroup)
def bundle() -> None:
    """Suspend, reconcile and approve Bundles.

    The controller does the work: each of these commands changes one field or annotation. To look
    at Bundles: `kubectl get bundles`, `kubectl describe bundle NAME`.
    """


def _asked(
    cluster_target: ClusterTarget, name: str, ask: Callable[[Bundle], Iterable[Event]]
) -> Iterator[Event]:
    """Connect, and yield what a short change of a Bundle gives."""
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import connection_to

    with connection_to(cluster_target) as cluster:
        yield from ask(Bundle(name, cluster=cluster))


def _followed(
    cluster_target: ClusterTarget,
    name: str,
    follow: Callable[[Bundle, Cancellation], Iterator[Event]],
) -> Iterator[Event]:
    """Connect, and yield what may take long, until a signal."""
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        yield from follow(Bundle(name, cluster=session.cluster), session.stop)


def _given_digest(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the digest, empty if none is given; an empty one is a variable that is not set."""
    return digest_value(ctx, param, not_empty(ctx, param, value))


@command(
    BUNDLE,
    click.Argument(("digest",), required=False, default="", callback=_given_digest),
    CLUSTER,
    OUTPUT,
    YES,
    of=bundle,
)
def approve(
    name: str, cluster_target: ClusterTarget, reporting: Reporting, digest: str, yes: bool
) -> int:
    """Approve the plan of the Bundle NAME that waits for an approval.

    Shows the plan and its digest, and asks. Only this plan is approved: if the controller makes
    another one meanwhile, that waits again. With DIGEST, the plan that has it is approved, and no
    other one, without a question. Without a terminal, give that, or --yes for whatever waits now.
    It needs the verb `approve` on the Bundle.

    \b
    Examples:
      applyprune bundle approve web -n shop
      applyprune bundle approve web "$DIGEST"
    """

    def approved(one: Bundle) -> Iterator[Event]:
        approves = digest or _agreed(one.status(), reporting, yes=yes)
        one.approve(approves)
        yield ObjectDone(one.ref, Outcome.UPDATED, reason=f"approved {approves}")

    return reporting.print_events(_asked(cluster_target, name, approved))


def _agreed(status: BundleStatus, reporting: Reporting, *, yes: bool) -> str:
    """Show the plan that waits; return its digest if the user agrees to it. Raises Declined."""
    from applyprune.cli.confirmation import Confirmation
    from applyprune.output.inspection import plan_lines

    plan = status.pending
    if plan is None:
        return ""  # the approval says that nothing waits
    confirmation = Confirmation(reporting, yes)
    if not (yes or confirmation.can_ask):
        raise UsageError(
            f"approving the plan of the Bundle {status.name} needs confirmation",
            reason="there is no terminal to ask on",
            hint=f"Add the digest of the plan: {plan.digest}",
        )
    if not (yes and reporting.quiet):
        reporting.terminal.err("\n".join(plan_lines(status, plan)))
    if not yes:
        confirmation.ask("the approval", "Approve this plan?")
    return plan.digest


@command(BUNDLE, CLUSTER, OUTPUT, of=bundle)
def suspend(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Suspend the Bundle NAME: the controller does nothing about it, not even cleanup.

    Sets spec.suspend. What runs in the cluster stays as it is. If the Bundle is applied from a
    file that sets spec.suspend, the next apply changes it back.

    \b
    Examples:
      applyprune bundle suspend web -n shop
    """
    return reporting.print_events(_asked(cluster_target, name, _suspended))


@command(BUNDLE, CLUSTER, OUTPUT, of=bundle)
def resume(name: str, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Resume the suspended Bundle NAME: the controller checks its source, and applies it at once.

    \b
    Examples:
      applyprune bundle resume web -n shop
    """
    return reporting.print_events(_asked(cluster_target, name, _resumed))


def _suspended(one: Bundle) -> Iterator[Event]:
    outcome = Outcome.UPDATED if one.suspend() else Outcome.UNCHANGED
    yield ObjectDone(one.ref, outcome, reason="suspended")


def _resumed(one: Bundle) -> Iterator[Event]:
    outcome = Outcome.UPDATED if one.resume() else Outcome.UNCHANGED
    yield ObjectDone(one.ref, outcome, reason="not suspended")


@command(
    BUNDLE,
    CLUSTER,
    OUTPUT,
    Option(
        "--wait/--no-wait",
        heading="Waiting",
        default=False,
        show_default=True,
        help="Whether to wait until the controller is done and the Bundle is ready.",
    ),
    FAIL_FAST,
    TIMEOUT.but(help="How long --wait waits."),
    of=bundle,
)
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

    def reconciled(one: Bundle, stop: Cancellation) -> Iterator[Event]:
        return one.iter_reconcile(
            wait=wait, fail_fast=fail_fast, timeout=timeout, cancellation=stop
        )

    return reporting.print_events(_followed(cluster_target, name, reconciled))

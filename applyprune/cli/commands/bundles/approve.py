"""``applyprune bundle approve``: approve exactly the plan that was shown, or that was reviewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.commands.bundles.bundle_name import bundle_argument
from applyprune.cli.options.approval import digest_value
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import yes_option
from applyprune.errors import UsageError
from applyprune.model.events import Event, ObjectDone, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.reports.bundle import BundleStatus


@click.command(cls=Command)
@bundle_argument
@cluster_options
@reporting_options
@click.option(
    "--digest",
    default="",
    metavar="DIGEST",
    callback=digest_value,
    help="Approve the plan with this digest, and no other one; ask nothing.",
)
@yes_option
def approve(
    name: str, cluster_target: ClusterTarget, reporting: Reporting, digest: str, yes: bool
) -> int:
    """Approve the plan of the Bundle NAME that waits for an approval.

    Shows the plan and its digest, and asks. Only this plan is approved: if the controller makes
    another one meanwhile, that waits again. Without a terminal, give --digest with the digest that
    was reviewed, or --yes for whatever waits now. It needs the verb `approve` on the Bundle.

    \b
    Examples:
      applyprune bundle approve web -n shop
      applyprune bundle approve web --digest "$DIGEST"
    """
    return reporting.print_events(
        _approved(cluster_target, reporting, name, digest=digest, yes=yes)
    )


def _approved(
    cluster_target: ClusterTarget, reporting: Reporting, name: str, *, digest: str, yes: bool
) -> Iterator[Event]:
    from applyprune.api.bundles import Bundle
    from applyprune.cli.session import connection_to

    with connection_to(cluster_target) as cluster:
        one = Bundle(name, cluster=cluster)
        if not digest:
            digest = _agreed(one.status(), reporting, yes=yes)
        one.approve(digest)
        yield ObjectDone(one.ref, Outcome.CONFIGURED, reason=f"approved {digest}")


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
            hint=f"Add --digest {plan.digest}",
        )
    if not (yes and reporting.quiet):
        reporting.terminal.err("\n".join(plan_lines(status, plan)))
    if not yes:
        confirmation.ask("the approval", "Approve this plan?")
    return plan.digest

"""``applyprune plan``: show what an apply would do to each object, and the digest of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.commands.inspect.diff import with_exit_code
from applyprune.cli.options.completion import FILE
from applyprune.cli.options.plan_check import check_option
from applyprune.cli.options.planning import planning_options
from applyprune.cli.options.reporting import reporting_options, show_unchanged_option
from applyprune.cli.options.run_options import duration, is_given
from applyprune.errors import UsageError
from applyprune.model.options import Mode
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=Command)
@planning_options
@check_option
@show_unchanged_option
@reporting_options
@click.option(
    "--expires-in",
    default="168h",
    metavar="TIME",
    callback=duration,
    help="How long the plan file is valid, at most 8760h, a year.  [default: 168h, a week]",
)
@click.option(
    "--out",
    type=FILE,
    metavar="FILE",
    help="Write the plan to this file, for `apply --plan`. It has no manifests, and no value of a "
    "Secret.",
)
@click.option(
    "--exit-code", "exits_with_1", is_flag=True, help="Exit with 1 if anything would change."
)
def plan(
    name: str,
    paths: Sequence[str | Overlay],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    exits_with_1: bool,
    out: str | None,
    expires_in: float,
) -> int:
    """Show what `apply` with the same options would do to each object; change nothing.

    Prints the fate of each object with its reason and what it causes, then the digest of the
    deletions, if there are any, and that of the whole plan. Exits with 0 whether there are changes
    or not, and with another code if the apply would be refused or would fail. With --out,
    `apply --plan` can later do exactly this, or nothing.

    \b
    Examples:
      applyprune plan web -f manifests/
      applyprune plan web -f manifests/ --no-check
      applyprune plan web -f manifests/ --out web.plan
    """
    from applyprune.cli.plan_output import PlanOutput
    from applyprune.cli.session import input_reader, run_set
    from applyprune.planning.approval.plan_binding import refuse_validity

    if out is None and is_given("expires_in"):
        raise UsageError("--expires-in needs --out", hint="It is about the plan file.")
    refuse_validity(expires_in)
    options = replace(options, mode=Mode.APPLY)
    output = PlanOutput(reporting, name, out, expires_in) if out is not None else None
    events = run_set(cluster_target, name, input_reader(paths), options, output)
    if exits_with_1:
        events = with_exit_code(events, drift_only=False)
    return reporting.with_text("plan").print_events(events)

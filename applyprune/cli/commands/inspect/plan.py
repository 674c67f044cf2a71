"""``applyprune plan``: show what an apply would do to each object, and the digest of the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.commands.inspect.diff import with_exit_code
from applyprune.cli.options.plan_check import check_option
from applyprune.cli.options.planning import planning_options
from applyprune.cli.options.reporting import reporting_options, show_unchanged_option
from applyprune.model.options import Mode

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
    "--exit-code", "exits_with_1", is_flag=True, help="Exit with 1 if anything would change."
)
def plan(
    name: str,
    paths: Sequence[str | Overlay],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    exits_with_1: bool,
) -> int:
    """Show what `apply` with the same options would do to each object; change nothing.

    Prints the fate of each object with its reason and what it causes, then the digest of the
    deletions, if there are any, and that of the whole plan. Exits with 0 whether there are changes
    or not, and with another code if the apply would be refused or would fail.

    \b
    Examples:
      applyprune plan web -f manifests/
      applyprune plan web -f manifests/ --no-check
    """
    from applyprune.cli.session import input_reader, run_set

    options = replace(options, mode=Mode.APPLY)
    events = run_set(cluster_target, name, input_reader(paths), options)
    if exits_with_1:
        events = with_exit_code(events, drift_only=False)
    return reporting.with_text("plan").print_events(events)

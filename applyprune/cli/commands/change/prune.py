"""``applyprune prune``: prune what has left the set, and apply nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.guard_options import guard_options
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import (
    RunCommand,
    cluster_options,
    input_option,
    placement_option,
    run_options,
    yes_option,
)
from applyprune.model.options import Mode
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=RunCommand)
@name_argument
@input_option
@cluster_options
@run_options
@guard_options
@placement_option
@reporting_options
@yes_option
def prune(
    name: str,
    paths: Sequence[str | Overlay],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
) -> int:
    """Delete what the set NAME created and the manifests no longer contain; apply nothing.

    \b
    Examples:
      applyprune prune web -f manifests/ --dry-run
      applyprune prune web -f manifests/
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import input_reader, run_set

    options = replace(options, mode=Mode.PRUNE)
    confirmation = Confirmation(reporting, yes, paths)
    return reporting.print_events(
        run_set(cluster_target, name, input_reader(paths), options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )

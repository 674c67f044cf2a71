"""``applyprune delete``: delete the whole set, and its inventory last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.part_options import deletion_option
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import (
    RunCommand,
    cluster_options,
    run_options,
    yes_option,
)
from applyprune.model.options import DryRun, Mode
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options


@click.command(cls=RunCommand)
@name_argument
@cluster_options
@run_options
@deletion_option
@reporting_options
@yes_option
def delete(
    name: str, cluster_target: ClusterTarget, reporting: Reporting, options: Options, yes: bool
) -> int:
    """Delete everything that the set NAME created, then its inventory.

    Adopted objects, and objects with a keep annotation, are orphaned: they stay in the cluster,
    without the set's label. With -l or --only, only a part of the set is deleted: the rest and the
    inventory stay.

    \b
    Examples:
      applyprune delete web --dry-run
      applyprune delete web --yes
      applyprune delete web --only deployment/web
      applyprune delete web -l app=web
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import no_input, run_set

    confirmation = Confirmation(reporting, yes)
    if options.dry_run is DryRun.OFF:
        part = "a part of " if options.is_part else ""
        confirmation.require(f"deleting {part}the set {name}")
    options = replace(options, mode=Mode.DELETE)
    return reporting.print_events(
        run_set(cluster_target, name, no_input, options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )

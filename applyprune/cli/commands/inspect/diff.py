"""``applyprune diff``: show what an apply would change, object by object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.plan_check import check_option
from applyprune.cli.options.planning import planning_options
from applyprune.cli.options.reporting import reporting_options, show_unchanged_option
from applyprune.model.events import Finished, ObjectDiff
from applyprune.model.options import Mode
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=Command)
@planning_options
@check_option
@show_unchanged_option
@reporting_options
@click.option(
    "--external-diff",
    envvar="KUBECTL_EXTERNAL_DIFF",
    default="",
    metavar="COMMAND",
    help="A program that compares two folders.  [env: KUBECTL_EXTERNAL_DIFF]",
)
@click.option(
    "--fail-on-drift",
    is_flag=True,
    help="Exit with 1 only if others have changed the set since the last apply of the "
    "same manifests. Fields that others have taken count as drift then, not as "
    "conflicts.",
)
@click.option(
    "--values",
    is_flag=True,
    help="Compare every value with the cluster: believe neither the inventory nor the server's "
    "record of the writes.",
)
def diff(
    name: str,
    paths: tuple[str | Overlay, ...],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    external_diff: str,
    fail_on_drift: bool,
    values: bool,
) -> int:
    """Show what `apply` with the same options would change, prunes included; change nothing.

    The server computes it in a dry run. Values of Secrets are masked. Exits with 0 if nothing
    would change, with 1 if something would, and with a higher code for an error.

    \b
    Examples:
      applyprune diff web -f manifests/
      applyprune diff web -f manifests/ --ignore deployment:/spec/replicas
      applyprune diff web -f manifests/ --values
      applyprune diff web -f manifests/ --external-diff 'diff -ru'
    """
    from applyprune.cli.session import input_reader, run_set

    options = replace(
        options,
        mode=Mode.APPLY,
        # Nothing is written, so show the fields that others have taken.
        apply=replace(
            options.apply,
            force_conflicts=options.apply.force_conflicts or fail_on_drift,
            reapply_all=options.apply.reapply_all or values,  # guard: diff-values
        ),
        diff=replace(options.diff, enabled=True),
    )
    events = with_exit_code(
        run_set(cluster_target, name, input_reader(paths), options), drift_only=fail_on_drift
    )
    text = "diff"
    if external_diff.strip():
        from applyprune.cli.external_diff import with_external_diff

        text = "summary"
        events = with_external_diff(events, external_diff)
    return reporting.with_text(text).print_events(events)


def with_exit_code(events: Iterable[Event], *, drift_only: bool) -> Iterator[Event]:
    """Pass events on; change the exit code 0 to 1 if the run would change anything.

    With ``drift_only`` change it only for drift: a change to the manifest that was applied last.
    """
    drifted = False
    for event in events:
        if isinstance(event, ObjectDiff):
            drifted = drifted or event.drifted is not False  # guard: unknown-drift
        if isinstance(event, Finished) and event.exit_code == 0:
            changed = any(count and outcome.is_change for outcome, count in event.counts.items())
            yield replace(event, exit_code=int(drifted if drift_only else changed))
        else:
            yield event

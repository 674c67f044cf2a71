"""``applyprune diff``: what an apply would change, object by object."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from applyprune.cli.apply_options import apply_options
from applyprune.cli.configuration import name_argument
from applyprune.cli.helping import Command
from applyprune.cli.options import (
    cluster_options,
    guard_options,
    input_option,
    placement_option,
    removal_options,
    selection_option,
)
from applyprune.cli.reporting import reporting_options
from applyprune.model.events import Finished, ObjectDiff, Outcome
from applyprune.model.options import DryRun, Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.where import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.sources import Overlay

_CHANGES = frozenset(
    {
        Outcome.CREATED,
        Outcome.CONFIGURED,
        Outcome.RECREATED,
        Outcome.PRUNED,
        Outcome.ORPHANED,
    }
)


@click.command(cls=Command)
@name_argument
@input_option
@cluster_options
@removal_options
@guard_options
@placement_option
@selection_option
@apply_options
@reporting_options
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE",
    help="Leave fields out of the comparison: KIND[/NAME]:/json/pointer, * and ? in NAME.",
)
@click.option(
    "--external-diff",
    envvar="KUBECTL_EXTERNAL_DIFF",
    default="",
    metavar="COMMAND",
    help="A program that shows the differences of two folders.  [env: KUBECTL_EXTERNAL_DIFF]",
)
@click.option(
    "--fail-on-drift",
    is_flag=True,
    help="End with 1 only for what others have changed since the last apply of the same manifest; "
    "their fields count as that, not as conflicts.",
)
def diff(
    name: str,
    paths: tuple[str | Overlay, ...],
    where: ClusterTarget,
    reporting: Reporting,
    options: Options,
    ignore: tuple[str, ...],
    external_diff: str,
    fail_on_drift: bool,
) -> int:
    """Show what `apply` with the same options would change, prunes included; change nothing.

    The server tells it, in a dry run. Values of Secrets are masked. Ends with 0 when nothing would
    change, with 1 when something would, with more for an error.

    \b
    Examples:
      applyprune diff web -f manifests/
      applyprune diff web -f manifests/ --ignore deployment:/spec/replicas
      applyprune diff web -f manifests/ --external-diff 'diff -ru'
    """
    from applyprune.cli.session import input_reader, run_set

    decided = replace(
        options,
        mode=Mode.APPLY,
        dry_run=DryRun.SERVER,
        compare=True,
        ignore=ignore,
        # Nothing is written: what others have taken of ours is to be seen.
        force_conflicts=options.force_conflicts or fail_on_drift,
    )
    events = judged(run_set(where, name, input_reader(paths), decided), drift_only=fail_on_drift)
    text = "diff"
    if external_diff.strip():
        from applyprune.cli.external_diff import through

        text = "summary"
        events = through(events, external_diff)
    formats = tuple((text if form == "text" else form, path) for form, path in reporting.formats)
    return replace(reporting, formats=formats).follow(events)


def judged(events: Iterable[Event], *, drift_only: bool) -> Iterator[Event]:
    """Pass events on; a run without failure ends with 1 when it would change anything.

    With ``drift_only`` it does so for drift alone: where the manifest is the one applied last.
    """
    drifted = False
    for event in events:
        if isinstance(event, ObjectDiff):
            drifted = drifted or event.drifted
        if isinstance(event, Finished) and event.exit_code == 0:
            changed = any(event.counts.get(outcome) for outcome in _CHANGES)
            yield replace(event, exit_code=int(drifted if drift_only else changed))
        else:
            yield event

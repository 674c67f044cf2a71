"""``applyprune apply``: apply the input, then prune what has left the set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.options.completion import FILE
from applyprune.cli.options.planning import planning_options
from applyprune.cli.options.reporting import reporting_options, show_unchanged_option
from applyprune.cli.options.run_options import (
    RunCommand,
    duration_or_none,
    execution_options,
    fail_fast_option,
    is_given,
    yes_option,
)
from applyprune.errors import UsageError
from applyprune.model.options import Mode, WaitMode, rule_of_kind
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=RunCommand)
@execution_options
@planning_options
@show_unchanged_option
@reporting_options
@yes_option
@click.option(
    "--plan",
    "plan_path",
    type=FILE,
    metavar="FILE",
    help="Apply exactly the plan in this file, as `plan --out` wrote it, or nothing. Needs the "
    "same input and the same options.",
)
@click.option(
    "--check/--no-check",
    default=None,
    help="Whether the server checks everything in a dry run before the first write.  "
    "[default: check on a terminal, or with --approve]",
)
@click.option(
    "--apply-anyway",
    is_flag=True,
    help="Apply although the prune is refused; prune nothing, and exit with 6.",
)
@click.option(
    "--wait/--no-wait",
    default=None,
    help="--wait waits until everything is ready. --no-wait prunes without waiting.  [default: "
    "wait only before the prune of a workload, a Service, or what Pods may use]",
)
@fail_fast_option
@click.option(
    "--ready-when",
    multiple=True,
    metavar="KIND.GROUP=CEL",
    help="When objects of this kind are ready: a CEL expression over `self`.",
)
@click.option(
    "--wait-for-kinds",
    metavar="TIME",
    callback=duration_or_none,
    help="How long to wait for kinds that a controller installs while the set is applied. Their "
    "objects, and what comes after them, are planned then; the next run prunes.  [default: such a "
    "kind is an error]",
)
def apply(
    name: str,
    paths: Sequence[str | Overlay],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    apply_anyway: bool,
    yes: bool,
    plan_path: str | None,
    check: bool | None,
    wait: bool | None,
    fail_fast: bool,
    ready_when: tuple[str, ...],
    wait_for_kinds: float | None,
) -> int:
    """Make the cluster match the manifests of the set NAME.

    Applies everything in the input, then deletes what an earlier run of the same set created and
    this input no longer contains. On a terminal, it shows the changes first, and asks if anything
    would be deleted, recreated or taken from another tool.

    \b
    Examples:
      applyprune apply web -f manifests/
      applyprune apply web -f manifests/ --dry-run
      applyprune apply web -f manifests/ --plan web.plan
      applyprune apply web -f manifests/ -l app=web
      applyprune apply web -f manifests/ --only deployment/web
      applyprune apply web -k overlays/prod -n shop --create-namespace
      helm template web chart/ | applyprune apply web -f -
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import input_reader, run_set

    if plan_path is not None and check:
        raise UsageError(
            "--check and --plan exclude each other",
            reason="the plan was checked when it was made, and must still be the same",
        )
    if plan_path is not None and is_given("wait_for_kinds"):
        raise UsageError(
            "--wait-for-kinds and --plan exclude each other",
            reason="a plan cannot contain objects whose kinds are not served yet",
        )
    confirmation = Confirmation(reporting, yes, paths)
    if check is None:
        # Only a check finds recreations, which an approval covers.
        check = bool(options.prune.approved or confirmation.can_ask) and plan_path is None
    options = replace(
        options,
        mode=Mode.APPLY,
        prune=replace(options.prune, apply_anyway=apply_anyway),
        check=check,
        wait=replace(
            options.wait,
            mode=WaitMode.asked(wait),
            fail_fast=fail_fast,
            ready_when=tuple(_rule(rule) for rule in ready_when),
            kinds=wait_for_kinds or 0.0,
        ),
    )
    read = input_reader(paths)
    return reporting.print_events(
        run_set(cluster_target, name, read, options, confirmation, plan=plan_path),
        plan_is_shown=confirmation.can_ask,
    )


def _rule(text: str) -> tuple[str, str]:
    try:
        return rule_of_kind(text)
    except ValueError as error:
        raise UsageError(f"invalid rule --ready-when {text!r}", hint=f"It {error}") from None

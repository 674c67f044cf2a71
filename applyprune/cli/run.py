"""The verbs about one run: ``apply``, ``prune``, ``delete``, ``plan``, ``diff`` and ``explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.complete import FILE_PATH, OBJECT_NAME
from applyprune.cli.config import name_argument
from applyprune.cli.main import Command
from applyprune.cli.options import (
    RunCommand,
    check_option,
    cluster_options,
    deletion_option,
    duration,
    duration_or_none,
    execution_options,
    fail_fast_option,
    guard_options,
    input_option,
    is_given,
    optional_planning_options,
    placement_option,
    planning_options,
    run_options,
    yes_option,
)
from applyprune.cli.reporting import reporting_options, show_unchanged_option
from applyprune.errors import UsageError
from applyprune.model.options import DryRun, Mode, WaitMode, parse_ready_when
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options

_CHECKS_DELETIONS = "it is checked first what goes with the objects, and which rights are missing"


def _check_option(
    what: str, by_default: str = "on a terminal, or with --approve"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds --check and --no-check to a verb that writes."""
    return click.option(
        "--check/--no-check",
        default=None,
        help=f"Whether {what}.  [default: check {by_default}]",
    )


@click.command(cls=RunCommand)
@execution_options
@planning_options
@show_unchanged_option
@reporting_options
@yes_option
@click.option(
    "--plan",
    "plan_path",
    type=FILE_PATH,
    metavar="FILE",
    help="Apply exactly the plan in this file, as `plan --out` wrote it, or nothing. Needs the "
    "same input and the same options.",
)
@_check_option("the server checks everything in a dry run before the first write")
@click.option(
    "--apply-anyway",
    is_flag=True,
    help="Apply although the prune is refused; prune nothing, and exit with 6.",
)
@click.option(
    "--wait/--no-wait",
    default=None,
    help="--wait waits until everything is ready. --no-wait prunes without waiting.  [default: "
    "wait only for what may still need an object that is pruned]",
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
    paths: InputPaths,
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
    confirmation = Confirmation(reporting, yes, paths.paths)
    options = replace(
        options,
        mode=Mode.APPLY,
        prune=replace(options.prune, apply_anyway=apply_anyway),
        check=_is_checked(check, options, confirmation) and plan_path is None,
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


def _is_checked(check: bool | None, options: Options, confirmation: Confirmation) -> bool:
    """Return whether a plan is checked before it runs, by the option or by its default."""
    if check is not None:
        return check
    # Only a check finds recreations, which an approval covers.
    return bool(options.check or options.prune.approved or confirmation.can_ask)


def _rule(text: str) -> tuple[str, str]:
    try:
        return parse_ready_when(text)
    except ValueError as error:
        raise UsageError(f"invalid rule --ready-when {text!r}", hint=f"It {error}") from None


@click.command(cls=RunCommand)
@name_argument
@input_option
@cluster_options
@run_options
@guard_options
@placement_option
@_check_option(_CHECKS_DELETIONS)
@reporting_options
@yes_option
def prune(
    name: str,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
    check: bool | None,
) -> int:
    """Delete what the set NAME created and the manifests no longer contain; apply nothing.

    \b
    Examples:
      applyprune prune web -f manifests/ --dry-run
      applyprune prune web -f manifests/
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import input_reader, run_set

    confirmation = Confirmation(reporting, yes, paths.paths)
    check = _is_checked(check, options, confirmation)
    options = replace(options, mode=Mode.PRUNE, check=check)
    return reporting.print_events(
        run_set(cluster_target, name, input_reader(paths), options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )


@click.command(cls=RunCommand)
@name_argument
@cluster_options
@run_options
@deletion_option
@_check_option(_CHECKS_DELETIONS, "on a terminal")
@reporting_options
@yes_option
@click.option(
    "--allow-partial",
    is_flag=True,
    help="If there is no such set, go on although not every kind could be searched for objects of "
    "it, as with a dead conversion webhook of a CRD.",
)
def delete(
    name: str,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
    check: bool | None,
    allow_partial: bool,
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
    check = _is_checked(check, options, confirmation)
    options = replace(options, mode=Mode.DELETE, check=check, allow_partial=allow_partial)
    return reporting.print_events(
        run_set(cluster_target, name, no_input, options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )


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
    type=FILE_PATH,
    metavar="FILE",
    help="Write the plan to this file, for `apply --plan`. It has no manifests, and no value of a "
    "Secret.",
)
@click.option(
    "--exit-code", "exits_with_1", is_flag=True, help="Exit with 1 if anything would change."
)
def plan(
    name: str,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    exits_with_1: bool,
    out: str | None,
    expires_in: float,
) -> int:
    """Show what `apply` with the same options would do to each object; change nothing.

    Prints the fate of each object with its reason and what it causes. With --out or -v, and where
    there is no terminal, also the digest of the deletions, if there are any, and that of the whole
    plan. Exits with 0 whether there are changes
    or not, and with another code if the apply would be refused or would fail. With --out,
    `apply --plan` can later do exactly this, or nothing.

    \b
    Examples:
      applyprune plan web -f manifests/
      applyprune plan web -f manifests/ --no-check
      applyprune plan web -f manifests/ --out web.plan
    """
    from applyprune.cli.confirmation import PlanOutput
    from applyprune.cli.session import input_reader, run_set
    from applyprune.planning.approval import refuse_validity

    if out is None and is_given("expires_in"):
        raise UsageError("--expires-in needs --out", hint="It is about the plan file.")
    refuse_validity(expires_in)
    options = replace(options, mode=Mode.APPLY)
    output = PlanOutput(reporting, name, out, expires_in) if out is not None else None
    events = run_set(cluster_target, name, input_reader(paths), options, output)
    if exits_with_1:
        events = with_exit_code(events, drift_only=False)
    reporting = replace(reporting, digests=out is not None)
    return reporting.with_text("plan").print_events(events)


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
    "record of the writes. List items that nobody owns count too.",
)
def diff(
    name: str,
    paths: InputPaths,
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
    What nobody owns counts for both: an apply does not change it, and nobody knows who wrote it.
    """
    from applyprune.model.events import Finished, ObjectDiff, Planned

    drifted = unowned = False
    for event in events:
        if isinstance(event, Planned):
            unowned = unowned or any(step.unowned for step in event.plan.applies)
        if isinstance(event, ObjectDiff):
            drifted = drifted or event.drifted is not False  # guard: unknown-drift
        if isinstance(event, Finished) and event.exit_code == 0:
            changed = any(count and outcome.is_change for outcome, count in event.counts.items())
            differs = drifted if drift_only else changed
            yield replace(event, exit_code=int(differs or unowned))
        else:
            yield event


@click.command(cls=Command)
@optional_planning_options
@click.argument("ref", type=OBJECT_NAME, metavar="KIND/NAME")
@reporting_options
def explain(
    name: str,
    ref: str,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    options: Options,
    reporting: Reporting,
) -> int:
    """Explain what `apply` would do with one object, and why.

    KIND/NAME is deployment/web or deployment.apps/web, in every namespace of the set, or in one:
    shop/deployment/web. The object may be in no set, or in another. Without input, the
    explanation assumes that only this object has left the set. Give the options of the `apply`.
    Nothing is written.

    \b
    Examples:
      applyprune explain web deployment/web -f manifests/
      applyprune explain web configmap/old
    """
    return reporting.print_events(_events(cluster_target, name, ref, paths, options))


def _events(
    cluster_target: ClusterTarget,
    name: str,
    ref: str,
    paths: InputPaths,
    options: Options,
) -> Iterator[Event]:
    from applyprune.cli.session import input_reader, open_session, read_input

    given = None
    if paths.paths:
        given = yield from read_input(input_reader(paths))
    with open_session(cluster_target) as session:
        yield from session.applyset(name).iter_explain(
            ref, given, options=options.apply, prune=options.prune, cancellation=session.stop
        )

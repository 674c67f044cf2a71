"""The verbs about one run: ``apply``, ``prune``, ``delete``, ``plan``, ``diff`` and ``explain``."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from applyprune.cli.complete import FILE_PATH
from applyprune.cli.config import config_in_use, no_set_given
from applyprune.cli.options import (
    ASK,
    CHECK,
    CLUSTER,
    DELETION,
    EXPIRES_IN,
    GUARDS,
    INPUT,
    LIST_OUTPUT,
    MANY,
    NAME,
    OBJECT,
    OPTIONAL_NAME,
    OUTPUT,
    PLACEMENT,
    PLANNING,
    PRUNE,
    RUN,
    WAITS,
    YES,
    Ask,
    Option,
    command,
    is_given,
)
from applyprune.errors import UsageError
from applyprune.model.options import DryRun, Mode
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options

ROLLBACK = "applyprune.rollback"
"""The ``obj`` of the context of an apply that goes back to an earlier run."""
_CHECKS_DELETIONS = CHECK.but(
    help="Whether to check first what is deleted with the objects, and which rights are missing."
)
_PLAN = Option(
    "--plan",
    "plan_path",
    heading="Apply",
    type=FILE_PATH,
    metavar="FILE",
    help="Apply exactly this plan, or nothing. `plan --out` has written the file, which names the "
    "set and its local input; the options must be the same.",
)


@command(
    RUN,
    OPTIONAL_NAME,
    MANY,
    PLANNING,
    OUTPUT,
    YES,
    ASK,
    _PLAN,
    CHECK,
    WAITS,
)
def apply(
    name: str | None,
    all_in: str | None,
    changed_since: str | None,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
    ask: Ask,
    plan_path: str | None,
    check: bool,
) -> int:
    """Make the cluster match the manifests of the set NAME.

    Applies the input, then deletes what an earlier run of the set created and the input no longer
    contains. On a terminal, it shows the changes first, and asks before it deletes, recreates,
    reverts or takes anything.

    \b
    Examples:
      applyprune apply web -f manifests/
      applyprune apply web -f manifests/ --dry-run
      applyprune apply web -k overlays/prod -n shop --create-namespace
      helm template web chart/ | applyprune apply web -f -
      applyprune apply --all-in deploy/prod --changed-since HEAD~1
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import input_reader, run_set

    if plan_path is not None and check and is_given("check"):
        raise UsageError(
            "--check and --plan exclude each other",
            reason="the plan was checked when it was made, and must still be the same",
        )
    plan = plans = None
    if plan_path is not None:
        from applyprune.planning.approval import PlanFiles
        from applyprune.sources.plan_files import read_plans

        found = read_plans(plan_path)
        plan, plans = (None, found) if isinstance(found, PlanFiles) else (found, None)
    if plans is None and len(options.prune.approved.split()) > 1:
        raise UsageError(
            "--approve has more than one digest",
            reason="only the plans of many sets in one file have several",
            hint="Give it with --plan.",
        )
    if all_in is not None or plans is not None:
        from applyprune.cli.many_runs import apply_many, many_sets

        ctx = click.get_current_context()
        if plans is None and plan is not None:
            raise UsageError(f"{plan_path} is the plan of one set", hint="Leave out --all-in.")
        folder = all_in or (plans.folder if plans else "")
        many = many_sets(ctx, folder, changed_since, cluster_target, reporting, plans)
        return apply_many(many, reporting, yes=yes)
    if plan is not None and plan_path is not None:
        paths = paths.or_of(plan)
        # Only the command line itself says otherwise, and is refused then.
        if not is_given("name"):
            name = plan.name
            _refuse_other_configuration(plan_path, name)
        if not is_given("namespace"):
            cluster_target = replace(cluster_target, namespace=plan.namespace)
    if name is None:
        raise no_set_given()
    confirmation = Confirmation(reporting, yes, paths.paths, ask)
    options = replace(
        options,
        mode=Mode.APPLY,
        check=check and plan_path is None,
    )
    from applyprune.planning.history import not_brought_back

    is_rollback = click.get_current_context().obj == ROLLBACK
    cluster_target = _also_at(cluster_target, paths)
    read = input_reader(paths)
    return reporting.print_events(
        run_set(
            cluster_target,
            name,
            read,
            options,
            confirmation,
            plan=plan,
            notes=not_brought_back if is_rollback else None,
        ),
        plan_is_shown=confirmation.can_ask,
    )


def _also_at(cluster_target: ClusterTarget, paths: InputPaths) -> ClusterTarget:
    """Return the target with what the configuration of the input's commit demands of it."""
    if not paths.at or is_given("context"):
        return cluster_target
    from applyprune.cli.config import conditions_at

    then = conditions_at(paths.paths, paths.at)
    return replace(cluster_target, conditions=(*cluster_target.conditions, *then))


def _refuse_other_configuration(plan: str, name: str) -> None:
    used = config_in_use()
    if used.name not in {"", name}:
        raise UsageError(
            f"{used.path} is for the set {used.name}, and the plan for the set {name}",
            hint=f"Use applyprune apply {name} --plan {shlex.quote(plan)}",
        )


@command(
    NAME,
    INPUT,
    CLUSTER,
    RUN,
    PRUNE,
    GUARDS,
    PLACEMENT,
    _CHECKS_DELETIONS,
    OUTPUT,
    YES,
    ASK,
)
def prune(
    name: str,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
    ask: Ask,
    check: bool,
) -> int:
    """Delete what the set NAME created and the manifests no longer contain; apply nothing.

    \b
    Examples:
      applyprune prune web -f manifests/ --dry-run
      applyprune prune web -f manifests/
    """
    from applyprune.cli.confirmation import Confirmation
    from applyprune.cli.session import input_reader, run_set

    confirmation = Confirmation(reporting, yes, paths.paths, ask)
    options = replace(options, mode=Mode.PRUNE, check=check)
    return reporting.print_events(
        run_set(cluster_target, name, input_reader(paths), options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )


@command(
    NAME,
    CLUSTER,
    RUN,
    PRUNE,
    DELETION,
    _CHECKS_DELETIONS,
    OUTPUT,
    YES,
    Option(
        "--allow-partial",
        sets="options.allow_partial",
        is_flag=True,
        help="If there is no such set, go on although not every kind could be searched for "
        "objects of it, as with a dead conversion webhook of a CRD.",
    ),
)
def delete(
    name: str,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    yes: bool,
    check: bool,
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

    # No `ask`: the file cannot confirm that a set is deleted.
    confirmation = Confirmation(reporting, yes)
    if options.dry_run is DryRun.OFF:
        part = "a part of " if options.is_part else ""
        confirmation.require(f"deleting {part}the set {name}")
    options = replace(options, mode=Mode.DELETE, check=check)
    return reporting.print_events(
        run_set(cluster_target, name, no_input, options, confirmation),
        plan_is_shown=confirmation.can_ask,
    )


_LOOKS = CHECK.but(
    help="Whether the server checks, in a dry run, what would change. If not, the command only "
    "reads: for a job that has no right to write.",
)


def _looking(options: Options, *, check: bool) -> Options:
    """Return the options of a run that only shows what an apply would do."""
    dry_run = DryRun.SERVER if check else DryRun.CLIENT
    return replace(options, mode=Mode.APPLY, dry_run=dry_run, check=check)


@command(
    OPTIONAL_NAME,
    MANY,
    PLANNING,
    _LOOKS,
    OUTPUT,
    EXPIRES_IN,
    Option(
        "--out",
        heading="Output",
        type=FILE_PATH,
        metavar="FILE",
        help="Write the plan to this file, for `apply --plan`. It has no manifests, and no value "
        "of a Secret.",
    ),
    Option(
        "--exit-code",
        "exits_with_1",
        is_flag=True,
        help="Exit with 1 if anything would change.",
    ),
)
def plan(
    name: str | None,
    all_in: str | None,
    changed_since: str | None,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    check: bool,
    exits_with_1: bool,
    out: str | None,
    expires_in: float,
) -> int:
    """Show what `apply` with the same options would do to each object; change nothing.

    Prints the fate of each object with its reason and what it causes. With --out or -v, and where
    there is no terminal, also the digest of the deletions, if there are any, and that of the whole
    plan. Exits with 0 whether there are changes or not, and with another code if the apply would
    be refused or would fail. With --out, `apply --plan` can later do exactly this, or nothing.
    With -o markdown or -o github, the page shows the changed fields too, as `diff` does.

    \b
    Examples:
      applyprune plan web -f manifests/
      applyprune plan web -f manifests/ --no-check
      applyprune plan web -f manifests/ --out web.plan
      applyprune plan --all-in deploy/prod --changed-since origin/main
    """
    from applyprune.cli.confirmation import PlanOutput
    from applyprune.cli.session import input_reader, run_set
    from applyprune.planning.approval import refuse_validity

    refuse_validity(expires_in)

    def looking(options: Options, *, check: bool) -> Options:
        options = _looking(options, check=check)
        if reporting.has_page:
            return replace(options, diff=replace(options.diff, enabled=True, of_plan=True))
        return options

    shown = replace(reporting, digests=out is not None).with_text("plan")
    if all_in is not None:
        from applyprune.cli.many_runs import PlansOutput, look_at_many, many_sets

        ctx = click.get_current_context()
        many = many_sets(ctx, all_in, changed_since, cluster_target, reporting)
        ended = partial(with_exit_code, drift_only=False)
        output = None if out is None else PlansOutput(reporting, all_in, out, expires_in)
        events = look_at_many(many, looking, output, ended=ended if exits_with_1 else None)
        return shown.print_events(events)
    if name is None:
        raise no_set_given()
    options = looking(options, check=check)
    watcher = (
        PlanOutput(reporting, name, paths.recorded, out, expires_in) if out is not None else None
    )
    cluster_target = _also_at(cluster_target, paths)
    events = run_set(cluster_target, name, input_reader(paths), options, watcher)
    if exits_with_1:
        events = with_exit_code(events, drift_only=False)
    return shown.print_events(events)


@command(
    OPTIONAL_NAME,
    MANY,
    PLANNING,
    _LOOKS,
    OUTPUT,
    Option(
        "--drift",
        is_flag=True,
        help="Exit with 1 only if others have changed the set since the last apply of the "
        "same manifests. Fields that others have taken count as drift then, not as "
        "conflicts.",
    ),
)
def diff(
    name: str | None,
    all_in: str | None,
    changed_since: str | None,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    check: bool,
    drift: bool,
) -> int:
    """Show what `apply` with the same options would change, prunes included; change nothing.

    The server computes it in a dry run. Values of Secrets are masked. Exits with 0 if nothing
    would change, with 1 if something would, and with a higher code for an error. As for kubectl,
    KUBECTL_EXTERNAL_DIFF is a program that compares two folders. With --reapply-all, every value
    is compared with the cluster, and list items that nobody owns count too.

    \b
    Examples:
      applyprune diff web -f manifests/
      applyprune diff web -f manifests/ --reapply-all
      KUBECTL_EXTERNAL_DIFF='diff -ru' applyprune diff web -f manifests/
    """
    from applyprune.cli.session import input_reader, run_set

    def looking(options: Options, *, check: bool) -> Options:
        options = _looking(options, check=check)
        return replace(options, diff=replace(options.diff, enabled=True, drift_only=drift))

    if all_in is not None:
        from applyprune.cli.many_runs import look_at_many, many_sets

        ctx = click.get_current_context()
        many = many_sets(ctx, all_in, changed_since, cluster_target, reporting)
        events = look_at_many(many, looking, ended=partial(with_exit_code, drift_only=drift))
    elif name is None:
        raise no_set_given()
    else:
        cluster_target = _also_at(cluster_target, paths)
        options = looking(options, check=check)
        events = with_exit_code(
            run_set(cluster_target, name, input_reader(paths), options), drift_only=drift
        )
    text = "diff"
    if program := os.environ.get("KUBECTL_EXTERNAL_DIFF", "").strip():
        from applyprune.cli.external_diff import with_external_diff

        text = "summary"
        events = with_external_diff(events, program)
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
            # guard: unknown-drift -> drifted or event.drifted
            drifted = drifted or event.drifted is not False
        if isinstance(event, Finished) and event.exit_code == 0:
            changed = any(count and outcome.is_change for outcome, count in event.counts.items())
            differs = drifted if drift_only else changed
            yield replace(event, exit_code=int(differs or unowned))
        else:
            yield event


@command(OPTIONAL_NAME, PLANNING, OBJECT, LIST_OUTPUT)
def explain(
    name: str | None,
    ref: str,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    options: Options,
    reporting: Reporting,
) -> int:
    """Explain what `apply` would do with one object, and why; or whose it is.

    Without a set, it says what the object belongs to, a set or another tool, and who sets which of
    its fields. With one, KIND/NAME is deployment/web or deployment.apps/web, in every namespace of
    the set, or in one: shop/deployment/web. The object may be in no set, or in another. Without
    input, the explanation assumes that only this object is no longer in it. Give the options of the
    `apply`. Nothing is written.

    \b
    Examples:
      applyprune explain web deployment/web -f manifests/
      applyprune explain web configmap/old
      applyprune explain deployment/web -n shop  # whose is it?
    """
    if name is None:
        return reporting.print_events(_belonging(cluster_target, ref))
    cluster_target = _also_at(cluster_target, paths)
    return reporting.print_events(_events(cluster_target, name, ref, paths, options))


def _belonging(cluster_target: ClusterTarget, ref: str) -> Iterator[Event]:
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        yield from session.cluster.iter_belonging(ref)


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

"""``applyprune history`` and ``rollback``: what the runs of a set have done, and back to one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from applyprune.cli.options import (
    APPLY,
    CHECK,
    CLUSTER,
    GUARDS,
    LIST_OUTPUT,
    NAME,
    OUTPUT,
    PRUNE,
    RUN,
    WAITS,
    YES,
    RunNumber,
    command,
    words_given,
)
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.events import RunListed, WarningRaised
from applyprune.model.live import mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import Session
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.inventory import Inventory, RunRecord

_RUN = RunNumber("run")


@command(NAME, _RUN, CLUSTER, LIST_OUTPUT)
def history(name: str, run: int | None, cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """List the last runs that changed an object of the set NAME.

    With RUN, list the objects of one, by what was done with them. A plus sign after a commit: a
    file that was read was not that of the commit. A run is unfinished while it works, and if it was
    killed. The API server's audit log has the ID of a run (-o wide) in the User-Agent of each
    request. Whoever may write the inventory may forge this list.

    \b
    Examples:
      applyprune history web
      applyprune history web 7
      applyprune history web -o json
    """
    if run is not None:
        reporting = reporting.with_text("run")
    return reporting.print_events(_runs(cluster_target, name, run))


def _runs(cluster_target: ClusterTarget, name: str, number: int | None) -> Iterator[Event]:
    from applyprune.cli.session import open_session
    from applyprune.planning.history import objects_of, run_of, unreadable_history

    with open_session(cluster_target) as session:
        found = session.existing_inventory(name)
    if (error := unreadable_history(found)) is not None:
        yield WarningRaised(error.problem)
    stored = found.objects_of_runs
    for one in found.history if number is None else (run_of(found, number),):
        yield RunListed(found.name, found.namespace, one, objects_of(stored, one.run))


@command(NAME, _RUN, CLUSTER, RUN, PRUNE, GUARDS, APPLY, OUTPUT, YES, CHECK, WAITS)
def rollback(
    name: str,
    run: int | None,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    **_others: object,
) -> int:
    """Apply again what the set NAME had before its last change.

    With RUN, what that run has applied. It is `apply --at` with the commit and the paths of a run,
    in the Git work tree of the current folder, which stays as it is; the options are those of
    today. It shows the plan, asks and has the guards as any apply. Only a whole run without a
    failure can be repeated, whose files were those of a commit. Data of volumes and addresses do
    not come back.

    \b
    Examples:
      applyprune rollback web --dry-run
      applyprune rollback web
      applyprune rollback web 6
    """
    from applyprune.cli.run import ROLLBACK, apply
    from applyprune.cli.session import open_session

    with open_session(cluster_target) as session:
        found = session.existing_inventory(name)
        _refuse_for_bundle(found, session)
    target = _target(found, run)
    words = [name, *_input_of(target), *words_given(click.get_current_context())]
    if not reporting.quiet:
        back = f"to run {target.number} of the set {name}: {target.source.text}"
        reporting.terminal.err(f"going back {back}")
    return int(apply.main(words, "applyprune apply", standalone_mode=False, obj=ROLLBACK))


def _target(found: Inventory, number: int | None) -> RunRecord:
    from applyprune.planning.history import refuse_rollback_to, run_before, run_of

    target = run_before(found) if number is None else run_of(found, number)
    refuse_rollback_to(target, found)
    return target


def _input_of(target: RunRecord) -> list[str]:
    """Return the options of an apply that read the input of a run again."""
    from applyprune.sources.work_tree import work_tree_of

    tree = work_tree_of("")
    if tree is None:
        raise UsageError(
            "this folder is in no Git work tree",
            reason=f"run {target.number} applied {target.source.text}",
            hint="Run this in a clone of the repository that has this commit.",
        )
    words = ["--at", target.source.commit]
    for option, paths in target.source.paths.items():
        # As they are seen from here.
        places = (os.path.relpath(os.path.join(tree.root, path)) for path in paths)  # noqa: PTH118
        words += [f"--{option}={place}" for place in places]
    return words


def _refuse_for_bundle(found: Inventory, session: Session) -> None:
    """Raise UsageError for a set that a Bundle owns: it follows a source, and would fight."""
    if not found.owner:
        return
    from applyprune.cli.inventory import bundle_spec
    from applyprune.model.inventory import short_commit

    last = next(iter(found.history), None)
    commit = short_commit(last.source.commit).rpartition(":")[2] if last else ""
    revert = f"git revert {commit}" if commit else "revert the commit"
    try:
        spec = bundle_spec(session.cluster.client, found.owner) or {}
    except ApplypruneError:
        spec = {}
    git = mapping(mapping(spec.get("source")).get("git"))
    where = f" in {text(git, 'url')}" if git else " in its source"
    branch = text(mapping(git.get("ref")), "branch")
    raise UsageError(
        f"the set {found.name} belongs to {found.owner}",
        reason="it follows its source, and would undo a rollback at once",
        hint=f"Revert there: {revert}{where}{f', branch {branch}' if branch else ''}.",
    )

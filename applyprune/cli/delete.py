"""``applyprune delete``: remove the whole set, and its inventory last."""

from __future__ import annotations

import sys

import click

from applyprune.cli.options import RunCommand, cluster_options, run_options
from applyprune.errors import UsageError
from applyprune.model.options import DryRun, Mode, Options, Propagation


@click.command(cls=RunCommand)
@click.argument("name")
@cluster_options
@run_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete(
    name: str,
    namespace: str,
    context: str,
    kubeconfig: str,
    dry_run: DryRun,
    propagation: str,
    keep: tuple[str, ...],
    allow_cascade: tuple[str, ...],
    timeout: float,
    lock_timeout: float,
    yes: bool,
) -> int:
    """Delete everything that the set NAME created, then its inventory.

    What the set adopted, and what is marked to be kept, is abandoned: it stays, without our label.

    \b
    Examples:
      applyprune delete web --dry-run
      applyprune delete web --yes
    """
    from applyprune.cli.session import Where, carry_out, describe

    where = Where(kubeconfig, context, namespace)
    if dry_run is DryRun.OFF and not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                f"deleting the set {name} needs a yes",
                why="there is no terminal to ask on",
                hint="Add --yes, or look first with --dry-run.",
            )
        click.confirm(describe(where, name), abort=True, err=True)
    return carry_out(
        where,
        name,
        (),
        Options(
            mode=Mode.DELETE,
            dry_run=dry_run,
            keep=frozenset(keep),
            allow_cascade=frozenset(allow_cascade),
            propagation=Propagation(propagation.capitalize()),
            timeout=timeout,
            lock_timeout=lock_timeout,
        ),
    )

"""``applyprune prune``: prune what has left the set, without applying anything."""

from __future__ import annotations

import sys

import click

from applyprune.cli.options import RunCommand, cluster_options, input_option, run_options
from applyprune.model.options import DryRun, Mode, Options, Propagation


@click.command(cls=RunCommand)
@click.argument("name")
@input_option
@cluster_options
@run_options
def prune(
    name: str,
    paths: tuple[str, ...],
    namespace: str,
    context: str,
    kubeconfig: str,
    dry_run: DryRun,
    propagation: str,
    keep: tuple[str, ...],
    allow_cascade: tuple[str, ...],
    timeout: float,
    lock_timeout: float,
) -> int:
    """Delete what the set NAME created and the manifests no longer hold; apply nothing.

    \b
    Examples:
      applyprune prune web -f manifests/ --dry-run
      applyprune prune web -f manifests/
    """
    from applyprune.cli.session import Where, carry_out
    from applyprune.sources import read

    return carry_out(
        Where(kubeconfig, context, namespace),
        name,
        read(paths, stdin=sys.stdin.buffer),
        Options(
            mode=Mode.PRUNE,
            dry_run=dry_run,
            keep=frozenset(keep),
            allow_cascade=frozenset(allow_cascade),
            propagation=Propagation(propagation.capitalize()),
            timeout=timeout,
            lock_timeout=lock_timeout,
        ),
    )

"""``applyprune apply``: apply the input, prune what has left the set."""

from __future__ import annotations

import sys

import click

from applyprune.cli.options import RunCommand, cluster_options, input_option, run_options
from applyprune.model.options import Adopt, DryRun, Mode, Options, Propagation


@click.command(cls=RunCommand)
@click.argument("name")
@input_option
@cluster_options
@run_options
@click.option(
    "--prune/--no-prune",
    default=True,
    help="Whether to delete what has left the set, or keep it listed.  [default: prune]",
)
@click.option(
    "--adopt",
    type=click.Choice([str(one) for one in Adopt]),
    default=str(Adopt.UNOWNED),
    show_default=True,
    help="Which existing objects the set may take in.",
)
@click.option("--force-conflicts", is_flag=True, help="Take fields that other managers own.")
@click.option(
    "--create-namespace",
    is_flag=True,
    help="Create the inventory's namespace; it stays outside the set.",
)
@click.option("--full", is_flag=True, help="Send every object, changed or not.")
def apply(
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
    prune: bool,
    adopt: str,
    force_conflicts: bool,
    create_namespace: bool,
    full: bool,
) -> int:
    """Make the cluster match the manifests of the set NAME.

    Applies everything in the input, then deletes what an earlier run of the same set created and
    this input no longer holds.

    \b
    Examples:
      applyprune apply web -f manifests/
      applyprune apply web -f manifests/ --dry-run
      kustomize build . | applyprune apply web -f - -n shop --create-namespace
    """
    from applyprune.cli.session import Where, carry_out
    from applyprune.sources import read

    return carry_out(
        Where(kubeconfig, context, namespace),
        name,
        read(paths, stdin=sys.stdin.buffer),
        Options(
            mode=Mode.APPLY,
            prune=prune,
            dry_run=dry_run,
            adopt=Adopt(adopt),
            force_conflicts=force_conflicts,
            full=full,
            create_namespace=create_namespace,
            keep=frozenset(keep),
            allow_cascade=frozenset(allow_cascade),
            propagation=Propagation(propagation.capitalize()),
            timeout=timeout,
            lock_timeout=lock_timeout,
        ),
    )

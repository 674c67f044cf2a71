"""``applyprune apply``: apply the input, prune what has left the set."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from applyprune.cli.configuration import name_argument
from applyprune.cli.options import (
    RunCommand,
    cluster_options,
    guard_options,
    input_option,
    is_said,
    placement_option,
    run_options,
    selection_option,
)
from applyprune.cli.reporting import reporting_options
from applyprune.errors import UsageError
from applyprune.model.options import Adopt, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.where import Where
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=RunCommand)
@name_argument
@input_option
@cluster_options
@run_options
@guard_options
@placement_option
@selection_option
@reporting_options
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
@click.option(
    "--take-over",
    multiple=True,
    metavar="MANAGER",
    help="A field manager whose fields become the set's own; kubectl's and Helm's do at adoption.",
)
@click.option("--force-conflicts", is_flag=True, help="Take fields that other managers own.")
@click.option(
    "--wait/--no-wait",
    default=False,
    help="Whether to wait until everything is ready, and prune only then.  [default: no-wait]",
)
@click.option(
    "--ready-when",
    multiple=True,
    metavar="KIND.GROUP=CEL",
    help="When an object of a kind of your own is ready: a CEL expression over `self`.",
)
@click.option(
    "--recreate",
    is_flag=True,
    help="Delete and create anew what cannot be changed in place; never a PersistentVolumeClaim, "
    "PersistentVolume, Namespace or CRD.",
)
@click.option(
    "--create-namespace",
    is_flag=True,
    help="Create the inventory's namespace; it stays outside the set.",
)
@click.option("--full", is_flag=True, help="Send every object, changed or not.")
def apply(
    name: str,
    paths: Sequence[str | Overlay],
    where: Where,
    reporting: Reporting,
    options: Options,
    prune: bool,
    adopt: str,
    take_over: tuple[str, ...],
    force_conflicts: bool,
    wait: bool,
    ready_when: tuple[str, ...],
    recreate: bool,
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
      applyprune apply web -f manifests/ -l app=web
      applyprune apply web -k overlays/prod -n shop --create-namespace
      helm template web chart/ | applyprune apply web -f -
    """
    from applyprune.cli.session import carry_out
    from applyprune.planning.tracking import MANAGERS
    from applyprune.sources import read

    if others := sorted(one for one in take_over if one.startswith(MANAGERS)):
        raise UsageError(
            f"{others[0]} is the field manager of a set",
            hint="--adopt=all takes objects from another set.",
        )
    if options.selector and prune and is_said("prune"):
        raise UsageError(
            "--prune and --selector exclude each other",
            why="what the selector leaves out would look like what has left the set",
            hint="Prune in a run without --selector.",
        )
    decided = replace(
        options,
        mode=Mode.APPLY,
        prune=prune,
        adopt=Adopt(adopt),
        take_over=frozenset(take_over),
        force_conflicts=force_conflicts,
        wait=wait,
        ready_when=tuple(_rule(one) for one in ready_when),
        recreate=recreate,
        create_namespace=create_namespace,
        full=full,
    )
    # A process may have been started without it.
    stdin = getattr(sys.stdin, "buffer", None)
    return reporting.follow(carry_out(where, name, partial(read, paths, stdin=stdin), decided))


def _rule(text: str) -> tuple[str, str]:
    kind, equals, rule = text.partition("=")
    if not (kind and equals and rule.strip()):
        raise UsageError(
            f"--ready-when {text!r} is no rule",
            hint="Write KIND.GROUP=EXPRESSION: certificate.cert-manager.io=self.status.ready",
        )
    return kind, rule

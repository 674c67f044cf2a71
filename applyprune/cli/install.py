"""``applyprune install``: brings the controller into a cluster, as a set of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

import click

from applyprune.cli.access import namespaces_option, not_empty
from applyprune.cli.options import RunCommand, cluster_options, record_options, timeout_option
from applyprune.cli.reporting import reporting_options
from applyprune.model.options import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.where import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem
    from applyprune.sources import Input

SET = "applyprune"
"""The name of the set that the controller is."""
_ORIGIN = "install --print"


@click.command(cls=RunCommand)
@cluster_options
@record_options
@timeout_option("How long each wait may take, for the CRD and with --wait.")
@reporting_options
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    callback=not_empty,
    help="The controller's image, where the nodes can pull it.  [default: applyprune:VERSION]",
)
@namespaces_option(
    "The namespaces whose Bundles are carried out, and where the controller gets its rights."
)
@click.option("--force-conflicts", is_flag=True, help="Take fields that other managers own.")
@click.option(
    "--wait/--no-wait",
    default=False,
    help="Whether to wait until the controller runs.  [default: no-wait]",
)
@click.option("--print", "prints", is_flag=True, help="Print the manifests; ask no server.")
def install(
    where: ClusterTarget,
    reporting: Reporting,
    options: Options,
    image: str,
    watch_namespaces: tuple[str, ...],
    timeout: float,
    force_conflicts: bool,
    wait: bool,
    prints: bool,
) -> int:
    """Bring the controller into the cluster, or bring the one that is there up to date.

    It becomes the set `applyprune` of the namespace `applyprune-system`, or of the one that -n
    names; `applyprune delete` takes it away again, but for the CRD and the namespace.

    \b
    Examples:
      applyprune install --image registry.example.com/applyprune:0.1.0 --wait
      applyprune install --watch-namespaces shop,blog --dry-run
      applyprune install --print > applyprune.yaml
      applyprune delete applyprune -n applyprune-system
    """
    from applyprune.cli.installation import HOME, installation
    from applyprune.cli.packaged import packaged_folder
    from applyprune.cli.session import run_set

    where = replace(where, namespace=where.namespace or HOME)
    text = installation(
        packaged_folder("deploy"),
        namespace=where.namespace,
        image=image,
        watched=watch_namespaces,
    )
    if prints:
        return reporting.put(text.rstrip("\n"))
    decided = replace(
        options,
        mode=Mode.APPLY,
        create_namespace=True,
        force_conflicts=force_conflicts,
        timeout=timeout,
        wait=wait,
    )
    return reporting.follow(run_set(where, SET, partial(_read, text), decided))


def _read(text: str, *, warn: Callable[[Problem], None]) -> Input:
    """Return the manifests of a text, each from a line of what --print would print."""
    from applyprune.sources import Input, read

    found = read(("-",), stdin=BytesIO(text.encode()), warn=warn)
    named = [replace(one, origin=replace(one.origin, path=_ORIGIN)) for one in found]
    return Input(tuple(named), {_ORIGIN: text})

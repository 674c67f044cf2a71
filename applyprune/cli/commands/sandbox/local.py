"""``applyprune local``: run a real control plane on this machine."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import CommandGroup
from applyprune.cli.commands.sandbox.plane_origin import origin_of, plane_from
from applyprune.errors import AccessError

if TYPE_CHECKING:
    from applyprune.localplane.planes import PlaneStatus

_NAME = click.option(
    "--name", default="default", show_default=True, metavar="NAME", help="Name of the plane."
)


@click.group(cls=CommandGroup)
def local() -> None:
    """Run a real Kubernetes control plane on this machine: API server, controllers, fake nodes."""
    from applyprune.localplane.supported import require_supported_system

    require_supported_system()


@local.command()
@_NAME
@click.option(
    "--nodes",
    type=click.IntRange(0, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="How many nodes to simulate.",
)
@plane_from
def up(name: str, nodes: int, plane_from: str) -> None:
    """Start a plane and leave it running.

    Its programs come from the mirror that you name, else the cache, else the package
    applyprune-plane, else they are built from source, which takes minutes.

    Prints a shell command: `eval` it to point applyprune and kubectl at the plane.

    \b
    Examples:
      eval "$(applyprune local up)"
      applyprune local up --name big --nodes 100
      applyprune local up --plane-from ./dist/plane
    """
    from applyprune.localplane import PlaneSpec, progress_on
    from applyprune.localplane.planes import bring_up

    spec = PlaneSpec(kwok=nodes > 0, nodes=nodes)
    plane, started = bring_up(name, spec, progress_on(sys.stderr), origin_of(plane_from))
    if not started:
        click.echo(f"the plane {name} is already running", err=True)
    option = "" if name == "default" else f" --name {name}"
    click.echo(f"its API server is {plane.server}; use it with", err=True)
    click.echo(f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
    click.echo(f"  applyprune local kubectl{option} get nodes", err=True)
    click.echo(f"  applyprune local down{option}", err=True)


@local.command()
@_NAME
@click.option("--all", "every", is_flag=True, help="All planes.")
def down(name: str, *, every: bool) -> None:
    """Stop a plane and remove its data. Succeeds if there is no such plane.

    \b
    Examples:
      applyprune local down
      applyprune local down --all
    """
    from applyprune.localplane.planes import bring_down, plane_names

    for each in plane_names() if every else (name,):
        done = bring_down(each)
        click.echo(f"the plane {each} {'is down' if done else 'does not exist'}", err=True)


@local.command()
def status() -> None:
    """List the planes: name, phase, and the kubeconfig or the reason why it is not running.

    \b
    Examples:
      applyprune local status
    """
    from applyprune.localplane.planes import plane_names, plane_status

    statuses = [plane_status(name) for name in plane_names()]
    if not statuses:
        click.echo("no planes; start one with `applyprune local up`", err=True)
        return
    rows = [("NAME", "PHASE", "SERVER", "DETAIL"), *map(_row, statuses)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for *cells, detail in rows:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        click.echo("  ".join([*padded, detail]).rstrip())


@local.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@_NAME
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(name: str, arguments: tuple[str, ...]) -> None:
    """Run kubectl against a plane. All arguments go to kubectl."""
    from applyprune.localplane.planes import running_plane

    plane = running_plane(name)
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig)}
    # This process becomes kubectl, with kubectl's exit code, terminal and signals.
    try:
        os.execve(plane.kubectl, ["kubectl", *arguments], environment)  # noqa: S606 - no shell
    except FileNotFoundError:
        raise AccessError(
            "kubectl is missing from the cache",
            location=str(plane.kubectl),
            reason="the cache was emptied while the plane was running",
            hint="Stop the plane and start it again: `applyprune local down`, then `up`.",
        ) from None


def _row(status: PlaneStatus) -> tuple[str, str, str, str]:
    if status.plane is not None:
        return status.name, status.phase, status.plane.server, str(status.plane.kubeconfig)
    return status.name, status.phase, "-", status.reason or str(status.folder)

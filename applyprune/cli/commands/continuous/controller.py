"""``applyprune controller``: run the Bundle controller."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import namespaces_option
from applyprune.cli.options.run_options import cluster_options, duration
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from applyprune.cli.target import ClusterTarget


@click.command(cls=Command)
@cluster_options
@namespaces_option("The namespaces whose Bundles the controller handles.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    metavar="N",
    help="How many Bundles to handle at a time.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    help="Whether to work only while holding the Lease.  [default: leader-elect]",
)
@click.option(
    "--lease-duration",
    default="15s",
    metavar="TIME",
    callback=duration,
    help="Time without a renewal after which another replica takes over.  [default: 15s]",
)
@click.option(
    "--listen",
    default=":8080",
    show_default=True,
    metavar="[ADDRESS]:PORT",
    help="Address of /livez, /healthz, /readyz and /metrics; port 0 picks a free port.",
)
@click.option(
    "--grace",
    default="25s",
    metavar="TIME",
    callback=duration,
    help="How long shutting down may take.  [default: 25s]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The lowest level to log.",
)
def controller(
    cluster_target: ClusterTarget,
    watch_namespaces: tuple[str, ...],
    workers: int,
    leader_elect: bool,
    lease_duration: float,
    listen: str,
    grace: float,
    log_level: str,
) -> int:
    """Run the Bundle controller: apply and prune Bundles continuously.

    Runs in a cluster, or anywhere with a kubeconfig. -n is the namespace of its Lease. The
    controller acts for each Bundle as a ServiceAccount of the Bundle's namespace.

    \b
    Examples:
      applyprune controller --kubeconfig admin.conf
      applyprune controller --watch-namespaces shop,blog --no-leader-elect
    """
    try:
        import prometheus_client
    except ImportError as error:
        raise UsageError(
            "the controller cannot run",
            reason="the package prometheus_client is not installed",
            hint="pip install 'applyprune[controller]'",
        ) from error
    del prometheus_client
    from applyprune.cli.session import cancel_on_signals
    from applyprune.cluster.auth.kubeconfig import connect
    from applyprune.controller.process import Settings, serve
    from applyprune.controller.runtime.logging import log_to_stderr

    log_to_stderr(log_level)
    access = connect(
        kubeconfig=cluster_target.kubeconfig, context=cluster_target.context, environ=os.environ
    )
    settings = Settings(
        access=access,
        listen=_address(listen),
        lease_namespace=cluster_target.namespace or access.namespace,
        namespaces=watch_namespaces,
        workers=workers,
        lease=lease_duration if leader_elect else 0.0,
        grace=grace,
    )
    with cancel_on_signals(cluster_target) as stop:
        return serve(settings, stop)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()):
        raise UsageError(
            f"invalid address --listen {text!r}", hint="Write :8080 or 127.0.0.1:8080."
        )
    return host.strip("[]"), int(port)

"""``applyprune controller``: run the Bundle controller."""

from __future__ import annotations

import ipaddress
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import namespaces_option
from applyprune.cli.options.run_options import cluster_options, duration
from applyprune.errors import UsageError
from applyprune.system.processes import require_posix
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.cli.target import ClusterTarget
    from applyprune.http import Network


def _networks(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[Network, ...]:
    """Return the networks of CIDRs such as 127.0.0.0/8."""
    try:
        return tuple(ipaddress.ip_network(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(f"{error}, as in 127.0.0.0/8", ctx, param) from None


_PACKAGES = ("prometheus_client", "h11", "pydantic")
_SIZE = pattern(r"([1-9][0-9]{0,5})(Mi|Gi)")
_UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Return the bytes of a size such as 256Mi."""
    match = _SIZE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a size such as 256Mi or 1Gi", ctx, param)
    return int(match[1]) * _UNITS[match[2]]


@click.command(cls=Command)
@cluster_options
@namespaces_option("The namespaces whose Bundles the controller handles.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="How many worker processes reconcile Bundles, one at a time each.",
)
@click.option(
    "--reconcile-memory",
    default="256Mi",
    metavar="SIZE",
    callback=_size,
    help="Memory that one reconcile may use, beyond that of an idle worker.  [default: 256Mi]",
)
@click.option(
    "--reconcile-cpu",
    default="2m",
    metavar="TIME",
    callback=duration,
    help="CPU time that one reconcile may use.  [default: 2m]",
)
@click.option(
    "--reconcile-timeout",
    default="3m",
    metavar="TIME",
    callback=duration,
    help="How long one reconcile may take. A wait for objects does not count.  [default: 3m]",
)
@click.option(
    "--lease/--no-lease",
    default=True,
    help="Whether to share the Bundles with the other replicas; if not, serve all of them."
    "  [default: lease]",
)
@click.option(
    "--lease-duration",
    default="15s",
    metavar="TIME",
    callback=duration,
    help="Time without a renewal of its Lease after which others serve the Bundles of a replica."
    "  [default: 15s]",
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
    "--allow-network",
    "networks",
    multiple=True,
    metavar="CIDR",
    callback=_networks,
    help="A network in which other clusters may be, although its addresses are refused else.",
)
@click.option(
    "--fetch-workers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="How many worker processes read sources on other hosts, one at a time each.",
)
@click.option(
    "--source-cache",
    default="1Gi",
    metavar="SIZE",
    callback=_size,
    help="Space on the disk for sources that were read from other hosts.  [default: 1Gi]",
)
@click.option(
    "--allow-source-cidr",
    "allowed_sources",
    multiple=True,
    metavar="CIDR",
    callback=_networks,
    help="A network in which hosts of sources may be, although its addresses are refused else.",
)
@click.option(
    "--deny-source-cidr",
    "denied_sources",
    multiple=True,
    metavar="CIDR",
    callback=_networks,
    help="A network in which no host of a source may be, such as that of the cluster's Pods.",
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
    reconcile_memory: int,
    reconcile_cpu: float,
    reconcile_timeout: float,
    lease: bool,
    lease_duration: float,
    listen: str,
    grace: float,
    networks: tuple[Network, ...],
    fetch_workers: int,
    source_cache: int,
    allowed_sources: tuple[Network, ...],
    denied_sources: tuple[Network, ...],
    log_level: str,
) -> int:
    """Run the Bundle controller: apply and prune Bundles continuously.

    Runs in a cluster, or anywhere with a kubeconfig. -n is the namespace of the replicas' Leases.
    The controller acts for each Bundle as a ServiceAccount of the Bundle's namespace.

    \b
    Examples:
      applyprune controller --kubeconfig admin.conf
      applyprune controller --watch-namespaces shop,blog --no-lease
    """
    require_posix(
        "the controller does not run",
        reason="it limits its worker processes, and Windows has no such limits",
        hint="Install it in a cluster: applyprune install.",
    )
    missing = next((name for name in _PACKAGES if find_spec(name) is None), "")
    if missing:
        raise UsageError(
            "the controller cannot run",
            reason=f"the package {missing} is not installed",
            hint="pip install 'applyprune[controller]'",
        )
    from applyprune.cli.session import cancel_on_signals
    from applyprune.cluster.access import connect
    from applyprune.controller.process import Settings, serve
    from applyprune.controller.runtime.logging import log_to_stderr
    from applyprune.controller.workers.limits import Limits
    from applyprune.http import AddressRules

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
        limits=Limits(memory=reconcile_memory, cpu=reconcile_cpu, time=reconcile_timeout),
        lease=lease_duration if lease else 0.0,
        grace=grace,
        log_level=log_level,
        addresses=AddressRules(networks),
        source_addresses=AddressRules(allowed_sources, denied_sources),
        source_cache=source_cache,
        fetch_workers=fetch_workers,
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

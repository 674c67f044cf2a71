"""Where the parts are put together for one call: access, transport, store, run, printer."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from applyprune.cluster.api_server import ApiServer
from applyprune.cluster.discovery import cache_folder
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.kubeconfig import connect
from applyprune.cluster.transport import Transport
from applyprune.engine.run import Request, run
from applyprune.engine.workers import Stop
from applyprune.model.events import Finished
from applyprune.output.text import TextPrinter
from applyprune.planning.tracking import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from applyprune.cli.options import Where
    from applyprune.model.manifests import Manifest
    from applyprune.model.options import Options


@contextmanager
def transport_to(where: Where) -> Iterator[tuple[Transport, str, str]]:
    """Yield a transport, the server's URL, and the namespace that ``-n`` or the context names."""
    access = connect(kubeconfig=where.kubeconfig, context=where.context, environ=os.environ)
    transport = Transport(access)
    try:
        yield transport, access.server, where.namespace or access.namespace
    finally:
        transport.close()


def carry_out(where: Where, name: str, manifests: Sequence[Manifest], options: Options) -> int:
    """Run once, print its events, and return the exit code."""
    with transport_to(where) as (transport, server, namespace), stopping() as stop:
        target = identity(name, namespace)
        printer = TextPrinter(
            out=click.echo,
            err=lambda line: click.echo(line, err=True),
            colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
            talks=sys.stderr.isatty(),
        )
        code = 0
        for event in run(
            Request(target, manifests, namespace, options),
            ApiServer(transport, server, cache=cache_folder()),
            ConfigMapStore(transport, target),
            stop,
        ):
            printer.show(event)
            if isinstance(event, Finished):
                code = event.exit_code
        return code


@contextmanager
def stopping() -> Iterator[Stop]:
    """Yield a stop that the first SIGINT or SIGTERM requests; the second one exits at once."""
    stop = Stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        if stop.requested:
            os._exit(128 + number)
        stop.request(number)

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(where: Where, name: str) -> str:
    """Return the question that stands before the deletion of a whole set."""
    with transport_to(where) as (transport, server, namespace):
        inventory = ConfigMapStore(transport, identity(name, namespace)).read()
    return (
        f"Delete the {len(inventory.entries)} objects of the set {name} "
        f"(namespace {namespace}, server {server})?"
    )

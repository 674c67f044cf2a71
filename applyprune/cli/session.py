"""One call of the command line on the API: the cluster it is about, signals, a question.

The question that stands before what cannot be taken back.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from applyprune.api.apply_set import ApplySet
from applyprune.api.cluster_connection import ClusterConnection, connect
from applyprune.api.manifests import load
from applyprune.engine.cancellation import Cancellation
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.display import visible
from applyprune.model.events import WarningRaised

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from types import FrameType

    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem
    from applyprune.sources import Input, Overlay


class InputReader(Protocol):
    """What reads a verb's input; it tells what should be known of it."""

    def __call__(self, *, warn: Callable[[Problem], None]) -> Input:
        """Raise InputError for what cannot be read."""


def connection_to(where: ClusterTarget) -> ClusterConnection:
    """Return a connection to the cluster; raises UsageError if its context is not the expected."""
    cluster = connect(
        where.context,
        kubeconfig=where.kubeconfig,
        namespace=where.namespace,
        trace=where.listener.trace if where.listener else None,
    )
    if where.expected not in {"", cluster.context}:
        raise UsageError(
            f"the context in use is {cluster.context or 'none'}, and the configuration is for "
            f"{where.expected}",
            hint=f"Give --context {where.expected}, or name another one if that is meant.",
        )
    return cluster


@dataclass(frozen=True, slots=True)
class Session:
    """What one call works with: its cluster, and the stop that a signal requests."""

    cluster: ClusterConnection
    stop: Cancellation

    def applyset(self, name: str, namespace: str = "") -> ApplySet:
        """Return a set of the cluster, by default in the namespace of ``-n`` or the context."""
        return ApplySet(name, namespace, cluster=self.cluster)


@contextmanager
def open_session(where: ClusterTarget) -> Iterator[Session]:
    """Yield what a run needs; SIGINT and SIGTERM ask it to stop meanwhile."""
    with connection_to(where) as cluster, stopping(where) as stop:
        yield Session(cluster, stop)


def input_reader(paths: Sequence[str | Overlay]) -> InputReader:
    """Return what reads these paths, ``-`` from standard input."""
    return partial(load, *paths)


def read_input(read: InputReader) -> Generator[Event, None, Input]:
    """Read the input, and yield what there is to be said of it."""
    warnings: list[Problem] = []
    try:
        given = read(warn=warnings.append)
    except ApplypruneError:
        yield from map(WarningRaised, warnings)
        raise
    yield from map(WarningRaised, warnings)
    return given


def no_input(*, warn: Callable[[Problem], None]) -> Input:
    """Return the input of a verb that reads none."""
    from applyprune.sources import Input

    del warn
    return Input()


def run_set(
    where: ClusterTarget, name: str, read: InputReader, options: Options
) -> Iterator[Event]:
    """Read the input, run once, and yield what happens."""
    given = yield from read_input(read)
    with open_session(where) as work:
        yield from work.applyset(name).iter_run(given, options, cancellation=work.stop)


@contextmanager
def stopping(where: ClusterTarget) -> Iterator[Cancellation]:
    """Yield a stop that the first SIGINT or SIGTERM requests; the second one exits at once."""
    stop = Cancellation()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        if where.listener is not None:
            where.listener.stopping(at_once=stop.requested)
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


def describe(where: ClusterTarget, name: str) -> str:
    """Return the question that stands before the deletion of a whole set."""
    with connection_to(where) as cluster:
        inventory = ApplySet(name, cluster=cluster).inventory()
    count = len(inventory.entries)
    place = f"(namespace {cluster.namespace}, server {cluster.server})"
    if not count:
        return f"Delete the set {name}, which lists no object {place}?"
    objects = "one object" if count == 1 else f"{count} objects"
    return f"Delete the {objects} of the set {name} {place}?"


def ask(doing: str, question: Callable[[], str]) -> None:
    """Return when the user says yes on the terminal; the question goes to standard error.

    Raises UsageError where there is no terminal to ask on, and click.Abort for a no.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"{doing} needs a yes",
            reason="there is no terminal to ask on",
            hint="Add --yes, or look first with --dry-run.",
        )
    click.confirm(visible(question()), abort=True, err=True)

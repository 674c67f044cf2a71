"""Where the parts are put together for one call: access, transport, store, run, printer.

Problems get their place in the input, in the one spot that every event and error passes.

The question that stands before what cannot be taken back.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from applyprune.cluster.auth.kubeconfig import connect
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.discovery import cache_folder
from applyprune.cluster.inventory.store import ConfigMapStore
from applyprune.cluster.transport.transport import Transport
from applyprune.engine.cancellation import Cancellation
from applyprune.engine.run import RunRequest, run
from applyprune.errors import ApplypruneError, InputErrors, UsageError, as_problem
from applyprune.model.display import visible
from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectDone,
    Planned,
    PruneBlocked,
    ReadinessReported,
    WarningRaised,
)
from applyprune.planning.applyset import applyset_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from types import FrameType

    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.sources import Input, Overlay


class InputReader(Protocol):
    """What reads a verb's input; it tells what should be known of it."""

    def __call__(self, *, warn: Callable[[Problem], None]) -> Input:
        """Raise InputError for what cannot be read."""


@contextmanager
def transport_to(where: ClusterTarget) -> Iterator[tuple[Transport, str, str]]:
    """Yield a transport, the server's URL, and the namespace that ``-n`` or the context names."""
    access = connect(kubeconfig=where.kubeconfig, context=where.context, environ=os.environ)
    if where.expected not in {"", access.context}:
        raise UsageError(
            f"the context in use is {access.context or 'none'}, and the configuration is for "
            f"{where.expected}",
            hint=f"Give --context {where.expected}, or name another one if that is meant.",
        )
    transport = Transport(access, trace=where.listener.trace if where.listener else None)
    try:
        yield transport, access.server, where.namespace or access.namespace
    finally:
        transport.close()


@dataclass(frozen=True, slots=True)
class Session:
    """One call's connection; ``namespace`` is the one that ``-n`` or the context names."""

    transport: Transport
    cluster: KubernetesClient
    namespace: str
    stop: Cancellation

    def store(self, target: ApplySetIdentity) -> ConfigMapStore:
        """Return the store of one set's inventory."""
        return ConfigMapStore(self.cluster, target)


@contextmanager
def open_session(where: ClusterTarget) -> Iterator[Session]:
    """Yield what a run needs; SIGINT and SIGTERM ask it to stop meanwhile."""
    with transport_to(where) as (transport, server, namespace), stopping(where) as stop:
        cluster = KubernetesClient(transport, server, cache=cache_folder())
        yield Session(transport, cluster, namespace, stop)


def input_reader(paths: Sequence[str | Overlay]) -> InputReader:
    """Return what reads these paths, ``-`` from standard input."""
    from applyprune.sources import read

    # A process may have been started without it.
    return partial(read, paths, stdin=getattr(sys.stdin, "buffer", None))


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
    """Read the input, run once, and yield what happens; what is about the input points into it."""
    given = yield from read_input(read)
    with open_session(where) as work:
        target = applyset_identity(name, work.namespace)
        request = RunRequest(target, given, work.namespace, options, empty_inputs=given.empty)
        yield from with_excerpt(run(request, work.cluster, work.store(target), work.stop), given)


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
    with transport_to(where) as (transport, server, namespace):
        client = KubernetesClient(transport, server)
        inventory = ConfigMapStore(client, applyset_identity(name, namespace)).read()
    count, place = len(inventory.entries), f"(namespace {namespace}, server {server})"
    if not count:
        return f"Delete the set {name}, which lists no object {place}?"
    objects = "one object" if count == 1 else f"{count} objects"
    return f"Delete the {objects} of the set {name} {place}?"


def with_excerpt(events: Iterable[Event], given: Input) -> Iterator[Event]:
    """Yield the events, and raise the error that ends them, with line, column and excerpt."""
    try:
        for event in events:
            yield _event(event, given)
    except InputErrors as several:
        for error in several.errors:
            _place(error, given)
        raise
    except ApplypruneError as error:
        _place(error, given)
        raise


def _event(event: Event, given: Input) -> Event:
    if isinstance(event, Planned):
        return replace(event, plan=_plan(event.plan, given))
    match event:
        case (
            ObjectDone()
            | ReadinessReported()
            | WarningRaised()
            | PruneBlocked()
            | ErrorRaised()
            | Finished()
        ):
            if event.problem is not None:
                return replace(event, problem=given.pointed(event.problem))
        case _:
            pass
    return event


def _plan(plan: Plan, given: Input) -> Plan:
    if all(step.problem is None for step in plan.applies):
        return plan
    applies = tuple(
        step if step.problem is None else replace(step, problem=given.pointed(step.problem))
        for step in plan.applies
    )
    return replace(plan, applies=applies)


def _place(error: ApplypruneError, given: Input) -> None:
    told = given.pointed(as_problem(error))
    error.location, error.origin, error.excerpt = told.location, told.origin, told.excerpt


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

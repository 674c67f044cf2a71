"""One call of the command line on the API: the connection, the run, and signals."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from applyprune.api.sets import ApplySet, ClusterConnection, connect, load, with_retries
from applyprune.cli.advice import add_advice, warning_of_new_set, with_rights
from applyprune.cli.config import no_input_given
from applyprune.cli.target import note_connected
from applyprune.cluster.access import cluster_access
from applyprune.engine.ports import Cancellation
from applyprune.errors import AccessError, ApplypruneError, UsageError
from applyprune.model.events import Planned, WarningRaised
from applyprune.model.options import DryRun
from applyprune.model.text import is_dns_label
from applyprune.system.processes import STOP_SIGNALS
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from types import FrameType

    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.inventory import Inventory
    from applyprune.model.options import Options
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.approval import PlanFile
    from applyprune.sources import Input, Overlay


class InputReader(Protocol):
    """Reads a verb's input, and warns about it."""

    def __call__(self, *, warn: Callable[[Problem], None]) -> Input:
        """Return the input; raise InputError if it cannot be read."""


class RunWatcher(Protocol):
    """Follows the events of a run, and may stop it before it writes."""

    @property
    def can_ask(self) -> bool:
        """Return whether it shows the plan to somebody who can answer."""

    def watch(
        self,
        events: Iterator[Event],
        session: Session,
        options: Options,
        diff: Callable[[], Iterator[Event]],
    ) -> Iterator[Event]:
        """Pass the events on; raise ApplypruneError to stop the run.

        ``diff`` begins a dry run of the same input that compares what it would change.
        """


def run_set(
    cluster_target: ClusterTarget,
    name: str,
    read: InputReader,
    options: Options,
    watcher: RunWatcher | None = None,
    *,
    plan: PlanFile | None = None,
    is_named: bool = True,
    notes: Callable[[Plan], Iterator[Problem]] | None = None,
) -> Iterator[Event]:
    """Read the input, run once, and yield the events; ``watcher`` may stop the run.

    ``notes`` are warnings about a plan, which come before it.

    ``plan`` is what the run is bound to; None for no plan. ``is_named`` says that somebody has
    named the set, and may have mistyped it.
    """
    given = yield from read_input(read)
    with open_session(cluster_target) as session:
        applyset = session.applyset(name)
        events = applyset.iter_run(given, options, plan=plan, cancellation=session.stop)
        if notes is not None:
            events = _noted(events, notes)

        def diff() -> Iterator[Event]:
            compared = replace(
                options, dry_run=DryRun.SERVER, check=True, diff=replace(options.diff, enabled=True)
            )
            return applyset.iter_run(given, compared, plan=plan, cancellation=session.stop)

        if is_named and not (watcher is not None and watcher.can_ask):
            events = warning_of_new_set(events, applyset.identity, session.cluster)
        watched = events if watcher is None else watcher.watch(events, session, options, diff)
        yield from with_rights(watched, applyset.identity, given)


def _noted(events: Iterator[Event], notes: Callable[[Plan], Iterator[Problem]]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, Planned):
            yield from map(WarningRaised, notes(event.plan))
        yield event


class InputPaths(Struct, frozen=True):
    """What the command line names as input."""

    paths: tuple[str | Overlay, ...]
    ignore: tuple[str, ...] = ()
    """Which files of it are left out: lines as in ``.sourceignore``."""
    at: str = ""
    """The revision of Git whose files are read; empty for those of the work tree."""

    @property
    def recorded(self) -> Mapping[str, tuple[str, ...]]:
        """Return what a plan file says of the input; empty if not all of it is local files."""
        from applyprune.sources.kustomize import Overlay
        from applyprune.sources.tree import is_url, shown_path

        kustomizations = tuple(one.folder for one in self.paths if isinstance(one, Overlay))
        files = tuple(one for one in self.paths if isinstance(one, str))
        named = (*files, *kustomizations)
        if any(path == "-" or is_url(path) or path != shown_path(path) for path in named):
            return {}
        found = {
            "filename": files,
            "kustomize": kustomizations,
            "ignore-paths": self.ignore,
            "at": (self.at,) if self.at else (),
        }
        return {option: paths for option, paths in found.items() if paths}

    def or_of(self, plan: PlanFile) -> InputPaths:
        """Return these paths; if there are none, those that the plan file names."""
        if self.paths:
            return self
        from applyprune.sources.kustomize import Overlay

        found = plan.input
        at = self.at or next(iter(found.get("at", ())), "")
        named = (*found.get("filename", ()), *found.get("kustomize", ()))
        for path in () if at else named:
            if not (os.path.lexists(path) or set(path) & set("*?")):
                raise UsageError(
                    f"{path} does not exist here, and the plan was made from it",
                    hint="Run this in the folder in which the plan was made, or name the input "
                    "with -f or -k.",
                )
        overlays = [Overlay(folder) for folder in found.get("kustomize", ())]
        paths: tuple[str | Overlay, ...] = (*found.get("filename", ()), *overlays)
        return InputPaths(paths, self.ignore or found.get("ignore-paths", ()), at)


def input_reader(paths: InputPaths) -> InputReader:
    """Return a reader of these paths; ``-`` is standard input. Raise UsageError without any."""
    if not paths.paths:
        raise no_input_given()
    return partial(load, *paths.paths, ignore_paths=paths.ignore, at=paths.at)


def read_input(read: InputReader) -> Generator[Event, None, Input]:
    """Read the input, and yield its warnings."""
    warnings: list[Problem] = []
    try:
        given = read(warn=warnings.append)
    except ApplypruneError:
        yield from map(WarningRaised, warnings)
        raise
    yield from map(WarningRaised, warnings)
    return given


def no_input(*, warn: Callable[[Problem], None]) -> Input:
    """Return an empty input, for a verb that reads none."""
    from applyprune.sources import Input

    del warn
    return Input()


@contextmanager
def open_session(cluster_target: ClusterTarget) -> Iterator[Session]:
    """Yield what a run needs; meanwhile a signal to stop requests its cancellation.

    An error about the only set of the session gets advice.
    """
    with connection_to(cluster_target) as cluster, cancel_on_signals(cluster_target) as stop:
        session = Session(cluster, stop)
        try:
            yield session
        except ApplypruneError as error:
            named = set(session.named)
            if len(named) == 1:
                add_advice(error, named.pop(), cluster)
            raise


class Session(Struct, frozen=True):
    """The connection of one call, and the cancellation that a signal requests."""

    cluster: ClusterConnection
    stop: Cancellation
    named: list[ApplySetIdentity] = field(default_factory=list)
    """The sets that the call is about."""

    def applyset(self, name: str, namespace: str = "") -> ApplySet:
        """Return a set of the cluster, by default in the namespace of ``-n`` or the context."""
        applyset = ApplySet(name, namespace, cluster=self.cluster)
        self.named.append(applyset.identity)
        return applyset

    def existing_inventory(self, name: str) -> Inventory:
        """Return the inventory of a set; raise UsageError if there is none."""
        from applyprune.planning.refusals import no_such_set

        applyset = self.applyset(name)
        found = applyset.inventory()
        if not found.exists:
            raise no_such_set(applyset.identity)
        return found

    def reported(self, events: Iterator[Event]) -> Iterator[Event]:
        """Yield the events, and in between what does not answer."""

        return with_retries(events, self.cluster.unanswered, self.stop)


NAMESPACE, CONTEXT = "APPLYPRUNE_NAMESPACE", "APPLYPRUNE_CONTEXT"
"""The environment's values for ``-n`` and ``--context``, where neither the command line nor
``applyprune.yaml`` gives one."""


def namespace_of(cluster_target: ClusterTarget) -> Callable[[str], str]:
    """Return what says the namespace of sets for which no file gives one, by the context."""

    def found(context: str) -> str:
        environ = os.environ
        return environ.get(NAMESPACE, "") or (
            cluster_access(
                kubeconfig=cluster_target.kubeconfig,
                context=context or environ.get(CONTEXT, ""),
                environ=environ,
            ).namespace
        )

    return found


def connection_to(cluster_target: ClusterTarget) -> ClusterConnection:
    """Return a connection to the cluster; raise UsageError if it is not the expected context."""
    note_connected()
    context = cluster_target.context or os.environ.get(CONTEXT, "")
    namespace = cluster_target.namespace or os.environ.get(NAMESPACE, "")
    if not cluster_target.namespace and namespace and not is_dns_label(namespace):
        raise UsageError(f"{NAMESPACE}: {namespace!r} is not a valid namespace name")
    try:
        cluster = connect(
            context,
            kubeconfig=cluster_target.kubeconfig,
            namespace=namespace,
            trace=cluster_target.listener.trace if cluster_target.listener else None,
        )
        _refuse_other_context(cluster_target, cluster)
    except (AccessError, UsageError) as error:
        if context != cluster_target.context and context in str(error):
            hint = f"{error.hint} {CONTEXT} is {context}.".strip()
            error.problem = replace(error.problem, hint=hint)
        raise
    return cluster


def _refuse_other_context(cluster_target: ClusterTarget, cluster: ClusterConnection) -> None:
    for one in cluster_target.conditions:
        if one.context != cluster.context:  # guard: other-context never
            raise UsageError(
                f"the context in use is {cluster.context or 'none'}, and {one.place} is for "
                f"{one.context}",
                hint=f"Give --context {one.context}, or another context on purpose.",
            )


@contextmanager
def cancel_on_signals(cluster_target: ClusterTarget) -> Iterator[Cancellation]:
    """Yield a cancellation: the first signal to stop requests it, the second exits at once."""
    note_connected()
    stop = Cancellation()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        again = stop.requested
        # First the request: the display's thread may print while this one waits for its turn,
        # and nothing new may start after it has said that the run ends.
        stop.request(number)
        if cluster_target.listener is not None:
            cluster_target.listener.stopping(at_once=again)
        if again:
            os._exit(128 + number)

    before = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Read from the logs of the controller's Pods what is about one Bundle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from applyprune.engine.context import WorkerPool
from applyprune.errors import ApplypruneError, Forbidden, NotFound, UsageError, as_problem
from applyprune.model.events import Event, Finished, WarningRaised
from applyprune.model.reports.bundle import LogLine
from applyprune.model.resources import PODS
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster
    from applyprune.model.identity import Ref

SELECTOR = "app.kubernetes.io/name=applyprune,app.kubernetes.io/component=controller"
"""The labels of the controller's Pods."""
CONTAINER = "controller"
_TURN = 0.5
_PODS_AGAIN = 5.0
"""Seconds between two looks for new Pods."""
_OPEN_AGAIN = 1.0
_OVERLAP = 5
_EARLY = 30.0
_OWN = ("time", "level", "message")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The Bundle that a line must be about."""

    namespace: str
    bundle: str
    applyset: str
    """The name of its set: the lines about objects name the set."""

    def parsed(self, pod: Ref, text: str) -> LogLine | None:
        """Return a line of the log if it is about the Bundle; None for any other line."""
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(line, dict) or not self._is_about(line):
            return None
        others = {key: value for key, value in line.items() if key not in _OWN}
        at, level, message = (str(line.get(key, "")) for key in _OWN)
        return LogLine(pod, at, level, message, others)

    def _is_about(self, line: Mapping[str, Any]) -> bool:
        if line.get("set") == f"{self.namespace}/{self.applyset}":
            return True
        return (line.get("namespace"), line.get("bundle")) == (self.namespace, self.bundle)


def controller_logs(
    cluster: Cluster,
    namespace: str,
    wanted: LogFilter,
    stop: Cancellation,
    *,
    follow: bool = False,
    since: float | None = None,
) -> Iterator[Event]:
    """Yield the lines about a Bundle, of all Pods of the controller in ``namespace``, by time.

    ``since`` limits them to the last seconds. With ``follow``, yield each new one as it comes, also
    of new Pods, until ``stop``. A Pod whose log cannot be read is a warning, unless it is the only
    one. Raises UsageError if there is no Pod.
    """
    pods = controller_pods(cluster, namespace)
    if not pods:
        raise UsageError(
            f"no controller runs in the namespace {namespace}",
            reason=f"no Pod there has the labels {SELECTOR}",
            hint="Name the controller's namespace with --controller-namespace.",
        )
    recent = None if since is None else max(1, math.ceil(since))
    if follow:
        yield from _Follower(cluster, namespace, wanted, stop).events(pods, recent)
        return
    lines: list[LogLine] = []
    errors: list[ApplypruneError] = []
    with WorkerPool(len(pods), stop) as workers:
        for found in workers.each(lambda pod: _read(cluster, pod, wanted, recent, stop), pods):
            if isinstance(found, ApplypruneError):
                errors.append(found)
            else:
                lines += found
    if len(errors) == len(pods):
        raise errors[0]
    yield from (WarningRaised(as_problem(error)) for error in errors)
    yield from sorted(lines, key=lambda line: line.time)


def controller_pods(cluster: Cluster, namespace: str) -> Sequence[Ref]:
    """Return the Pods of the controller; raise Forbidden, with the rights that are missing."""
    try:
        return [live.ref for live in cluster.list(PODS, namespace=namespace, selector=SELECTOR)]
    except Forbidden as error:
        raise _explained(error, namespace) from None


def _read(
    cluster: Cluster, pod: Ref, wanted: LogFilter, since: int | None, stop: Cancellation
) -> list[LogLine] | ApplypruneError:
    lines = cluster.log_lines(
        pod, CONTAINER, follow=False, since=since, stop=lambda: stop.requested
    )
    try:
        return [line for text in lines if (line := wanted.parsed(pod, text)) is not None]
    except Forbidden as error:
        return _explained(error, pod.namespace)
    except ApplypruneError as error:
        return error


def _explained(error: Forbidden, namespace: str) -> Forbidden:
    """Return the error with the rights that the logs need."""
    error.hint = (
        f"The log is that of the controller's Pods: this needs the rights list on pods and get on "
        f"pods/log in the namespace {namespace}."
    )
    return error


@dataclass(slots=True)
class _Follower:
    """Follows each Pod on a thread of its own."""

    cluster: Cluster
    namespace: str
    wanted: LogFilter
    stop: Cancellation
    queue: SimpleQueue[LogLine | ApplypruneError] = field(default_factory=SimpleQueue)
    followed: set[Ref] = field(default_factory=set)

    def events(self, pods: Sequence[Ref], since: int | None) -> Iterator[Event]:
        self._open(pods, since)
        began = looked = self.stop.now()
        while not self.stop.requested:
            yield from self._arrived()
            if self.stop.now() - looked > _PODS_AGAIN:
                looked = self.stop.now()
                # All of a new Pod's log is new.
                self._open(controller_pods(self.cluster, self.namespace), None)
        yield Finished({}, self.stop.exit_code, self.stop.now() - began)

    def _arrived(self) -> Iterator[Event]:
        try:
            found = self.queue.get(timeout=_TURN)
            while True:
                if isinstance(found, Forbidden):
                    raise found
                if isinstance(found, ApplypruneError):
                    yield WarningRaised(as_problem(found))
                else:
                    yield found
                found = self.queue.get_nowait()
        except Empty:
            return

    def _open(self, pods: Sequence[Ref], since: int | None) -> None:
        for pod in pods:
            if pod not in self.followed:
                self.followed.add(pod)
                thread = Thread(target=self._follow, args=(pod, since), daemon=True)
                thread.start()

    def _follow(self, pod: Ref, since: int | None) -> None:
        """Read a log again where it ended: its container restarts, a connection dies."""
        printed = _Printed()
        failure = ""
        while not self.stop.requested:
            opened = heard = self.stop.now()
            try:
                for text in self._lines(pod, since):
                    heard = self.stop.now()
                    line = self.wanted.parsed(pod, text)
                    if line is not None and printed.is_new(line.time, text):
                        self.queue.put(line)
                failure = ""
            except NotFound:
                return
            except Forbidden as error:
                self.queue.put(_explained(error, pod.namespace))
                return
            except ApplypruneError as error:
                # After a minute without a line a connection is given up, which says nothing.
                is_early = self.stop.now() - opened < _EARLY
                if is_early and error.message != failure:
                    self.queue.put(error)
                failure = error.message
            self.stop.wait(_OPEN_AGAIN)
            since = math.ceil(self.stop.now() - heard) + _OVERLAP

    def _lines(self, pod: Ref, since: int | None) -> Iterator[str]:
        return self.cluster.log_lines(
            pod, CONTAINER, follow=True, since=since, stop=lambda: self.stop.requested
        )


@dataclass(slots=True)
class _Printed:
    """What was printed of one log, of which the end may be read twice."""

    last: str = ""
    texts: set[str] = field(default_factory=set)
    """The lines of the time ``last``."""

    def is_new(self, at: str, text: str) -> bool:
        """Take a line; return whether it was not printed before."""
        if at < self.last or text in self.texts:
            return False
        self.texts = {text, *(self.texts if at == self.last else ())}
        self.last = at
        return True

"""Wait until the controller has reconciled a Bundle and the Bundle is ready."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.engine.informer import Change, Informer, Listed, Upserted, WatchScope
from applyprune.errors import ApplypruneError, Forbidden, NotFound, RunFailed, as_problem
from applyprune.model.events import (
    Event,
    Finished,
    ObjectDone,
    ObjectStuck,
    Outcome,
    ReadinessReported,
    Waiting,
)
from applyprune.model.readiness_state import Readiness, Status, in_progress
from applyprune.model.reports.bundle import BundleStatus
from applyprune.model.resources import BUNDLES
from applyprune.planning.readiness.bundle import bundle_readiness, bundle_status, not_ready
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject

_TURN = 1.0


@dataclass(frozen=True, slots=True)
class BundleWait:
    """What to wait for, and how long."""

    ref: Ref
    """The Bundle."""
    requested: str
    """The value of the annotation reconcile-now that the controller must have handled."""
    timeout: float
    """Seconds."""
    fail_fast: bool = False
    """Whether to end at the first failure, although the controller retries."""


def until_ready(wait: BundleWait, cluster: Cluster, stop: Cancellation) -> Iterator[Event]:
    """Yield what a Bundle waits for until it is ready, cannot become ready, or the time is over.

    Raises Forbidden if the Bundle may not be read.
    """
    began = stop.now()
    readiness = in_progress("it has not been read yet")
    status = BundleStatus(wait.ref.name, wait.ref.namespace)
    told = ""
    counts = {Outcome.CONFIGURED: 1}
    with closing(Informer(cluster, clock=stop.clock)) as informer:  # guard: clock-of-bundle
        informer.open(WatchScope(BUNDLES, wait.ref.namespace, name=wait.ref.name))
        while True:
            for change in informer.changes(_TURN):
                known, live = _live(change, wait.ref, cluster)
                if known and live is None:
                    error = RunFailed(f"{wait.ref} is gone")
                    yield _failed(error, stop.now() - began)
                    return
                if live is not None:
                    status = bundle_status(live, datetime.now(UTC))
                    readiness = bundle_readiness(status, wait.requested)
            elapsed = stop.now() - began
            if stop.requested:
                yield Finished(counts, stop.exit_code, elapsed)
                return
            if readiness.status is Status.CURRENT:
                yield ReadinessReported(wait.ref, readiness, elapsed)
                yield Finished(counts, 0, elapsed)
                return
            if _is_over(wait, readiness, elapsed):
                within = wait.timeout if elapsed > wait.timeout else None
                yield _failed(not_ready(status, readiness, within=within), elapsed)
                return
            if readiness.stuck and readiness.message != told:
                told = readiness.message
                yield ObjectStuck(wait.ref, readiness, elapsed)
            yield Waiting(wait.ref, "ready", elapsed, wait.timeout, readiness.message)


def requested_event(ref: Ref) -> ObjectDone:
    """Return the event about a Bundle whose reconcile was requested."""
    return ObjectDone(ref, Outcome.CONFIGURED, reason="a reconcile was requested")


def _is_over(wait: BundleWait, readiness: Readiness, elapsed: float) -> bool:
    ended = readiness.status in {Status.FAILED, Status.TERMINATING}
    return ended or (wait.fail_fast and readiness.stuck) or elapsed > wait.timeout


def _failed(error: ApplypruneError, elapsed: float) -> Finished:
    return Finished({Outcome.CONFIGURED: 1}, error.exit_code, elapsed, as_problem(error))


def _live(change: Change, ref: Ref, cluster: Cluster) -> tuple[bool, LiveObject | None]:
    """Return whether a change says what the Bundle is now, and the Bundle; None if it is gone."""
    if isinstance(change, Upserted):
        return change.ref == ref, change.live
    if isinstance(change, Listed):
        return True, change.objects.get(ref)
    if not isinstance(change.error, Forbidden):
        return False, None
    # Without the right to list or watch, ask for the object itself.
    try:
        return True, cluster.get(BUNDLES, ref, full=True)
    except NotFound:
        return True, None

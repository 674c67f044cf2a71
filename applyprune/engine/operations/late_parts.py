"""Run a set in two parts if some kinds are served only after the first part is applied.

An operator may install its CRDs when it runs. The first part applies what need not wait, and
records nothing about the other objects: their scope, and so their identity, is not known. It judges
the prune by the whole input, and writes nothing if that is refused. The second part plans and
checks everything. Neither part prunes: the next run does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from applyprune.engine.context import RunSummary
from applyprune.engine.inventory_lock import inventory_lock
from applyprune.errors import ApplypruneError, NotReady
from applyprune.model.events import Event, Finished, Started, WarningRaised
from applyprune.model.options import DryRun, Mode
from applyprune.planning.desired import PRUNES_LATER, LateObject, held_back, not_planned, not_served
from applyprune.planning.plan import waiting
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.plan_stage import RunRequest
    from applyprune.engine.ports import Cluster, Store

    Part = Callable[[RunRequest, RunSummary], Generator[Event, None, None]]

_PAUSE = 0.5
_SAY_AFTER = 2.0


def in_parts(
    whole: RunRequest, cluster: Cluster, store: Store, cancellation: Cancellation, part: Part
) -> Iterator[Event]:
    """Yield the events of a run by ``part``, in two parts if its options ask for that."""
    options = whole.options
    summary = RunSummary(cluster.run, clock=cancellation.clock)  # guard: summary-clock
    seconds = options.wait.kinds
    if not seconds or options.mode is not Mode.APPLY or whole.plan_file is not None:
        yield from part(whole, summary)
        return
    first = replace(whole, allows_late=True)  # guard: prune-judged-first
    # An end of this generator must end the part too: it holds the lock.
    with closing(part(first, summary)) as events:
        # Without late objects, it is the whole run.
        yield from (one for one in events if not (summary.late and isinstance(one, Finished)))
    if not summary.late:
        return
    late, after = summary.late, summary.after_late
    if options.dry_run is not DryRun.OFF:
        yield WarningRaised(not_planned(late))
        yield summary.finished()
        return
    if summary.held:
        yield summary.finished()
        return
    if summary.problems:
        reason = "its kind, or that of an earlier object, is not served yet; something else failed"
        yield from summary.counted(held_back(late, after, reason))
        yield summary.finished()
        return
    waiter = _KindWaiter(cluster, cancellation, seconds, late)
    try:
        yield from waiter.events()
    except ApplypruneError as error:
        yield from _record_end(whole, store, cancellation, summary, error.exit_code)
        raise
    if waiter.pending:
        others = [one for one in late if one not in waiter.pending]
        yield from summary.counted(not_served(waiter.pending, seconds, waiter.error))
        reason = f"the kind {waiter.pending[0].gvk} is not served"
        if waiter.error is not None:
            reason = f"the served kinds could not be read: {waiter.error.message}"
        yield from summary.counted(held_back(others, after, reason, NotReady))
        yield from _record_end(whole, store, cancellation, summary, summary.exit_code)
        yield summary.finished()
        return
    summary.begin_part()
    # The writes of the first part would hide a wrong input from the guards.
    kept = replace(options, prune=replace(options.prune, enabled=False))
    keeps = PRUNES_LATER if options.prune.enabled else ""
    second = replace(whole, options=kept, keeps=keeps)  # guard: second-part-removes-nothing
    with closing(part(second, summary)) as events:
        yield from (event for event in events if not isinstance(event, Started))


def _record_end(
    whole: RunRequest,
    store: Store,
    cancellation: Cancellation,
    summary: RunSummary,
    exit_code: int,
) -> Iterator[Event]:
    """Record how a run has ended whose second part never begins; it is only for information."""
    options = whole.options
    lock = inventory_lock(
        store, options, cancellation, run=summary.run, mode=options.mode, who=whole.who
    )
    with suppress(ApplypruneError), lock as held:
        yield from held.record_end(exit_code, summary.changes)


@dataclass(slots=True)
class _KindWaiter:
    cluster: Cluster
    cancellation: Cancellation
    timeout: float
    pending: Sequence[LateObject]
    """The objects whose kinds are not served."""
    error: ApplypruneError | None = None
    """Why the last read of the served kinds has failed; None if it has not."""

    def events(self) -> Iterator[Event]:
        """Yield what is waited for; return when all kinds are served, or at the timeout."""
        began, reported = self.cancellation.now(), 0.0
        while True:
            self.pending = self._unserved()
            elapsed = self.cancellation.now() - began
            if not self.pending or elapsed > self.timeout:
                return
            if elapsed - reported > _SAY_AFTER:
                reported = elapsed
                reasons = {one.ref: f"no server has its kind {one.gvk} yet" for one in self.pending}
                yield waiting(reasons, "served", elapsed, self.timeout)
            self.cancellation.wait(_PAUSE)
            self.cancellation.check()

    def _unserved(self) -> Sequence[LateObject]:
        try:
            resource_map = self.cluster.resource_map()
            served = {
                gvk
                for gvk in {one.gvk for one in self.pending}
                if (resource := resource_map.find(gvk)) is not None
                and self.cluster.serves(resource)
            }
        except ApplypruneError as error:
            self.error = error
            return self.pending  # it may answer before the timeout
        self.error = None
        return [one for one in self.pending if one.gvk not in served]

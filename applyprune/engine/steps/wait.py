"""Wait until objects are ready; end early if one of them can never become ready.

The wait uses watches. If an object is not ready soon, its namespace's Pods and recent warning
events are watched too, to find out why. What can pass is reported, and waited for.
"""

from __future__ import annotations

import math
from math import inf
from typing import TYPE_CHECKING

from applyprune.engine.informer import (
    Informer,
    Upserted,
    WatchFailed,
    WatchScope,
    namespace_scopes,
    watch_scopes,
)
from applyprune.engine.steps.related_objects import RelatedObjects
from applyprune.errors import NotReady, as_problem
from applyprune.model.events import (
    Event,
    ObjectStuck,
    Readiness,
    ReadinessReported,
    Status,
    WarningRaised,
)
from applyprune.model.identity import Ref
from applyprune.model.text import and_more
from applyprune.planning.applyset import PART_OF
from applyprune.planning.decide import UNKNOWN_RESULT, is_complete
from applyprune.planning.plan import waiting
from applyprune.planning.readiness import (
    Awaited,
    assess,
    explained,
    for_wait,
    ready_with_warning,
    warnings_about,
)
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.informer import Change
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity

_TURN = 0.5
_WATCH_RELATED_AFTER = 2.0
_SAY_EVERY = 1.0
_SHOWN = 5


@dataclass(slots=True)
class ReadinessWaiter:
    """Waits for a number of objects."""

    cluster: Cluster
    cancellation: Cancellation
    applyset: ApplySetIdentity
    timeout: float
    """Seconds."""
    turn: float = inf
    """The seconds of the wait that this run may spend."""
    fail_fast: bool = False
    """Whether an object that is stuck counts as failed."""
    patient: bool = False
    """Whether to wait for the other objects after one has failed."""
    problems: dict[Ref, Problem] = field(default_factory=dict)
    """Why an object did not become ready."""
    not_ready: set[Ref] = field(default_factory=set)
    """All objects that are not ready."""
    completed: dict[Ref, str] = field(default_factory=dict)
    """The UIDs of the Jobs with a TTL that were seen to complete."""
    _live: dict[Ref, LiveObject | None] = field(default_factory=dict)
    _uids: dict[Ref, str] = field(default_factory=dict)
    _last: dict[Ref, LiveObject] = field(default_factory=dict)
    _related: RelatedObjects = field(default_factory=RelatedObjects)
    _listed: set[WatchScope] = field(default_factory=set)
    _unread: dict[WatchScope, str] = field(default_factory=dict)
    _stuck: dict[Ref, Readiness] = field(default_factory=dict)

    def run(self, objects: Sequence[Awaited]) -> Iterator[Event]:
        """Yield progress; return when all objects are ready, or one cannot become ready."""
        pending = {awaited.ref: awaited for awaited in objects}
        self.not_ready.update(pending)
        if not pending:
            return
        # guard: clock-of-readiness
        informer = Informer(self.cluster, clock=self.cancellation.clock)
        try:
            wanted = [(awaited.resource, awaited.ref) for awaited in objects]
            for source in watch_scopes(wanted, f"{PART_OF}={self.applyset.id}"):
                informer.open(source)
            yield from self._watch(pending, informer)
        finally:
            informer.close()

    def _watch(self, pending: dict[Ref, Awaited], informer: Informer) -> Iterator[Event]:
        began = self.cancellation.now()
        reported_at = 0.0
        while pending:
            for change in informer.changes(_TURN):
                self._update(change)
                for source in namespace_scopes(change, pending):
                    informer.open(source)
            self.cancellation.check()
            elapsed = self.cancellation.now() - began
            states = {ref: self._state(awaited) for ref, awaited in pending.items()}
            yield from self._report(states, pending, elapsed)
            failed = [ref for ref in pending if states[ref].status is Status.FAILED]
            late = [ref for ref in pending if elapsed > self._limit(pending[ref])]
            if ended := failed or late:
                yield from self._report_not_ready(ended, pending, states, elapsed)
                if not self.patient:
                    return
                for ref in ended:
                    del pending[ref]
            if elapsed > min(_WATCH_RELATED_AFTER, self.turn / 2):
                self._watch_related(pending, informer)
            if pending and elapsed - reported_at > _SAY_EVERY:
                reported_at = elapsed
                reasons = {ref: states[ref].message for ref in pending}
                yield waiting(reasons, "ready", elapsed, self.timeout)

    def _report(
        self, states: Mapping[Ref, Readiness], pending: dict[Ref, Awaited], elapsed: float
    ) -> Iterator[Event]:
        """Report what is ready, which ends its wait, and what has got stuck for another reason."""
        for ref, state in states.items():
            if state.status is Status.CURRENT:
                self._note_completed(pending.pop(ref))
                self.not_ready.discard(ref)
                if state.warning:
                    yield WarningRaised(ready_with_warning(ref, state))
                yield ReadinessReported(ref, state, elapsed)
            elif state.stuck:
                last, self._stuck[ref] = self._stuck.get(ref), state
                if last is None or last.fact != state.fact:
                    yield ObjectStuck(ref, state, elapsed)

    def _limit(self, awaited: Awaited) -> float:
        return min(awaited.timeout or self.timeout, self.turn)

    def _note_completed(self, awaited: Awaited) -> None:
        last = self._last.get(awaited.ref)
        if awaited.has_ttl and last is not None and is_complete(last.body or {}):
            self.completed[awaited.ref] = last.uid

    def _watch_related(self, pending: Mapping[Ref, Awaited], informer: Informer) -> None:
        """Watch the Pods, ReplicaSets, claims and events of what is not ready yet."""
        for ref in pending:
            for scope in self._related.scopes(ref, self._live.get(ref)):
                informer.open(scope)

    def _update(self, change: Change) -> None:
        source = change.source
        if not source.selector:
            self._related.update(change)
            return
        if isinstance(change, WatchFailed):
            self._unread[source] = change.error.message
            return
        self._unread.pop(source, None)
        if isinstance(change, Upserted):
            self._live[change.ref] = change.live
            if change.live is not None:
                self._last[change.ref] = change.live
            return
        here = (source.resource.group_kind, source.namespace)
        for ref in list(self._live):
            if (ref.group_kind, source.namespace and ref.namespace) == here:
                self._live[ref] = None
        self._live.update(change.objects)
        self._last.update(change.objects)
        # From now on, an object that is not in the list is known to be gone.
        self._listed.add(source)

    def _state(self, awaited: Awaited, *, waited: float | None = None) -> Readiness:
        """Return the readiness; ``waited`` replaces the time since the apply of this run."""
        live = self._live.get(awaited.ref)
        waited = self.cancellation.now() - awaited.since if waited is None else waited
        if live is None or live.body is None:
            return self._absent(awaited)
        if live.uid != self._uids.setdefault(awaited.ref, live.uid):
            return Readiness(Status.FAILED, "somebody has deleted and re-created it")
        if live.labels.get(PART_OF) != self.applyset.id:
            # The watches of the set's objects no longer include it.
            return Readiness(Status.FAILED, "somebody has removed the set's label")
        state = assess(
            live.body,
            waited=waited,
            has_status=awaited.has_status,
            rule=awaited.rule,
            job_started=awaited.job_started,
        )
        if state.status is Status.IN_PROGRESS:
            related, manager = self._related.of(live), self.applyset.manager
            state = explained(state, live, related, manager=manager, waited=waited)
        return for_wait(state, fail_fast=self.fail_fast)

    def _absent(self, awaited: Awaited) -> Readiness:
        sources = [
            WatchScope(awaited.resource, namespace, f"{PART_OF}={self.applyset.id}")
            for namespace in (awaited.ref.namespace, "")
        ]
        if not any(source in self._listed and source not in self._unread for source in sources):
            unread = [self._unread[source] for source in sources if source in self._unread]
            return Readiness(Status.UNKNOWN, (unread or ["it has not been read yet"])[0])
        if awaited.has_ttl:
            last = self._last.get(awaited.ref)
            state = assess(last.body, rule=awaited.rule) if last and last.body else None
            if state is not None and state.status is Status.FAILED:
                return state  # the TTL removes failed objects too
            seen = bool(last and last.body and is_complete(last.body))
            if not (seen or awaited.completed):  # guard: unknown-result
                return Readiness(Status.FAILED, UNKNOWN_RESULT)
            return Readiness(Status.CURRENT, "it has finished, and its TTL removed it")
        return Readiness(Status.FAILED, "it is gone: somebody has deleted it, or removed its label")

    def _report_not_ready(
        self,
        failed: Sequence[Ref],
        pending: Mapping[Ref, Awaited],
        states: Mapping[Ref, Readiness],
        elapsed: float,
    ) -> Iterator[Event]:
        """Report why each of ``failed`` is not ready, with its last warnings; name the others."""
        others = sorted(set(pending) - set(failed))
        for ref in sorted(failed):
            state, awaited = states[ref], pending[ref]
            message = f"timed out waiting for {ref}"
            if elapsed <= (awaited.timeout or self.timeout):
                message = f"{ref} is not ready yet"
            if state.status is Status.FAILED:
                message = f"{ref} will not become ready"
            hint = f"Not ready yet either: {and_more(others, _SHOWN)}" if others else ""
            reasons = (state.message, *self._more_reasons(ref, state.message))
            error = NotReady(
                message,
                location=awaited.origin,
                reason="; ".join(part for part in reasons if part),
                lasting_reason=self._fact(state, awaited),
                hint=hint,
            )
            self.problems[ref] = as_problem(error)
            yield ReadinessReported(ref, state, elapsed, self.problems[ref])

    def _fact(self, state: Readiness, awaited: Awaited) -> str:
        """Return why an object is not ready, whatever moment the wait ends at.

        A container that crashes runs at times, and is no less stuck. A second, shorter look finds
        the same reason as the first.
        """
        if state.status is not Status.IN_PROGRESS:
            return state.fact
        last = self._state(awaited, waited=math.inf)
        return self._stuck.get(awaited.ref, last if last.stuck else state).fact

    def _more_reasons(self, ref: Ref, message: str) -> Iterator[str]:
        """Yield the last problem and the newest warnings that ``message`` lacks."""
        stuck = self._stuck.get(ref)
        last = stuck.message if stuck is not None else ""
        if last and last != message:
            yield f"before that: {last}"
        live = self._live.get(ref)
        if live is not None:
            yield self._related.not_read(ref, live)
            for warning in warnings_about(live, self._related.of(live)):
                if warning.message not in f"{message}; {last}":
                    yield warning.text

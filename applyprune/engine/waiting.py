"""Wait: until objects are ready, served, there or gone; by watches, and by reads.

If an object is not ready soon, its namespace's Pods and recent warning events are watched too, to
find out why. What can pass is reported, and waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from applyprune.clock import CLOCK, Clock
from applyprune.engine.context import RunContext
from applyprune.engine.ports import Cancellation
from applyprune.errors import (
    ApplypruneError,
    Expired,
    Forbidden,
    InputError,
    NotFound,
    NotReady,
    RunFailed,
    UsageError,
)
from applyprune.model.events import (
    Event,
    ObjectStuck,
    Readiness,
    ReadinessReported,
    Status,
    Waiting,
    WarningRaised,
    current,
    failed,
    in_progress,
)
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.kinds import CRD, JOB, Trait, kinds_with
from applyprune.model.live import (
    CLAIMS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    Absent,
    LiveObject,
    Resource,
    State,
    WatchEventType,
    mapping,
    namespace_ref,
    text,
)
from applyprune.model.plan import OUTSIDE, Desired
from applyprune.model.problem import Problem
from applyprune.model.text import and_more
from applyprune.planning.applyset import PART_OF
from applyprune.planning.cel import compile_rule
from applyprune.planning.decide import UNKNOWN_RESULT
from applyprune.planning.marks import READY_WHEN
from applyprune.planning.object_status import logs_hint
from applyprune.planning.order import is_built_in
from applyprune.planning.plan import waiting
from applyprune.planning.pods import adds_to, controller_of, grace_of, last_failure
from applyprune.planning.readiness import (
    WITH_PODS,
    Applied,
    Awaited,
    Related,
    Wait,
    assess,
    for_wait,
    is_complete,
    masked_readiness,
    mounts_claims,
    outdated_read,
    pods_of,
    warnings_about,
    with_pods_explained,
)
from applyprune.planning.served_kinds import (
    defined_kinds,
    defined_resources,
    has_status,
    refused_names,
)
from applyprune.planning.steady_pods import STEADY, needs_proof, pod_selector, unproved
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from applyprune.engine.context import WorkerPool
    from applyprune.engine.ports import Cluster
    from applyprune.model.options import Options, WaitOptions
    from applyprune.planning.cel import Rule

    Body = Mapping[str, Any]


class Looks(Struct):
    """The looks of one wait: it says now and then what it waits for, and pauses before the next."""

    cancellation: Cancellation
    what: str
    """The state that it waits for."""
    timeout: float
    """Seconds."""
    pauses: Iterator[float] = iter(())
    """The seconds between two looks; none if the look itself waits for something."""
    every: float = 1.0
    """More seconds than this lie between two reports."""
    _began: float = 0.0
    _said: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.cancellation.now()

    @property
    def elapsed(self) -> float:
        """Return the seconds since the wait began."""
        return self.cancellation.now() - self._began

    @property
    def is_due(self) -> bool:
        """Return whether it is time to say what is waited for."""
        return self.elapsed - self._said > self.every

    def again(self, reasons: Mapping[Ref, str]) -> Iterator[Waiting]:
        """Say what is waited for, if that is due, and why; then pause until the next look."""
        if self.is_due:
            self._said = self.elapsed
            yield waiting(reasons, self.what, self._said, self.timeout)
        if pause := next(self.pauses, 0.0):
            self.cancellation.wait(pause)


def growing_pauses(first: float, *, longest: float) -> Iterator[float]:
    """Yield pauses in seconds, each half as long again as the one before."""
    while True:
        yield first
        first = min(first * 1.5, longest)


# What is around objects, and shows why they are not ready.


class RelatedObjects(Struct):
    """What was listed or watched, by scope; each scope is all objects of a kind in a namespace."""

    _objects: dict[WatchScope, dict[Ref, LiveObject]] = field(default_factory=dict)
    _by_uid: dict[WatchScope, dict[str, list[Body]]] = field(default_factory=dict)
    _unread: dict[WatchScope, Problem] = field(default_factory=dict)

    def scopes(self, ref: Ref, live: LiveObject | None) -> Iterator[WatchScope]:
        """Yield what shows why an object is not ready; claims only once its Pods mount some."""
        if not ref.namespace:
            return
        resources = [EVENTS]
        if ref.group_kind in WITH_PODS:
            resources.append(PODS)
        if ref.group_kind == DEPLOYMENTS.group_kind:
            resources.append(REPLICA_SETS)
        for resource in resources:
            yield WatchScope(resource, ref.namespace)
        if live is not None and mounts_claims((live.body or {}, *self.of(live).pods)):
            yield WatchScope(CLAIMS, ref.namespace)

    def read(self, wanted: Sequence[LiveObject], cluster: Cluster, workers: WorkerPool) -> None:
        """List what ``scopes`` yields for these objects and is not known yet; failures are kept."""

        def listed(scope: WatchScope) -> WatchChange:
            try:
                found = cluster.list(scope.resource, namespace=scope.namespace, full=True)
            except ApplypruneError as error:
                return WatchFailed(scope, error)
            return Listed(scope, {live.ref: live for live in found})

        # Only the Pods show whether the claims are needed.
        for _ in range(2):
            scopes = {scope for live in wanted for scope in self.scopes(live.ref, live)}
            unknown = scopes - self._objects.keys() - self._unread.keys()
            for change in workers.each(listed, unknown):
                self.update(change)

    def update(self, change: WatchChange) -> None:
        """Take in a list, a change or a failure."""
        scope = change.source
        if isinstance(change, WatchFailed):
            self._unread[scope] = change.error.problem
            return
        self._unread.pop(scope, None)
        self._by_uid.pop(scope, None)
        known = self._objects.setdefault(scope, {})
        if isinstance(change, Listed):
            known.clear()
            known.update(change.objects)
        elif change.live is None:
            known.pop(change.ref, None)
        else:
            known[change.ref] = change.live

    def of(self, live: LiveObject) -> Related:
        """Return what is known about an object."""
        namespace = live.ref.namespace
        replica_sets = self._index(REPLICA_SETS, namespace).get(live.uid, ())
        owners = [live.uid, *(str(one["metadata"]["uid"]) for one in replica_sets)]
        pods = self._index(PODS, namespace)
        return Related(
            pods=[pod for owner in owners for pod in pods.get(owner, ())],
            replica_sets=replica_sets,
            events=self._index(EVENTS, namespace),
            claims=self._objects.get(WatchScope(CLAIMS, namespace)),
        )

    def not_read(self, ref: Ref, live: LiveObject | None) -> str:
        """Return what about an object could not be read, and why; empty if nothing."""
        return "; ".join(
            f"its {scope.resource.plural} cannot be read: {problem.message}"
            for scope in self.scopes(ref, live)
            if (problem := self._unread.get(scope)) is not None
        )

    def _index(self, resource: Resource, namespace: str) -> Mapping[str, Sequence[Body]]:
        """Return the objects by the UID of their controller; events by that of their object."""
        scope = WatchScope(resource, namespace)
        found = self._by_uid.get(scope)
        if found is None:
            found = self._by_uid[scope] = {}
            for live in self._objects.get(scope, {}).values():
                if (body := live.body) is not None:
                    subject = mapping(body.get("involvedObject")) or controller_of(body)
                    found.setdefault(text(subject, "uid"), []).append(body)
        return found


# Until objects are ready.


_POLL_SECONDS = 0.5
_WATCH_RELATED_AFTER = 2.0
_SHOWN = 5
_PROOF_PAUSE = 1.0
"""Seconds between two looks at the Pods of a workload that says it is ready."""


class _Proof(Struct, frozen=True):
    """What the Pods of a workload have proved."""

    version: str
    """The resourceVersion of the workload."""
    at: float
    state: Readiness | None
    """Why it may not stay ready; None if it will."""


class ReadinessWaiter(Struct):
    """Waits for a number of objects."""

    context: RunContext
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
    _forbidden: dict[Ref, Forbidden] = field(default_factory=dict)
    _stuck: dict[Ref, Readiness] = field(default_factory=dict)
    _ends: dict[Ref, str] = field(default_factory=dict)
    """How the Pods of Jobs have ended, as last seen: a Job that fails may delete them."""
    _ready: dict[Ref, Awaited] = field(default_factory=dict)
    _proofs: dict[Ref, _Proof] = field(default_factory=dict)
    """What the Pods of workloads have last proved."""
    _unlisted: dict[Ref, float] = field(default_factory=dict)
    """Since when workloads were ready whose Pods may not be listed."""

    def run(self, objects: Sequence[Awaited]) -> Iterator[Event]:
        """Yield progress; return when all objects are ready, or one cannot become ready."""
        pending = {awaited.desired.ref: awaited for awaited in objects}
        self.not_ready.update(pending)
        if not pending:
            return
        context = self.context
        # guard: clock-of-readiness -> closing(Informer(context.cluster))
        with closing(Informer(context.cluster, clock=context.cancellation.clock)) as informer:
            wanted = {ref: awaited.desired.resource for ref, awaited in pending.items()}
            informer.open_each(wanted, self._selector)
            yield from self._watch(pending, informer)

    @property
    def _selector(self) -> str:
        return f"{PART_OF}={self.context.applyset.id}"

    def _watch(self, pending: dict[Ref, Awaited], informer: Informer) -> Iterator[Event]:
        cancellation, options = self.context.cancellation, self.context.options.wait
        looks = Looks(cancellation, "ready", options.timeout)
        while pending:
            for change in informer.changes(_POLL_SECONDS):
                self._update(change)
                informer.open_namespaces(change, pending)
            cancellation.check()
            elapsed = looks.elapsed
            states = {ref: self._state(awaited) for ref, awaited in pending.items()}
            yield from self._report(states, pending, elapsed)
            failed = [ref for ref in pending if states[ref].status is Status.FAILED]
            late = [
                ref
                for ref, awaited in pending.items()
                if elapsed > min(awaited.desired.timeout or options.timeout, options.turn)
            ]
            unreadable = [ref for ref in pending if ref in self._forbidden]
            if ended := failed or late or unreadable:
                yield from self._report_not_ready(ended, pending, states, elapsed)
                if not self.patient:
                    return
                for ref in ended:
                    del pending[ref]
            if elapsed > min(_WATCH_RELATED_AFTER, options.turn / 2):
                for ref in pending:
                    for scope in self._related.scopes(ref, self._live.get(ref)):
                        informer.open(scope)
            if pending:
                yield from looks.again({ref: states[ref].message for ref in pending})
            elif not self.problems:
                pending.update(self._lost())  # guard: gone-at-the-end -> pending.update({})
                self.not_ready.update(pending)

    def _lost(self) -> Mapping[Ref, Awaited]:
        """Return what was ready, and is now gone, going or another object."""
        return {
            ref: awaited
            for ref, awaited in self._ready.items()
            if self._state(awaited).status is not Status.CURRENT
        }

    def _report(
        self, states: Mapping[Ref, Readiness], pending: dict[Ref, Awaited], elapsed: float
    ) -> Iterator[Event]:
        """Report what is ready, which ends its wait, and what has got stuck for another reason."""
        for ref, state in states.items():
            if state.status is Status.CURRENT:
                awaited, last = pending.pop(ref), self._last.get(ref)
                if awaited.desired.has_ttl and last and is_complete(last.body or {}):
                    self.completed[ref] = last.uid
                self.not_ready.discard(ref)
                self._ready[ref] = replace(awaited, was_ready=True)
                if awaited.was_ready:
                    continue
                if state.warning:
                    told = RunFailed(f"{ref} is ready, with a warning", reason=state.warning)
                    yield WarningRaised(told.problem)
                yield ReadinessReported(ref, state, elapsed)
            elif state.stuck:
                before, self._stuck[ref] = self._stuck.get(ref), state
                if before is None or before.fact != state.fact:
                    yield ObjectStuck(ref, state, elapsed)

    def _update(self, change: WatchChange) -> None:
        source = change.source
        if not source.selector:
            self._related.update(change)
            return
        if isinstance(change, WatchFailed):
            if change.ref is None:
                self._unread[source] = change.error.message
            elif isinstance(change.error, Forbidden):
                self._forbidden[change.ref] = change.error
            return
        self._unread.pop(source, None)
        if isinstance(change, Upserted):
            self._live[change.ref] = change.live
            if change.live is not None:
                self._last[change.ref] = change.live
            return
        self._live.update(dict.fromkeys(refs_in(source, self._live)))
        self._live.update(change.objects)
        self._last.update(change.objects)
        # From now on, an object that is not in the list is known to be gone.
        self._listed.add(source)

    def _state(self, awaited: Awaited, *, waited: float | None = None) -> Readiness:
        """Return the readiness; ``waited`` replaces the time since the apply of this run."""
        desired, applied, context = awaited.desired, awaited.applied, self.context
        live = self._live.get(desired.ref)
        waited = context.cancellation.now() - applied.at if waited is None else waited
        if live is None or live.body is None:
            return self._absent(awaited)
        outdated = outdated_read(live, applied)
        if outdated is not None:  # guard: outdated-read never
            return outdated
        if live.uid != self._uids.setdefault(desired.ref, applied.uid or live.uid):
            return failed("somebody has deleted and re-created it")
        if live.labels.get(PART_OF) != context.applyset.id:
            # The watches of the set's objects no longer include it.
            return failed("somebody has removed the set's label")
        if awaited.was_ready and not live.terminating:
            return current("it was ready")
        state = assess(
            live.body,
            waited=waited,
            has_status=awaited.has_status,
            rule=awaited.rule,
            job_started=desired.wait == Wait.STARTED,
        )
        if state.status is Status.CURRENT and awaited.rule is None:
            state = self._steady(awaited, live) or state
        elif state.status is not Status.CURRENT:
            self._unlisted.pop(desired.ref, None)
        related, manager = self._related.of(live), context.applyset.manager
        state = with_pods_explained(state, live, related, manager=manager, waited=waited)
        if live.ref.group_kind == JOB and (ended := last_failure(pods_of(live, related))):
            self._ends[live.ref] = ended
        state = masked_readiness(state, context.cluster.masked)  # guard: secret-in-readiness
        return for_wait(state, fail_fast=context.options.wait.fail_fast)

    def _steady(self, awaited: Awaited, live: LiveObject) -> Readiness | None:
        """Return why a workload that says it is ready may not stay so; None if it will.

        Its Pods are listed, once for each change of it and then once a second.
        """
        ref, body = live.ref, live.body or {}
        if not (awaited.applied.has_changed and needs_proof(ref.group_kind, body)):
            return None
        now, known = self.context.cancellation.now(), self._proofs.get(ref)
        if (
            known is not None
            and known.version == live.resource_version
            and (known.state is None or now - known.at < _PROOF_PAUSE)
        ):
            return known.state
        state = self._proof(ref, body, now)
        self._proofs[ref] = _Proof(live.resource_version, now, state)
        return state

    def _proof(self, ref: Ref, workload: Body, now: float) -> Readiness | None:
        cluster, wait = self.context.cluster, self.context.options.wait
        try:
            selector = pod_selector(workload)
            found = cluster.list(PODS, namespace=ref.namespace, selector=selector, full=True)
        except Forbidden as error:
            since = self._unlisted.setdefault(ref, now)
            # A run that may not wait so long, of a Bundle, would never see it ready.
            if now - since < STEADY < wait.turn:
                return in_progress(f"its Pods may not be listed: it must be ready for {STEADY:g} s")
            return current(
                "it is ready", warning=f"whether its Pods restart was not seen: {error.message}"
            )
        except ApplypruneError as error:
            return in_progress(f"its Pods cannot be read: {error.message}")
        told = cluster.server_time or datetime.now(UTC)
        return unproved(workload, [one.body or {} for one in found], told)

    def _absent(self, awaited: Awaited) -> Readiness:
        ref = awaited.desired.ref
        if (error := self._forbidden.get(ref)) is not None:
            return Readiness(Status.UNKNOWN, f"it may not be read: {error.message}")
        sources = [
            WatchScope(awaited.desired.resource, namespace, self._selector)
            for namespace in (ref.namespace, "")
        ]
        if ref not in self._live and not any(
            source in self._listed and source not in self._unread for source in sources
        ):
            unread = (self._unread[source] for source in sources if source in self._unread)
            return Readiness(Status.UNKNOWN, next(unread, "it has not been read yet"))
        if not awaited.desired.has_ttl:
            return failed("it is gone: somebody has deleted it, or removed its label")
        if awaited.was_ready:
            return current("it was ready, and its TTL removed it")
        last = self._last.get(ref)
        body = last.body or {} if last else {}
        state = assess(body, rule=awaited.rule) if body else None
        if state is not None and state.status is Status.FAILED:
            # The TTL removes failed objects too.
            return masked_readiness(state, self.context.cluster.masked)
        if not (is_complete(body) or awaited.completed):  # guard: unknown-result never
            return failed(UNKNOWN_RESULT)
        return current("it has finished, and its TTL removed it")

    def _report_not_ready(
        self,
        ended: Sequence[Ref],
        pending: Mapping[Ref, Awaited],
        states: Mapping[Ref, Readiness],
        elapsed: float,
    ) -> Iterator[Event]:
        """Report why each of ``ended`` is not ready, with its last warnings; name the others."""
        others = sorted(set(pending) - set(ended))
        self._read_around(ref for ref in ended if states[ref].status is Status.FAILED)
        for ref in sorted(ended):
            state, desired = states[ref], pending[ref].desired
            if state.status is Status.FAILED:
                state = self._state(pending[ref])
            message = f"timed out waiting for {ref}"
            if elapsed <= (desired.timeout or self.context.options.wait.timeout):
                message = f"{ref} is not ready yet"
            if state.status is Status.FAILED:
                message = f"{ref} will not become ready"
            hint = f"Not ready yet either: {and_more(others, _SHOWN)}" if others else ""
            if (forbidden := self._forbidden.get(ref)) is not None:
                message, hint = f"it is unknown whether {ref} is ready", forbidden.hint
            reasons = (state.message, *self._more_reasons(ref, state.message))
            error = NotReady(
                message,
                location=desired.origin,
                reason="; ".join(part for part in reasons if part),
                lasting_reason=self._fact(state, pending[ref]),
                hint=hint,
            )
            self.problems[ref] = error.problem
            self._offer_logs(ref)
            yield ReadinessReported(ref, state, elapsed, self.problems[ref])

    def _offer_logs(self, ref: Ref) -> None:
        """Let the end of the run name the command for logs, if a container has written any."""
        live, context = self._live.get(ref), self.context
        if live is not None and (
            hint := logs_hint(pods_of(live, self._related.of(live)), context.applyset)
        ):
            context.summary.hint = hint

    def _read_around(self, failed: Iterable[Ref]) -> None:
        """Read what shows why objects have failed: a wait looks for it only after a while."""
        found = (self._live.get(ref) for ref in failed)
        if failing := [live for live in found if live is not None]:
            self._related.read(failing, self.context.cluster, self.context.workers)

    def _fact(self, state: Readiness, awaited: Awaited) -> str:
        """Return why an object is not ready, whatever moment the wait ends at.

        A container that crashes runs at times, and is no less stuck. A second, shorter look finds
        the same reason as the first.
        """
        if state.status is not Status.IN_PROGRESS:
            return state.fact
        last = self._state(awaited, waited=inf)
        return self._stuck.get(awaited.desired.ref, last if last.stuck else state).fact

    def _more_reasons(self, ref: Ref, message: str) -> Iterator[str]:
        """Yield the last problem and the newest warnings that ``message`` lacks."""
        stuck, masked = self._stuck.get(ref), self.context.cluster.masked
        last = stuck.message if stuck is not None else ""
        if last and last not in message:
            yield f"before that: {last}"
        if (ended := masked(self._ends.get(ref, ""))) and ended not in message:
            yield ended
        live = self._live.get(ref)
        if live is not None:
            yield self._related.not_read(ref, live)
            for warning in warnings_about(live, self._related.of(live)):
                shown = replace(warning, message=masked(warning.message))
                if adds_to(shown, f"{message}; {last}"):
                    yield masked(shown.text)


_AT_ONCE = kinds_with(Trait.AT_ONCE)


class ReadinessRules(Struct):
    """The rules by which the objects of one run are ready.

    The constructor compiles all rules, before anything is written. A run with ``errors`` must not
    go on.
    """

    cluster: Cluster
    desired: Sequence[Desired]
    options: Options
    errors: list[ApplypruneError] = field(default_factory=list)
    """The invalid rules."""
    _kinds: dict[GroupKind, Rule] = field(default_factory=dict)
    _texts: dict[str, Rule] = field(default_factory=dict)
    _statuses: dict[GroupKind, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, rule in self.options.wait.ready_when:
            try:
                self._kinds[_kind_of(name)] = compile_rule(rule, where=f"ready-when {name}")
            except UsageError as error:
                self.errors.append(error)
        for desired in self.desired:
            if desired.ready_when and desired.ready_when not in self._texts:
                try:
                    self._texts[desired.ready_when] = compile_rule(
                        desired.ready_when, where=str(desired.origin)
                    )
                except InputError as error:
                    error.problem = replace(
                        error.problem,
                        origin=desired.origin,
                        field=("metadata", "annotations", READY_WHEN),
                    )
                    self.errors.append(error)
            if desired.ref.group_kind == CRD:
                for kind in defined_kinds(desired.body):
                    self._statuses[kind] = has_status(desired.body)

    def of(
        self,
        candidates: Iterable[Desired],
        applied: Mapping[Ref, Applied],
        completed: Collection[Ref] = (),
        ready: Collection[Ref] = (),
    ) -> Sequence[Awaited]:
        """Return those of ``candidates`` that need a wait, as they were ``applied``.

        ``completed`` are the Jobs of which the inventory or this run says so. What is ``ready`` was
        so before in this run: it only needs to be there still.
        """
        return [
            Awaited(
                desired,
                applied[desired.ref],
                self._rule(desired),
                has_status=self._has_status(desired),
                completed=desired.ref in completed,
                was_ready=desired.ref in ready,
            )
            for desired in candidates
            if self.is_awaited(desired) or desired.ref in ready
        ]

    def is_awaited(self, desired: Desired) -> bool:
        """Return whether a run waits for an object; it always waits if the user gave a rule."""
        if desired.wait == Wait.SKIP:
            return False
        return self._rule(desired) is not None or desired.ref.group_kind not in _AT_ONCE

    def state(self, desired: Desired, live: LiveObject) -> Readiness | None:
        """Return the readiness of an object as it was read.

        Return None if no run waits for it, or if it was not read in full.
        """
        if live.body is None or not self.is_awaited(desired):
            return None
        started = desired.wait == Wait.STARTED
        return assess(live.body, waited=inf, rule=self._rule(desired), job_started=started)

    def _rule(self, desired: Desired) -> Rule | None:
        kind = GroupKind(desired.ref.group, desired.ref.kind.lower())
        return self._texts.get(desired.ready_when) or self._kinds.get(kind)

    def _has_status(self, desired: Desired) -> bool:
        kind = desired.ref.group_kind
        if is_built_in(kind.group):
            return False
        if kind not in self._statuses:
            name = Ref(CRD.group, CRD.kind, "", desired.resource.full_plural)
            try:
                body = self.cluster.get(DEFINITIONS, name, full=True).body or {}
            except ApplypruneError:
                body = {}  # an aggregated API, or forbidden: go by the object alone
            self._statuses[kind] = has_status(body)
        return self._statuses[kind]


def _kind_of(text: str) -> GroupKind:
    kind, _, group = text.partition(".")
    if not kind:
        raise UsageError(f"{text!r} does not name a kind", hint="Write KIND.GROUP=EXPRESSION.")
    return GroupKind(group, kind.lower())


# Watches: each scope is listed and watched on a thread of its own.


_WATCH_SECONDS = 300.0
_RETRY_PAUSE = 1.0
_BETWEEN_WATCHES = 0.2
_CLOSE_TIMEOUT = 1.0
_FEW_NAMESPACES = 3


class Informer(Struct):
    """Watches any number of sources and queues their changes; ``close`` ends the threads.

    ``slim`` reduces each object to what is needed: the queue, and who reads it, hold no more.
    """

    cluster: Cluster
    queue: SimpleQueue[WatchChange] = field(default_factory=SimpleQueue)
    slim: Callable[[LiveObject], LiveObject] | None = None
    clock: Clock = CLOCK
    """The clock of its waits."""
    _ahead: list[WatchChange] = field(default_factory=list)
    """The change that a wait has found, if it was not yielded yet."""
    _closed: Flag = field(default_factory=Flag)
    _threads: dict[WatchScope, Thread] = field(default_factory=dict)
    _wanted: dict[WatchScope, tuple[Ref, ...]] = field(default_factory=dict)

    def open(self, source: WatchScope, wanted: Iterable[Ref] = ()) -> None:
        """Start to list and watch a source, unless it is open already.

        Of the ``wanted`` objects, each is read that a list lacks, or all if none may be listed.
        """
        if source in self._threads:
            return
        self._wanted[source] = tuple(wanted)
        thread = Thread(target=self._run, args=(source,), name="applyprune-watch", daemon=True)
        self._threads[source] = thread
        thread.start()

    def open_each(self, wanted: Mapping[Ref, Resource], selector: str) -> None:
        """Open one source for each kind, or one for each of its namespaces if these are few.

        With a ``selector`` for the set's label, other objects are not watched.
        """
        by_resource: dict[Resource, set[str]] = {}
        for ref, resource in wanted.items():
            by_resource.setdefault(resource, set()).add(ref.namespace)
        for resource, namespaces in by_resource.items():
            for namespace in sorted(namespaces) if len(namespaces) <= _FEW_NAMESPACES else [""]:
                source = WatchScope(resource, namespace, selector)
                self.open(source, refs_in(source, wanted))

    def open_namespaces(self, change: WatchChange, wanted: Iterable[Ref]) -> None:
        """Open one source for each namespace, if watching all of them is forbidden."""
        source = change.source
        if not isinstance(change, WatchFailed) or not isinstance(change.error, Forbidden):
            return
        if source.is_everywhere:
            refs = refs_in(source, wanted)
            for namespace in sorted({ref.namespace for ref in refs}):
                narrow = replace(source, namespace=namespace)
                self.open(narrow, refs_in(narrow, refs))

    def changes(self, seconds: float) -> Iterator[WatchChange]:
        """Wait up to ``seconds`` for a change, then yield all changes in the queue."""
        if not self.clock.wait(self, seconds):
            return
        try:
            yield self._ahead.pop()
            while True:
                yield self.queue.get_nowait()
        except Empty:
            return

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a change; return whether there is one."""
        try:
            if not self._ahead:
                self._ahead.append(self.queue.get(timeout=seconds))
        except Empty:
            return False
        return True

    def close(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """Stop all watches, waiting up to ``timeout`` seconds for their threads.

        A thread that is waiting for a list ends when the list does, or with the process.
        """
        self._closed.set()
        until = time.monotonic() + timeout
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, source: WatchScope) -> None:
        while not self._closed.is_set():
            try:
                self._list_and_watch(source)
            except Expired:
                self.clock.wait(self._closed, _RETRY_PAUSE)  # and list again
            except ApplypruneError as error:
                self.queue.put(WatchFailed(source, error))
                # Without the right to watch, this amounts to polling: a list every few seconds.
                pause = 5 * _RETRY_PAUSE if isinstance(error, Forbidden) else _RETRY_PAUSE
                self.clock.wait(self._closed, pause)

    def _list_and_watch(self, source: WatchScope) -> None:
        try:
            objects, version = self.cluster.list_at(
                source.resource,
                namespace=source.namespace,
                selector=source.selector,
                name=source.name,
                full=source.full,
                slim=self.slim,
            )
        except Forbidden:
            if not source.is_everywhere:  # then its namespaces are listed
                self._read_each(source)
            raise
        self.queue.put(Listed(source, self._with_missing(source, objects)))
        while not self._closed.is_set():
            began, silent = self.clock.now(), True
            for change in self.cluster.watch(
                source.resource,
                namespace=source.namespace,
                selector=source.selector,
                name=source.name,
                full=source.full,
                resource_version=version,
                stop=self._closed.is_set,
                seconds=_WATCH_SECONDS,
            ):
                silent = False
                version = change.live.resource_version or version
                if change.kind is WatchEventType.DELETED:
                    self.queue.put(self._after_deletion(source, change.live.ref))
                elif change.kind is not WatchEventType.BOOKMARK:
                    self.queue.put(self._upserted(source, change.live))
            if silent and self.clock.now() - began < _RETRY_PAUSE:
                # Something ends every watch at once: only a list can show the changes.
                self.clock.wait(self._closed, _RETRY_PAUSE)
                return
            self.clock.wait(self._closed, _BETWEEN_WATCHES)

    def _read_each(self, source: WatchScope) -> None:
        """Read each wanted object by itself."""
        for ref in self._wanted[source]:
            if self._closed.is_set():
                return
            try:
                self.queue.put(self._after_deletion(source, ref))
            except ApplypruneError as error:
                self.queue.put(WatchFailed(source, error, ref))

    def _with_missing(
        self, source: WatchScope, objects: Sequence[LiveObject]
    ) -> Mapping[Ref, LiveObject]:
        """Return what was listed, and the wanted objects that the list lacks, if they are there.

        A list may come from a cache that is older than the run.
        """
        found = {live.ref: live for live in objects}
        for ref in self._wanted[source]:
            if ref not in found:
                with suppress(Forbidden):
                    read = self._after_deletion(source, ref).live
                    found |= {ref: read} if read is not None else {}
        return found

    def _after_deletion(self, source: WatchScope, ref: Ref) -> Upserted:
        """Read the object: it may be gone, or may only have left the selection."""
        try:
            live = self.cluster.get(source.resource, ref, full=source.full)
        except NotFound:
            return Upserted(source, ref, None)
        return self._upserted(source, live)

    def _upserted(self, source: WatchScope, live: LiveObject) -> Upserted:
        return Upserted(source, live.ref, self.slim(live) if self.slim is not None else live)


class WatchScope(Struct, frozen=True):
    """The objects that one watch covers."""

    resource: Resource
    namespace: str = ""
    """The namespace to watch; empty for all namespaces."""
    selector: str = ""
    """The label selector; empty for all objects."""
    name: str = ""
    """The name of a single object; empty for all objects."""
    full: bool = True
    """Whether to watch whole objects; otherwise only their metadata."""

    @property
    def is_everywhere(self) -> bool:
        """Return whether it covers several namespaces."""
        return self.resource.namespaced and not self.namespace


class Listed(Struct, frozen=True):
    """All objects of a source; an object that is missing here does not exist any more."""

    source: WatchScope
    objects: Mapping[Ref, LiveObject]


class Upserted(Struct, frozen=True):
    """One object of a source that has changed; ``live`` is None if it is gone."""

    source: WatchScope
    ref: Ref
    live: LiveObject | None


class WatchFailed(Struct, frozen=True):
    """A source that cannot be listed or watched now; the informer retries it."""

    source: WatchScope
    error: ApplypruneError
    ref: Ref | None = None
    """The only object that could not be read; None for the whole source."""


WatchChange: TypeAlias = Listed | Upserted | WatchFailed


def refs_in(source: WatchScope, refs: Iterable[Ref]) -> tuple[Ref, ...]:
    """Return those of ``refs`` that a source covers."""
    kind = source.resource.group_kind
    return tuple(
        ref for ref in refs if ref.group_kind == kind and source.namespace in {"", ref.namespace}
    )


def terminating_namespaces(
    names: Iterable[str], cluster: Cluster, workers: WorkerPool
) -> frozenset[str]:
    """Return those of some namespaces that are being deleted, as far as they may be read."""

    def is_terminating(name: str) -> tuple[str, bool]:
        try:
            return name, cluster.get(NAMESPACES, namespace_ref(name)).terminating
        except ApplypruneError:
            return name, False

    found = workers.each(is_terminating, sorted(set(names) - {""}))
    return frozenset(name for name, goes in found if goes)


# Until the kinds of CRDs are served.
#
# The endpoint of a kind answers only once its CRD is Established (apiextensions-apiserver's
# crdHandler), so a list with a limit of one is enough, unless it is forbidden or fails. A CRD can
# be 700 kB large, so it is read only then, or if the wait takes long, to find out why.


_REPORT_KINDS_AFTER = 2.0
_CRD_TURNS = 10
"""A kind is served within seconds; nothing of the run can go on before."""


def longest_for_kinds(wait: WaitOptions, timeout: float | None = None) -> float:
    """Return for how many seconds a run waits until a new kind is served.

    ``timeout`` is that of its CRD, in place of the run's.
    """
    return min(timeout or wait.timeout, wait.turn * _CRD_TURNS)


def await_crds(
    context: RunContext, crds: Sequence[Desired]
) -> Generator[Event, None, Mapping[Ref, Problem]]:
    """Yield what is waited for until the kinds of CRDs are served; return why some are not."""
    cancellation, options = context.cancellation, context.options.wait
    pauses = growing_pauses(0.02, longest=1.0)
    looks = Looks(cancellation, "served", options.timeout, pauses, _REPORT_KINDS_AFTER)
    not_served: dict[Ref, Problem] = {}

    def fail(crd: Desired, reason: str) -> None:
        error = NotReady(f"{crd.ref.name} is not served", reason=reason)
        not_served[crd.ref] = error.problem_at(crd.origin)

    pending = crds
    while pending:
        reasons = dict(context.workers.each(partial(_why_not_served, context.cluster), pending))
        cancellation.check()
        pending = [
            crd for crd in pending if reasons[crd.ref] is not None and crd.ref not in not_served
        ]
        elapsed = looks.elapsed
        late = [crd for crd in pending if elapsed > longest_for_kinds(options, crd.timeout)]
        for crd in late:
            told = f"; {reasons[crd.ref]}" if reasons[crd.ref] else ""
            fail(crd, f"it was not Established and served before the timeout{told}")
        if len(late) == len(pending):
            break
        for crd in pending if looks.is_due else ():
            # Another CRD may have its names.
            with suppress(ApplypruneError):
                body = context.cluster.get(DEFINITIONS, crd.ref, full=True).body or {}
                if reason := refused_names(body):
                    fail(crd, reason)
        yield from looks.again({crd.ref: reasons[crd.ref] or "" for crd in pending})
    yield from map(WarningRaised, not_served.values())
    return not_served


def _why_not_served(cluster: Cluster, crd: Desired) -> tuple[Ref, str | None]:
    """Return why a CRD is not served, perhaps without words; None if it is."""
    try:
        is_served = all(cluster.serves(resource) for resource in defined_resources(crd.body))
    except ApplypruneError as error:
        return crd.ref, error.message
    return crd.ref, None if is_served else ""


# Until what others create exists.


def await_existing(
    context: RunContext, objects: Sequence[Desired]
) -> Generator[Event, None, Mapping[Ref, Problem]]:
    """Yield what is waited for until each object exists; return why some do not in their time."""
    cancellation, options = context.cancellation, context.options.wait
    looks = Looks(cancellation, "created", options.timeout, growing_pauses(0.1, longest=2.0))
    missing: dict[Ref, Problem] = {}
    pending = objects
    while pending:
        reasons = dict(context.workers.each(partial(_why_missing, context.cluster), pending))
        cancellation.check()
        elapsed, left = looks.elapsed, []
        for desired in pending:
            ref, longest = desired.ref, desired.timeout or options.timeout
            if reasons[ref] and elapsed <= min(longest, options.turn):
                left.append(desired)
            elif reasons[ref]:
                message = f"timed out waiting for {ref} to be created"
                error = NotReady(
                    message if elapsed > longest else f"{ref} does not exist yet",
                    location=desired.origin,
                    reason=f"{OUTSIDE}; {reasons[ref]}",
                    hint=f"To apply it with this set, remove {desired.apply_mark} from its "
                    "manifest.",
                )
                missing[ref] = error.problem
        pending = left
        if pending:
            yield from looks.again({desired.ref: reasons[desired.ref] for desired in pending})
    return missing


def _why_missing(cluster: Cluster, desired: Desired) -> tuple[Ref, str]:
    """Return why an object does not exist, in words; empty if it does."""
    try:
        state = cluster.read(desired.resource, desired.ref)
    except ApplypruneError as error:
        return desired.ref, f"it could not be read: {error.message}"
    if isinstance(state, LiveObject):
        return desired.ref, "it is being deleted" if state.terminating else ""
    return desired.ref, "nobody has created it"


# Until deleted objects are gone. An object is known by its UID: its name may be taken again.


# Seconds in which the server of an aggregated API must mark what it has accepted to delete.
_MARKED_WITHIN = 5.0


class DeletedObject(Struct, frozen=True):
    """An object that the server has accepted a delete of."""

    resource: Resource
    ref: Ref
    uid: str
    is_confirmed: bool = False
    """Whether the reply says that it is gone."""


class Gone(Struct, frozen=True):
    """A deleted object that is gone."""

    ref: Ref
    replaced: bool
    """Whether another object has its name now."""


class DeletionWait(Struct):
    """A wait for deleted objects, until all are gone, the timeout, or the end of the run."""

    pending: Sequence[DeletedObject]
    """The objects that are not known to be gone."""
    timeout: float
    """Seconds."""
    cancellation: Cancellation
    read: Callable[[Resource, Ref], State]
    """Reads an object."""
    workers: WorkerPool | None = None
    """The threads that read, which read nothing more at the end of the run; None for this one."""
    is_own: bool = False
    """Whether the run has deleted them: it ends when only what is not being deleted is left."""
    last: dict[Ref, LiveObject] = field(default_factory=dict)
    """Each object as it was last read."""

    def run(self) -> Iterator[Gone | Waiting]:
        """Yield each object that is gone, and every second what the others wait for."""

        def read(deleted: DeletedObject) -> tuple[DeletedObject, State]:
            return deleted, self.read(deleted.resource, deleted.ref)

        pauses = growing_pauses(0.05, longest=2.0)
        looks = Looks(self.cancellation, "gone", self.timeout, pauses)
        while self.pending:
            gone: set[Ref] = set()
            pending, workers = self.pending, self.workers
            states = workers.each(read, pending) if workers else map(read, pending)
            for deleted, state in states:
                if isinstance(state, LiveObject) and state.uid == deleted.uid:
                    self.last[deleted.ref] = state
                elif isinstance(state, LiveObject | Absent):
                    gone.add(deleted.ref)
                    yield Gone(deleted.ref, replaced=isinstance(state, LiveObject))
            self.pending = [deleted for deleted in self.pending if deleted.ref not in gone]
            if self.cancellation.requested or looks.elapsed > self.timeout:
                return
            if self.is_own and all(map(self.is_unmarked, self.pending)):
                # kube-apiserver marks what it accepts to delete before it answers; the core group
                # is always its own.
                others = any(one.resource.group for one in self.pending)
                # guard: unmarked-is-not-deleted never
                if not others or looks.elapsed > _MARKED_WITHIN:
                    return
            if self.pending:
                yield from looks.again({one.ref: self._held(one.ref) for one in self.pending})

    def is_unmarked(self, deleted: DeletedObject) -> bool:
        """Return whether an object was last seen without a deletionTimestamp: it stays."""
        live = self.last.get(deleted.ref)
        return live is not None and not live.terminating

    def _held(self, ref: Ref) -> str:
        live = self.last.get(ref)
        if live is None:
            return ""
        parts = [f"held by {', '.join(live.finalizers)}"] if live.finalizers else []
        if ref.group_kind == PODS.group_kind:
            parts.append(grace_of(live.body or {"metadata": live.metadata}))
        return "; ".join(filter(None, parts))

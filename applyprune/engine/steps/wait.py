"""Wait until objects are ready; end early if one of them can never become ready.

The wait uses watches. If a workload is not ready soon, its namespace's Pods and recent warning
events are watched too, to find out why its Pods do not start.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from applyprune.engine.informer import (
    Informer,
    Listed,
    Upserted,
    WatchFailed,
    WatchScope,
    namespace_scopes,
    watch_scopes,
)
from applyprune.errors import (
    ApplypruneError,
    InputError,
    NotReady,
    UsageError,
    as_problem,
)
from applyprune.model.events import Event, Readiness, ReadinessReported, Status
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.resources import CRD, DEFINITIONS, EVENTS, PODS, REPLICA_SETS
from applyprune.model.text.display import and_more
from applyprune.planning.annotations import READY_WHEN
from applyprune.planning.applyset import PART_OF
from applyprune.planning.order import is_built_in
from applyprune.planning.readiness.cel import compile_rule
from applyprune.planning.readiness.finished_jobs import UNKNOWN_RESULT, is_complete
from applyprune.planning.readiness.kstatus import assess
from applyprune.planning.readiness.pods import (
    current_pods,
    events_problem,
    pods_problem,
    refused_creation,
)
from applyprune.planning.readiness.wait_rules import WITH_PODS, Awaited, Wait, is_awaited
from applyprune.planning.schema.crd import defined_kinds, has_status
from applyprune.planning.summary import waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.informer import Change
    from applyprune.engine.ports import Cluster
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Problem
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.readiness.cel import Rule
    from applyprune.planning.readiness.wait_rules import Awaited

if TYPE_CHECKING:
    Body = Mapping[str, Any]

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
    _related: dict[WatchScope, dict[Ref, LiveObject]] = field(default_factory=dict)
    _by_uid: dict[WatchScope, dict[str, list[Body]]] = field(default_factory=dict)
    _unread: dict[WatchScope, str] = field(default_factory=dict)

    def run(self, objects: Sequence[Awaited]) -> Iterator[Event]:
        """Yield progress; return when all objects are ready, or one cannot become ready."""
        pending = {awaited.ref: awaited for awaited in objects}
        self.not_ready.update(pending)
        if not pending:
            return
        informer = Informer(self.cluster)
        try:
            wanted = [(awaited.resource, awaited.ref) for awaited in objects]
            for source in watch_scopes(wanted, f"{PART_OF}={self.applyset.id}"):
                informer.open(source)
            yield from self._watch(pending, informer)
        finally:
            informer.close()

    def _watch(self, pending: dict[Ref, Awaited], informer: Informer) -> Iterator[Event]:
        began = time.monotonic()
        reported_at = 0.0
        while pending:
            for change in informer.changes(_TURN):
                self._update(change)
                for source in namespace_scopes(change, pending):
                    informer.open(source)
            self.cancellation.check()
            elapsed = time.monotonic() - began
            states = {ref: self._state(awaited) for ref, awaited in pending.items()}
            for ref, state in states.items():
                if state.status is Status.CURRENT:
                    self._note_completed(pending[ref])
                    del pending[ref]
                    self.not_ready.discard(ref)
                    yield ReadinessReported(ref, state, elapsed)
            failed = [ref for ref in pending if states[ref].status is Status.FAILED]
            late = [ref for ref in pending if elapsed > (pending[ref].timeout or self.timeout)]
            if ended := failed or late:
                yield from self._report_not_ready(ended, pending, states, elapsed)
                if not self.patient:
                    return
                for ref in ended:
                    del pending[ref]
            if elapsed > _WATCH_RELATED_AFTER:
                self._watch_related(pending, informer)
            if pending and elapsed - reported_at > _SAY_EVERY:
                reported_at = elapsed
                reasons = {ref: states[ref].message for ref in pending}
                yield waiting(reasons, "ready", elapsed, self.timeout)

    def _note_completed(self, awaited: Awaited) -> None:
        last = self._last.get(awaited.ref)
        if awaited.has_ttl and last is not None and is_complete(last.body or {}):
            self.completed[awaited.ref] = last.uid

    def _watch_related(self, pending: Mapping[Ref, Awaited], informer: Informer) -> None:
        """Watch the Pods, ReplicaSets and events of workloads that are not ready yet."""
        for ref in pending:
            if ref.group_kind in WITH_PODS:
                for resource in (PODS, REPLICA_SETS, EVENTS):
                    informer.open(WatchScope(resource, ref.namespace))

    def _update(self, change: Change) -> None:
        source = change.source
        if isinstance(change, WatchFailed):
            self._unread[source] = str(change.error)
            return
        self._unread.pop(source, None)
        if not source.selector:
            self._by_uid.pop(source, None)
            known = self._related.setdefault(source, {})
            if isinstance(change, Listed):
                known.clear()
                known.update(change.objects)
            elif change.live is None:
                known.pop(change.ref, None)
            else:
                known[change.ref] = change.live
            return
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
        self._related.setdefault(source, {})

    def _state(self, awaited: Awaited) -> Readiness:
        live = self._live.get(awaited.ref)
        waited = time.monotonic() - awaited.since
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
        if state.status is not Status.IN_PROGRESS or awaited.ref.group_kind not in WITH_PODS:
            return state
        if problem := pods_problem(self._pods(live), waited=waited):
            return problem
        if refused := refused_creation(self._warnings(live, ()), waited=waited):
            return Readiness(Status.FAILED, f"its Pods are rejected: {refused}")
        return state

    def _absent(self, awaited: Awaited) -> Readiness:
        sources = [
            WatchScope(awaited.resource, namespace, f"{PART_OF}={self.applyset.id}")
            for namespace in (awaited.ref.namespace, "")
        ]
        if not any(source in self._related and source not in self._unread for source in sources):
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

    def _pods(self, live: LiveObject) -> Sequence[Body]:
        """Return the Pods of a workload's current template."""
        if live.body is None:
            return ()
        sets = self._about(REPLICA_SETS, live.ref, live.uid)
        owners = [live.uid, *(str(replica_set["metadata"]["uid"]) for replica_set in sets)]
        pods = [pod for owner in owners for pod in self._about(PODS, live.ref, owner)]
        return current_pods(live.body, pods, sets)

    def _warnings(self, live: LiveObject, pods: Sequence[Body]) -> Sequence[Body]:
        uids = [live.uid, *(str(pod["metadata"]["uid"]) for pod in pods)]
        return [event for uid in uids for event in self._about(EVENTS, live.ref, uid)]

    def _about(self, resource: Resource, ref: Ref, uid: str) -> Sequence[Body]:
        """Return the objects that an object controls, or the events about it, from an index."""
        source = WatchScope(resource, ref.namespace)
        found = self._by_uid.get(source)
        if found is None:
            found = self._by_uid[source] = {}
            for live in self._related.get(source, {}).values():
                if live.body is not None:
                    found.setdefault(_subject(live.body), []).append(live.body)
        return found.get(uid, ())

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
            if state.status is Status.FAILED:
                message = f"{ref} will not become ready"
            hint = f"Not ready yet either: {and_more(others, _SHOWN)}" if others else ""
            reasons = (state.message, *self._new_warnings(ref, state.message))
            error = NotReady(
                message,
                location=awaited.origin,
                reason="; ".join(part for part in reasons if part),
                hint=hint,
            )
            self.problems[ref] = as_problem(error)
            yield ReadinessReported(ref, state, elapsed, self.problems[ref])

    def _new_warnings(self, ref: Ref, message: str) -> Sequence[str]:
        """Return the newest warnings about an object and its Pods that ``message`` lacks."""
        live = self._live.get(ref)
        if live is None or live.body is None:
            return ()
        warnings = events_problem(self._warnings(live, self._pods(live))).splitlines()
        return [warning for warning in warnings if _message(warning) not in message]


def _message(warning: str) -> str:
    """Return the message of a warning, without its reason and count."""
    return warning.partition(": ")[2].partition(" (×")[0]


def _subject(body: Body) -> str:
    """Return the UID of an event's object, or of an object's controller; empty if none."""
    about = body.get("involvedObject")
    if isinstance(about, dict):
        return str(about.get("uid", ""))
    owners = body["metadata"].get("ownerReferences") or ()
    return next(
        (str(owner.get("uid", "")) for owner in owners if owner.get("controller") is True), ""
    )


@dataclass(slots=True)
class ReadinessRules:
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
        """Compile every rule."""
        for name, text in self.options.wait.ready_when:
            try:
                self._kinds[_kind_of(name)] = compile_rule(text, where=f"--ready-when {name}")
            except UsageError as error:
                self.errors.append(error)
        for desired in self.desired:
            if desired.ready_when and desired.ready_when not in self._texts:
                try:
                    rule = compile_rule(desired.ready_when, where=str(desired.origin))
                except InputError as error:
                    error.origin = desired.origin
                    error.field = ("metadata", "annotations", READY_WHEN)
                    self.errors.append(error)
                else:
                    self._texts[desired.ready_when] = rule
            if desired.ref.group_kind == CRD:
                for kind in defined_kinds(desired.body):
                    self._statuses[kind] = has_status(desired.body)

    def of(
        self,
        candidates: Iterable[Desired],
        since: Mapping[Ref, float],
        completed: Collection[Ref] = (),
    ) -> Sequence[Awaited]:
        """Return those of ``candidates`` that need a wait; ``since`` is when they were applied.

        ``completed`` are the Jobs of which the inventory says so.
        """
        return [
            Awaited(
                ref=desired.ref,
                resource=desired.resource,
                since=since[desired.ref],
                origin=desired.origin,
                has_ttl=desired.has_ttl,
                completed=desired.ref in completed,
                has_status=self._has_status(desired),
                job_started=desired.wait == Wait.STARTED,
                timeout=desired.timeout,
                rule=self._texts.get(desired.ready_when) or self._kinds.get(self._key(desired)),
            )
            for desired in candidates
            if is_awaited(
                desired, has_rule=bool(desired.ready_when) or self._key(desired) in self._kinds
            )
        ]

    def _key(self, desired: Desired) -> GroupKind:
        kind = desired.ref.group_kind
        return GroupKind(kind.group, kind.kind.lower())

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

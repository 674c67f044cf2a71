"""Waiting until objects are ready, by watches; it ends early when one of them never will be.

Whose Pods do not start is found out by their Pods and by the warnings of the last minutes, which
are watched only in the namespaces of what is not ready at once.

What a run waits for: each object with the rule by which it is ready, found out once.
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
    narrower,
    sources,
)
from applyprune.errors import (
    ApplypruneError,
    InputError,
    NotReady,
    UsageError,
    as_problem,
    raise_all,
)
from applyprune.model.display import and_more
from applyprune.model.events import Event, Readiness, ReadinessReported, Status
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.resources import CRD, DEFINITIONS, EVENTS, PODS, REPLICA_SETS
from applyprune.planning.annotations import READY_WHEN
from applyprune.planning.applyset import PART_OF
from applyprune.planning.order import is_built_in
from applyprune.planning.readiness.cel import compile_rule
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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
_LOOK_CLOSER_AFTER = 2.0
_SAY_EVERY = 1.0
_SHOWN = 5


@dataclass(slots=True)
class ReadinessWaiter:
    """One wait; ``problems`` says why something did not become ready, ``left`` is all that is not.

    One that is ``patient`` goes on for the others when something has failed.
    """

    cluster: Cluster
    stop: Cancellation
    target: ApplySetIdentity
    timeout: float
    patient: bool = False
    problems: dict[Ref, Problem] = field(default_factory=dict)
    left: set[Ref] = field(default_factory=set)
    _live: dict[Ref, LiveObject | None] = field(default_factory=dict)
    _uids: dict[Ref, str] = field(default_factory=dict)
    _last: dict[Ref, LiveObject] = field(default_factory=dict)
    _around: dict[WatchScope, dict[Ref, LiveObject]] = field(default_factory=dict)
    _by_uid: dict[WatchScope, dict[str, list[Body]]] = field(default_factory=dict)
    _unread: dict[WatchScope, str] = field(default_factory=dict)

    def run(self, awaited: Sequence[Awaited]) -> Iterator[Event]:
        """Yield who is ready and what is waited for; return when all are, or it is no use."""
        pending = {one.ref: one for one in awaited}
        self.left.update(pending)
        if not pending:
            return
        feeds = Informer(self.cluster)
        try:
            wanted = [(one.resource, one.ref) for one in awaited]
            for source in sources(wanted, f"{PART_OF}={self.target.id}"):
                feeds.open(source)
            yield from self._watch(pending, feeds)
        finally:
            feeds.close()

    def _watch(self, pending: dict[Ref, Awaited], feeds: Informer) -> Iterator[Event]:
        began = time.monotonic()
        said = 0.0
        while pending:
            for news in feeds.news(_TURN):
                self._take_in(news)
                for source in narrower(news, pending):
                    feeds.open(source)
            self.stop.check()
            elapsed = time.monotonic() - began
            states = {ref: self._state(one) for ref, one in pending.items()}
            for ref, state in states.items():
                if state.status is Status.CURRENT:
                    del pending[ref]
                    self.left.discard(ref)
                    yield ReadinessReported(ref, state, elapsed)
            lost = [ref for ref in pending if states[ref].status is Status.FAILED]
            late = elapsed > self.timeout
            if lost or (pending and late):
                yield from self._give_up(lost or list(pending), pending, states, elapsed)
                if late or not self.patient:
                    return
                for ref in lost:
                    del pending[ref]
            if elapsed > _LOOK_CLOSER_AFTER:
                self._look_closer(pending, feeds)
            if pending and elapsed - said > _SAY_EVERY:
                said = elapsed
                whys = {ref: states[ref].message for ref in pending}
                yield waiting(whys, "ready", elapsed, self.timeout)

    def _look_closer(self, pending: Mapping[Ref, Awaited], feeds: Informer) -> None:
        """Watch the Pods and warnings around workloads that are not ready at once."""
        for ref in pending:
            if ref.group_kind in WITH_PODS:
                for resource in (PODS, REPLICA_SETS, EVENTS):
                    feeds.open(WatchScope(resource, ref.namespace))

    def _take_in(self, news: Change) -> None:
        source = news.source
        if isinstance(news, WatchFailed):
            self._unread[source] = str(news.error)
            return
        self._unread.pop(source, None)
        if not source.selector:
            self._by_uid.pop(source, None)
            known = self._around.setdefault(source, {})
            if isinstance(news, Listed):
                known.clear()
                known.update(news.lives)
            elif news.live is None:
                known.pop(news.ref, None)
            else:
                known[news.ref] = news.live
            return
        if isinstance(news, Upserted):
            self._live[news.ref] = news.live
            if news.live is not None:
                self._last[news.ref] = news.live
            return
        here = (source.resource.group_kind, source.namespace)
        for ref in list(self._live):
            if (ref.group_kind, source.namespace and ref.namespace) == here:
                self._live[ref] = None
        self._live.update(news.lives)
        self._last.update(news.lives)
        # From now on what the list does not name is known to be gone.
        self._around.setdefault(source, {})

    def _state(self, one: Awaited) -> Readiness:
        live = self._live.get(one.ref)
        waited = time.monotonic() - one.since
        if live is None or live.body is None:
            return self._absent(one)
        if live.uid != self._uids.setdefault(one.ref, live.uid):
            return Readiness(Status.FAILED, "somebody has deleted it, and made another one")
        if live.labels.get(PART_OF) != self.target.id:
            # No watch of the set's objects tells of it any more.
            return Readiness(Status.FAILED, "somebody has taken the set's label from it")
        state = assess(
            live.body,
            waited=waited,
            has_status=one.has_status,
            rule=one.rule,
            job_started=one.job_started,
        )
        if state.status is not Status.IN_PROGRESS or one.ref.group_kind not in WITH_PODS:
            return state
        if problem := pods_problem(self._pods(live), waited=waited):
            return problem
        if refused := refused_creation(self._warnings(live, ()), waited=waited):
            return Readiness(Status.FAILED, f"its Pods are refused: {refused}")
        return state

    def _absent(self, one: Awaited) -> Readiness:
        places = [
            WatchScope(one.resource, home, f"{PART_OF}={self.target.id}")
            for home in (one.ref.namespace, "")
        ]
        if not any(place in self._around and place not in self._unread for place in places):
            unread = [self._unread[place] for place in places if place in self._unread]
            return Readiness(Status.UNKNOWN, (unread or ["it has not been read yet"])[0])
        if one.has_ttl:
            last = self._last.get(one.ref)
            state = assess(last.body, rule=one.rule) if last and last.body else None
            if state is not None and state.status is Status.FAILED:
                return state  # what removed it does so to failed ones as well
            return Readiness(Status.CURRENT, "it has finished, and its TTL removed it")
        return Readiness(Status.FAILED, "it is gone: somebody has deleted it, or taken its label")

    def _pods(self, live: LiveObject) -> Sequence[Body]:
        """Return the Pods of a workload's present template."""
        if live.body is None:
            return ()
        sets = self._about(REPLICA_SETS, live.ref, live.uid)
        owners = [live.uid, *(str(one["metadata"]["uid"]) for one in sets)]
        pods = [pod for owner in owners for pod in self._about(PODS, live.ref, owner)]
        return current_pods(live.body, pods, sets)

    def _warnings(self, live: LiveObject, pods: Sequence[Body]) -> Sequence[Body]:
        uids = [live.uid, *(str(pod["metadata"]["uid"]) for pod in pods)]
        return [event for uid in uids for event in self._about(EVENTS, live.ref, uid)]

    def _about(self, resource: Resource, ref: Ref, uid: str) -> Sequence[Body]:
        """Return what an object controls, or the events about it: looked up, for there are many."""
        source = WatchScope(resource, ref.namespace)
        found = self._by_uid.get(source)
        if found is None:
            found = self._by_uid[source] = {}
            for live in self._around.get(source, {}).values():
                if live.body is not None:
                    found.setdefault(_subject(live.body), []).append(live.body)
        return found.get(uid, ())

    def _give_up(
        self,
        lost: Sequence[Ref],
        pending: Mapping[Ref, Awaited],
        states: Mapping[Ref, Readiness],
        elapsed: float,
    ) -> Iterator[Event]:
        """Say why each is not ready, with its last warnings; the others were still on their way."""
        others = sorted(set(pending) - set(lost))
        for ref in sorted(lost):
            state, one = states[ref], pending[ref]
            told = "will not be ready" if state.status is Status.FAILED else "is not ready in time"
            hint = f"Not ready yet either: {and_more(others, _SHOWN)}" if others else ""
            words = (state.message, *self._last_words(ref, state.message))
            error = NotReady(
                f"{ref} {told}",
                location=one.origin,
                reason="; ".join(part for part in words if part),
                hint=hint,
            )
            self.problems[ref] = as_problem(error)
            yield ReadinessReported(ref, state, elapsed, self.problems[ref])

    def _last_words(self, ref: Ref, told: str) -> Sequence[str]:
        """Return the newest warnings about an object and its Pods that were not told already."""
        live = self._live.get(ref)
        if live is None or live.body is None:
            return ()
        words = events_problem(self._warnings(live, self._pods(live))).splitlines()
        return [word for word in words if _message(word) not in told]


def _message(warning: str) -> str:
    """Return the message of a warning, without its reason and how often it came."""
    return warning.partition(": ")[2].partition(" (×")[0]


def _subject(body: Body) -> str:
    """Return the UID of what an event is about, or of an object's controller; empty for none."""
    about = body.get("involvedObject")
    if isinstance(about, dict):
        return str(about.get("uid", ""))
    owners = body["metadata"].get("ownerReferences") or ()
    return next((str(one.get("uid", "")) for one in owners if one.get("controller") is True), "")


@dataclass(slots=True)
class Expectations:
    """The rules of one run; making it compiles them all, before anything is written."""

    cluster: Cluster
    desired: Sequence[Desired]
    options: Options
    _kinds: dict[GroupKind, Rule] = field(default_factory=dict)
    _texts: dict[str, Rule] = field(default_factory=dict)
    _statuses: dict[GroupKind, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compile every rule; raises InputErrors for those that are none, UsageError for a kind."""
        errors: list[InputError] = []
        for name, text in self.options.wait.ready_when:
            self._kinds[_kind_of(name)] = compile_rule(text, where=f"--ready-when {name}")
        for one in self.desired:
            if one.ready_when and one.ready_when not in self._texts:
                try:
                    rule = compile_rule(one.ready_when, where=str(one.origin))
                except InputError as error:
                    error.origin = one.origin
                    error.field = ("metadata", "annotations", READY_WHEN)
                    errors.append(error)
                else:
                    self._texts[one.ready_when] = rule
            if one.ref.group_kind == CRD:
                for kind in defined_kinds(one.body):
                    self._statuses[kind] = has_status(one.body)
        raise_all(errors)

    def of(self, ones: Iterable[Desired], since: Mapping[Ref, float]) -> Sequence[Awaited]:
        """Return those of ``ones`` that there is anything to wait for, applied at ``since``."""
        return [
            Awaited(
                ref=one.ref,
                resource=one.resource,
                since=since[one.ref],
                origin=one.origin,
                has_ttl=one.has_ttl,
                has_status=self._has_status(one),
                job_started=one.wait == Wait.STARTED,
                rule=self._texts.get(one.ready_when) or self._kinds.get(self._key(one)),
            )
            for one in ones
            if is_awaited(one, has_rule=bool(one.ready_when) or self._key(one) in self._kinds)
        ]

    def _key(self, one: Desired) -> GroupKind:
        kind = one.ref.group_kind
        return GroupKind(kind.group, kind.kind.lower())

    def _has_status(self, one: Desired) -> bool:
        kind = one.ref.group_kind
        if is_built_in(kind.group):
            return False
        if kind not in self._statuses:
            name = Ref(CRD.group, CRD.kind, "", one.resource.full_plural)
            try:
                body = self.cluster.get(DEFINITIONS, name, full=True).body or {}
            except ApplypruneError:
                body = {}  # an aggregated API's kind, or no right to look: the object alone tells
            self._statuses[kind] = has_status(body)
        return self._statuses[kind]


def _kind_of(text: str) -> GroupKind:
    kind, _, group = text.partition(".")
    if not kind:
        raise UsageError(f"{text!r} names no kind", hint="Write KIND.GROUP=EXPRESSION.")
    return GroupKind(group, kind.lower())

"""The status of an object of a set: readiness, age and drift; what it owns; which logs show why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from applyprune.errors import ApplypruneError, NotReady, RunFailed
from applyprune.model.events import ContainerLog, ObjectStatus, Readiness, Status, TreeNode
from applyprune.model.identity import GVK, Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.kinds import JOB, POD
from applyprune.model.live import (
    KindDeleted,
    LiveObject,
    Missing,
    NotListed,
    State,
    Unknown,
    condition,
    count,
    field,
    items,
    mapping,
    text,
    whole_number,
)
from applyprune.model.options import StatusOptions
from applyprune.model.problem import Problem
from applyprune.model.text import and_more, counted, seconds_since, visible
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.cel import Rule, compile_rule
from applyprune.planning.conflicts import drifted_from_record, drifted_from_values, recorded_drift
from applyprune.planning.decide import UNKNOWN_RESULT, was_deleted
from applyprune.planning.managed_fields import own_fields, own_writer
from applyprune.planning.marks import READY_WHEN, WAIT, is_created_once, leave_mark
from applyprune.planning.ownership import (
    Owner,
    is_label_unproven,
    label_problem,
    other_set,
    owner_of,
)
from applyprune.planning.pods import IN_VAIN, NEVER_RAN, containers, last_end
from applyprune.planning.readiness import (
    Related,
    Wait,
    assess,
    for_wait,
    warnings_about,
    with_pods_explained,
)
from applyprune.planning.world import World
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from datetime import datetime

    Body = Mapping[str, Any]
    Owned = Mapping[str, Sequence[Body]]


_SHOWN = 5


def object_status(
    entry: InventoryEntry,
    world: World,
    now: datetime,
    *,
    options: StatusOptions,
    related: Related,
    applied: LiveObject | None = None,
) -> ObjectStatus:
    """Return the status of an object that was read in full; ``now`` is by the server's clock.

    ``applied`` is the object in the version of the set's Apply entry, which names the fields; None
    if it cannot be read so.
    """
    state, manager = world.states[entry.ref], world.manager
    if isinstance(state, Unknown):
        readiness = Readiness(Status.UNKNOWN, f"it could not be read: {state.problem.kind}")
        return _without_object(entry, readiness)
    if isinstance(state, Missing):
        readiness = _absent(entry, state, now)
        drifted = _is_absence_drift(entry, state, now)
        return replace(_without_object(entry, readiness), drifted=drifted)
    if owner_of(state, entry, world.applyset) is Owner.OTHER and not is_label_unproven(
        entry, state, world.others, world.applyset
    ):
        named = other_set(state)
        message = f"it belongs to {f'the set {named}' if named else 'another set'}"
        return _without_object(entry, Readiness(Status.OTHER_SET, message))
    age = _age(state, now)
    # Of values in another version, only the record tells.
    has_values = options.values and applied is not None
    compare = drifted_from_values if has_values else drifted_from_record
    ours, known = own_fields(state, manager), applied or state
    # What is never applied again cannot drift.
    drifted = not is_created_once(state.metadata, ours) and compare(entry, known, manager)
    readiness = explained_readiness(state, related, now, manager=manager)
    unready = readiness.status is not Status.CURRENT
    return ObjectStatus(
        ref=entry.ref,
        readiness=for_wait(readiness, fail_fast=options.fail_fast),
        ownership=entry.ownership,
        age=age,
        drifted=drifted,
        drift=recorded_drift(entry, known, manager) if drifted else (),
        wave=entry.wave.wave,
        events=warnings_about(state, related) if unready else (),
    )


def explained_readiness(
    live: LiveObject, related: Related, now: datetime, *, manager: str
) -> Readiness:
    """Return the readiness of an object as it was read, with what is around it as the reason."""
    age = _age(live, now)
    readiness = _readiness(live, age)
    return with_pods_explained(readiness, live, related, manager=manager, waited=age or 0.0)


def applied_version(live: LiveObject, manager: str) -> str:
    """Return the API version in which the set has applied an object; empty if it has not."""
    ours = own_writer(live, manager)
    return "" if ours is None else ours.api_version


def _without_object(entry: InventoryEntry, readiness: Readiness) -> ObjectStatus:
    return ObjectStatus(entry.ref, readiness, entry.ownership, None, wave=entry.wave.wave)


def _is_absence_drift(entry: InventoryEntry, state: Missing, now: datetime | None) -> bool | None:
    """Return whether somebody else has deleted an object; None if that is unknown."""
    if isinstance(state, NotListed) or not entry.uid:
        return None
    if entry.job is None or was_deleted(entry.job, now):
        return True
    return False if entry.job.completed else None


def unready_objects(states: Iterable[State], now: datetime) -> Sequence[LiveObject]:
    """Return the objects that are not ready: what is around them shows why."""
    return [
        state
        for state in states
        if isinstance(state, LiveObject)
        and _readiness(state, _age(state, now)).status is not Status.CURRENT
    ]


def _readiness(live: LiveObject, age: float | None) -> Readiness:
    if live.body is None:
        return Readiness(Status.UNKNOWN, "it was not read in full")
    text = live.annotations.get(READY_WHEN, "")
    try:
        rule = _rule(text) if text else None
    except ApplypruneError as error:
        return Readiness(Status.UNKNOWN, str(error.problem))
    started = live.annotations.get(WAIT) == Wait.STARTED
    return assess(live.body, waited=age or 0.0, rule=rule, job_started=started)


@lru_cache(maxsize=256)
def _rule(text: str) -> Rule:
    return compile_rule(text, where=READY_WHEN)


def _age(live: LiveObject, now: datetime) -> float | None:
    return seconds_since(live.metadata.get("creationTimestamp"), now)


def is_waited_for(state: State) -> bool:
    """Return whether an object counts for the set's readiness; its annotations may exclude it."""
    if not isinstance(state, LiveObject):
        return True
    return state.annotations.get(WAIT) != Wait.SKIP and not leave_mark(state.metadata)


def status_error(counted: Collection[ObjectStatus]) -> ApplypruneError | None:
    """Return the error for the counted objects: RunFailed, NotReady, or None if all are ready."""
    unready = [one for one in counted if one.readiness.status is not Status.CURRENT]
    unknown = [one for one in unready if one.readiness.status is Status.UNKNOWN]
    if not (found := unknown or unready):
        return None
    are = f"{len(found)} of the set's {len(counted)} objects {'is' if len(found) == 1 else 'are'}"
    if unknown:
        return RunFailed(f"{are} unknown: {_names(unknown)}")
    return NotReady(f"{are} not ready: {_names(unready)}")


def status_warning(entry: InventoryEntry, world: World) -> Problem | None:
    """Return a warning about an object that is missing, unknown, or not ours any more."""
    state, applyset = world.states[entry.ref], world.applyset
    if isinstance(state, Unknown):
        return RunFailed(f"the state of {entry.ref} is unknown", reason=str(state.problem)).problem
    if isinstance(state, Missing):
        readiness = _absent(entry, state, world.now)
        if readiness.status is Status.CURRENT:
            return None
        return RunFailed(f"{entry.ref} does not exist", reason=readiness.message).problem
    if (problem := label_problem(entry, state, world.others, applyset)) is not None:
        return problem
    owner = owner_of(state, entry, applyset)
    if owner is Owner.OTHER:
        named = other_set(state)
        return RunFailed(
            f"{entry.ref} belongs to {f'the set {named}' if named else 'another set'} now",
            hint="If the input of this set no longer has it, the next apply removes it from the "
            "inventory.",
        ).problem
    if owner is not Owner.RECORDED and entry.uid:
        return RunFailed(
            f"{entry.ref} is not the object that the set has applied",
            reason="it was deleted and recreated: its UID has changed",
            hint=f"See: applyprune inventory check {applyset.arguments}",
        ).problem
    return None


def _absent(entry: InventoryEntry, state: Missing, now: datetime | None) -> Readiness:
    if isinstance(state, NotListed):
        return Readiness(Status.UNKNOWN, "it is unknown whether it exists")
    if isinstance(state, KindDeleted):
        return Readiness(Status.NOT_FOUND, state.reason)
    if not entry.uid:
        return Readiness(Status.NOT_FOUND, "no apply was ever confirmed; apply again")
    if entry.job is None:
        or_ttl = ", or its TTL has removed it" if entry.ref.group_kind == JOB else ""
        return Readiness(Status.NOT_FOUND, f"somebody has deleted it{or_ttl}")
    if was_deleted(entry.job, now):
        return Readiness(Status.NOT_FOUND, "somebody has deleted it")
    if entry.job.completed:
        return Readiness(Status.CURRENT, "it has completed, and its TTL has removed it")
    return Readiness(Status.NOT_FOUND, UNKNOWN_RESULT)


def unattributed_drift(status: ObjectStatus) -> Problem | None:
    """Return a warning for drift that cannot be attributed to any field."""
    if not status.drifted or status.drift:
        return None
    return RunFailed(
        f"{status.ref} has drifted, in unknown fields",
        reason="a removed field, or a field applied by the set's manager, has no other owner",
        hint="The next apply restores it.",
    ).problem


def _unknown(statuses: Iterable[ObjectStatus]) -> Sequence[ObjectStatus]:
    """Return the live objects of which nobody knows whether they have drifted."""
    return [one for one in statuses if one.drifted is None and one.age is not None]


def unknown_drift(statuses: Iterable[ObjectStatus]) -> Problem | None:
    """Return a warning about live objects of which nobody knows whether they have drifted."""
    if not (unknown := _unknown(statuses)):
        return None
    return RunFailed(
        f"it is unknown whether {_names(unknown)} {'has' if len(unknown) == 1 else 'have'} drifted",
        reason="no apply was confirmed since a run began to apply it",
        hint="Apply again.",
    ).problem


def unproven_values(statuses: Iterable[ObjectStatus], applyset: ApplySetIdentity) -> Problem | None:
    """Return a warning about objects whose values differ from those that the set has applied."""
    if not (unknown := _unknown(statuses)):
        return None
    return RunFailed(
        f"{counted(len(unknown), 'object')} may not have the values that the set has applied: "
        f"{_names(unknown)}",
        reason="somebody has changed a value, or the server has rewritten one",
        hint="To compare them with the manifests: "
        f"applyprune diff {applyset.arguments} -f PATH --reapply-all",
    ).problem


def _names(statuses: Sequence[ObjectStatus]) -> str:
    return and_more([status.ref.short for status in statuses], _SHOWN)


# The tree of what an object owns, with the columns of ``kubectl get``.


_DEEPEST = 6
"""A CronJob's Pod is at level 3; ownerReferences may also form a circle."""


def tree_of(body: Body, owned: Owned, now: datetime, *, level: int = 0) -> TreeNode:
    """Return an object with what it owns; ReplicaSets of earlier rollouts are left out."""
    parts = owned.get(text(body, "metadata", "uid"), ()) if level < _DEEPEST else ()
    nodes = [
        tree_of(part, owned, now, level=level + 1)
        for part in parts
        if text(part, "kind") != "ReplicaSet"
        or count(part, "spec", "replicas")
        or count(part, "status", "replicas")
    ]
    kind = GVK.parse(text(body, "apiVersion"), text(body, "kind")).group_kind
    metadata = text(body, "metadata", "namespace"), text(body, "metadata", "name")
    is_pod = kind == POD
    statuses = [mapping(one) for one in items(body, "status", "containerStatuses")]
    ready = sum(status.get("ready") is True for status in statuses)
    return TreeNode(
        ref=Ref(kind.group, kind.kind, *metadata),
        ready=f"{ready}/{len(items(body, 'spec', 'containers'))}" if is_pod else _pods_ready(body),
        state=pod_status(body) if is_pod else assess(body).status.text,
        restarts=sum(count(one, "restartCount") for one in statuses) if is_pod else None,
        age=seconds_since(text(body, "metadata", "creationTimestamp"), now),
        owned=tuple(sorted(nodes, key=lambda node: node.ref)),
    )


def _pods_ready(body: Body) -> str:
    if text(body, "kind") == "DaemonSet":
        wanted = whole_number(body, "status", "desiredNumberScheduled")
        ready = count(body, "status", "numberReady")
    elif text(body, "kind") == "Job":
        wanted = count(body, "spec", "completions", default=1)
        ready = count(body, "status", "succeeded")
    else:
        wanted = whole_number(body, "spec", "replicas")
        ready = count(body, "status", "readyReplicas")
    return "" if wanted is None else f"{ready}/{wanted}"


def by_owner(bodies: Iterable[Body]) -> Owned:
    """Return the objects by the UID of each of their owners."""
    found: dict[str, list[Body]] = {}
    for body in bodies:
        for owner in items(body, "metadata", "ownerReferences"):
            found.setdefault(text(mapping(owner), "uid"), []).append(body)
    return found


def pod_status(pod: Body) -> str:
    """Return the STATUS that ``kubectl get pods`` shows."""
    found = _init_status(pod) or _status(pod)
    if field(pod, "metadata", "deletionTimestamp"):
        return "Unknown" if text(pod, "status", "reason") == "NodeLost" else "Terminating"
    return visible(found)


def _init_status(pod: Body) -> str:
    """Return the status while init containers run; empty afterwards."""
    statuses = [mapping(one) for one in items(pod, "status", "initContainerStatuses")]
    for number, status in enumerate(statuses):
        ended = mapping(field(status, "state", "terminated"))
        if (ended and not count(ended, "exitCode")) or status.get("started") is True:
            continue  # done, or a sidecar that runs
        if ended:
            return f"Init:{_ended(ended)}"
        waits = text(status, "state", "waiting", "reason")
        if waits and waits != "PodInitializing":
            return f"Init:{waits}"
        return f"Init:{number}/{len(statuses)}"
    return ""


def _status(pod: Body) -> str:
    found = text(pod, "status", "reason") or text(pod, "status", "phase") or "Unknown"
    runs = False
    for status in reversed([mapping(one) for one in items(pod, "status", "containerStatuses")]):
        waits = text(status, "state", "waiting", "reason")
        ended = mapping(field(status, "state", "terminated"))
        if waits:
            found = waits
        elif ended:
            found = _ended(ended)
        elif status.get("ready") is True and field(status, "state", "running") is not None:
            runs = True
    ready = condition(pod, "Ready")
    if found == "Completed" and runs:
        return "Running" if ready is not None and ready.status == "True" else "NotReady"
    return found


def _ended(terminated: Body) -> str:
    signal = count(terminated, "signal")
    number = f"Signal:{signal}" if signal else f"ExitCode:{count(terminated, 'exitCode')}"
    return text(terminated, "reason") or number


# The containers whose logs show why an object is not ready.


_PODS = 3
LINES = 10
"""How many lines of a container are shown."""
_LONGEST = 400


def failing_instances(pods: Sequence[Body]) -> Iterator[ContainerLog]:
    """Yield the logs that show why an object is not ready, of the first few of its Pods.

    A log that does not exist has its ``problem`` already. Pods that run come before those that have
    failed, of which the last one comes first. Where no Pod fails now, a container that runs after a
    crash is asked for the instance that crashed.
    """
    kept = [pod for pod in pods if text(pod, "status", "phase") != "Failed"]
    failed = [pod for pod in pods if text(pod, "status", "phase") == "Failed"]
    ordered = (*kept, *sorted(failed, key=last_end, reverse=True))
    for judge in (_failing_in, _not_started_in, _crashed_in):
        failing = [found for pod in ordered if (found := list(judge(pod)))]
        if failing:
            yield from (log for logs in failing[:_PODS] for log in logs)
            return


def logs_hint(pods: Sequence[Body], applyset: ApplySetIdentity) -> str:
    """Return which command shows the logs of Pods that are not ready; empty if none has run."""
    if all(log.problem for log in failing_instances(pods)):
        return ""
    return f"What the containers have logged: applyprune status {applyset.arguments} --logs"


def _failing_in(pod: Body) -> Iterator[ContainerLog]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in map(mapping, items(pod, "status", kind)):
            for previous, problem in _instances(status, keeps_running=kind == "containerStatuses"):
                yield _log(pod, text(status, "name"), previous=previous, problem=problem)


def _instances(status: Body, *, keeps_running: bool) -> Iterator[tuple[bool, str]]:
    """Yield of each failing instance whether it is the previous one, and why it has no log."""
    state, is_ready = mapping(status.get("state")), status.get("ready") is True
    ended, last = mapping(state.get("terminated")), _last(status)
    waits = text(state, "waiting", "reason")
    # The status of an instance that the node has removed is lost, and its log as well.
    crashed = bool(last) or bool(waits and count(status, "restartCount"))
    failed = bool(count(ended, "exitCode")) or bool(count(ended, "signal"))
    unready = "running" in state and status.get("ready") is False
    if failed or (unready and (crashed or keeps_running)):
        yield False, _without_start(ended)
    if crashed and not (ended and not failed) and not is_ready:
        yield True, _without_start(last)
    elif not crashed and waits in IN_VAIN:
        yield False, f"{_NONE}: {waits}"


def _crashed_in(pod: Body) -> Iterator[ContainerLog]:
    """Yield the log of each instance that crashed before one that runs well now."""
    for name, status in containers(pod):
        last = _last(status)
        if count(last, "exitCode") and "running" in mapping(status.get("state")):
            yield _log(pod, name, previous=True, problem=_without_start(last))


def _not_started_in(pod: Body) -> Iterator[ContainerLog]:
    """Yield why the containers of a Pod have no log; an init container that runs has one."""
    phase = text(pod, "status", "phase")
    if phase == "Failed":
        reason = text(pod, "status", "reason") or "the Pod has failed"
        for one in items(pod, "spec", "containers"):
            yield _log(pod, text(mapping(one), "name"), problem=f"it is gone: {visible(reason)}")
    if phase != "Pending":
        return
    scheduled = condition(pod, "PodScheduled")
    waits = scheduled.reason if scheduled is not None and scheduled.status == "False" else ""
    states = {name: mapping(status.get("state")) for name, status in containers(pod)}
    if running := [name for name, state in states.items() if "running" in state]:
        yield from (_log(pod, name) for name in running)
        return
    for one in items(pod, "spec", "containers"):
        name = text(mapping(one), "name")
        why = text(states.get(name, {}), "waiting", "reason") or waits or "Pending"
        yield _log(pod, name, problem=f"{_NONE}: {visible(why)}")


_NONE = "there is none, the container has not started"


def _last(status: Body) -> Body:
    return mapping(field(status, "lastState", "terminated"))


def _without_start(ended: Body) -> str:
    """Return that an instance has no log, because its program was never started; else nothing."""
    reason = text(ended, "reason")
    return f"{_NONE}: {reason}" if reason in NEVER_RAN else ""


def _log(pod: Body, container: str, *, previous: bool = False, problem: str = "") -> ContainerLog:
    metadata = text(pod, "metadata", "namespace"), text(pod, "metadata", "name")
    ref = Ref(POD.group, POD.kind, *metadata)
    return ContainerLog(ref, visible(container), previous=previous, problem=problem)


# What a kubelet (1.36) or the API server says instead of a log, and what it means. A kubelet says
# the last two in place of the log itself.
_NO_LOG = (
    (pattern(r"is waiting to start: (.+)"), f"{_NONE}: "),
    (pattern(r"previous terminated container"), "it is gone: the node has removed that instance"),
    (pattern(r"is not available$"), "it is gone: the node has removed the container"),
    (pattern(r"^pods? .* not found|^pod does not exist"), "it is gone with its Pod"),
    (pattern(r"^unable to retrieve container logs for "), "it is gone: the node has removed it"),
    (pattern(r"^failed to try resolving symlinks in path "), "it is gone: the node has removed it"),
)


def why_no_log(told: str) -> str:
    """Return why a log cannot be shown, by the words that came instead."""
    for words, meaning in _NO_LOG:
        if found := words.search(told.strip()):
            return f"{meaning}{visible(found[1])}" if found.re.groups else meaning
    return f"it cannot be read: {told}"


def shown_log(one: ContainerLog, log: str) -> ContainerLog:
    """Return the last lines of a log, unless a kubelet says in its place that it is gone."""
    told = log.strip()
    if "\n" not in told and any(words.search(told) for words, _ in _NO_LOG[-2:]):
        return replace(one, problem=why_no_log(told))
    return replace(one, lines=log_lines(log))


def log_lines(log: str) -> tuple[str, ...]:
    """Return the last lines of a log, escaped and cut: a container may write anything."""
    lines = log.splitlines()[-LINES:]
    return tuple(
        f"{line[:_LONGEST]}…" if len(line) > _LONGEST else line for line in map(visible, lines)
    )

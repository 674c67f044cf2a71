"""What a Pod's state means: its containers, how they have ended, and what events tell of it.

One reason for each Pod, whoever asks. Based on kstatus (core.go), with additions: a failed Pod is
Failed, init containers count, and failed image pulls and failed container creations are detected.
Only what cannot recover is Failed; what can is stuck: a crash, a missing node, a missing image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.events import (
    Readiness,
    Status,
    WarningEvent,
    current,
    failed,
    in_progress,
    stuck,
)
from applyprune.model.identity import Ref
from applyprune.model.live import (
    condition,
    count,
    field,
    items,
    mapping,
    one_line,
    text,
    whole_number,
)
from applyprune.model.text import seconds_since, time_of, visible
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    Body = Mapping[str, Any]
    Events = Sequence[Mapping[str, Any]]


# The image of a Pod can be changed, but its controllers never do it.
_NEVER = "InvalidImageName"
_CRASHING = "CrashLoopBackOff"
_NOT_STARTABLE = "RunContainerError"
# The kubelet alternates between the two while an image cannot be pulled.
_PULLING = ("ErrImagePull", "ImagePullBackOff")
# Reasons for which a container waits in vain, the worst one first. Those after a crash are stuck
# after a grace period in which a registry may answer again, or a ConfigMap of the same run may
# arrive. As in kstatus, a crash has priority; in kstatus only while the Pod is Running.
IN_VAIN = {
    _NEVER: 0,
    _CRASHING: 1,
    **dict.fromkeys(_PULLING, 2),
    "CreateContainerConfigError": 2,
    "CreateContainerError": 2,
    "ErrImageNeverPull": 2,
    "ImageInspectError": 2,
    "PreCreateHookError": 2,
    "RegistryUnavailable": 2,
    _NOT_STARTABLE: 2,
    "SignatureValidationFailed": 2,
}
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
"""The reasons of an end without a start: there was no such program, or no right to run it."""


_NO_EVENTS: Mapping[str, Events] = {}


def pod_readiness(body: Body, waited: float) -> Readiness:
    """Return the readiness of a Pod by its phase and its containers.

    Unlike in kstatus, phase Failed is Failed, and the 15 seconds count from the apply (``waited``),
    not from the creation, because this module has no clock.
    """
    phase = text(body, "status", "phase")
    if phase == "Succeeded":
        return current("the Pod has completed")
    if phase == "Failed":
        return failed(_failure(body))
    if not phase:
        return in_progress("the Pod has no phase yet")
    if phase not in {"Running", "Pending"}:
        return Readiness(Status.UNKNOWN, f"the Pod's phase is {phase}")
    ready = condition(body, "Ready")
    if phase == "Running" and ready is not None and ready.status == "True":
        return current("the Pod is ready")
    if (problem := _waiting(body, waited) or _restarted(body)) is not None:
        return problem
    if phase == "Pending":
        return in_progress("the Pod is pending")
    unready = [
        name
        for name, status in containers(body)
        if status.get("ready") is False and not field(status, "state", "terminated")
    ]
    named = f": {', '.join(unready)}" if unready else ""
    return in_progress(f"the Pod runs but is not ready{named}")


def _failure(pod: Body) -> str:
    return f"the Pod has failed: {_why_failed(pod) or 'no reason is given'}"


def _why_failed(pod: Body) -> str:
    """Return what is known of a Pod that has failed: its reason, and how its containers ended."""
    reason, message = text(pod, "status", "reason"), one_line(text(pod, "status", "message"))
    parts = [": ".join(part for part in (reason, message) if part)]
    for name, status in containers(pod):
        ended = mapping(field(status, "state", "terminated"))
        if not ended:  # it waits, or runs, after it has failed
            ended = mapping(field(status, "lastState", "terminated"))
        if count(ended, "exitCode"):
            parts.append(f"container {name} exited with {how_ended(ended, code='code')}")
    return "; ".join(filter(None, parts))


def last_failure(pods: Sequence[Body]) -> str:
    """Return how the Pod of a Job that failed last has ended, or why it did not run; may be empty.

    A Pod that has succeeded or still runs tells nothing.
    """
    told = [(pod, why) for pod in pods if (why := _why_failed(pod) or _why_waiting(pod))]
    if not told:
        return ""
    pod, why = max(told, key=lambda one: last_end(one[0]))
    return f"pod/{text(pod, 'metadata', 'name')}: {why}"


def _why_waiting(pod: Body) -> str:
    problem = _waiting(pod, math.inf)
    return "" if problem is None else problem.message


def last_end(pod: Body) -> str:
    """Return when a container of a Pod has last ended, else when the Pod was created, RFC 3339."""
    ends = (
        text(status, state, "terminated", "finishedAt")
        for _, status in containers(pod)
        for state in ("state", "lastState")
    )
    return max(ends, default="") or text(pod, "metadata", "creationTimestamp")


def pods_problem(
    pods: Sequence[Body], events: Mapping[str, Events] = _NO_EVENTS, *, waited: float
) -> Readiness | None:
    """Return the worst problem of a workload's Pods: the first Failed one, or the first stuck one.

    ``pods`` are the Pods of the workload's current template (``current_pods``), and ``events`` are
    by the UID of their object. A Pod in phase Failed is not a problem: its controller replaces it.
    A crash in a Job is not a problem either: ``backoffLimit`` counts crashes.
    """
    found = [
        replace(
            problem,
            message=f"pod/{text(pod, 'metadata', 'name')}: {problem.message}",
            # Which of several Pods is seen first is chance.
            lasting_message=f"its Pods: {problem.fact}",
        )
        for pod in pods
        if (problem := pod_problem(pod, events, waited=waited)) is not None
    ]
    return min(
        found, key=lambda one: (one.status is not Status.FAILED, not one.stuck), default=None
    )


def pod_problem(
    pod: Body, events: Mapping[str, Events] = _NO_EVENTS, *, waited: float
) -> Readiness | None:
    """Return why a Pod is not ready, by its state, its last state and its events; None if unknown.

    Neither a volume that cannot be mounted nor a probe that fails stands in a status: the newest
    warning of the kubelet tells it.
    """
    phase, ready = text(pod, "status", "phase"), condition(pod, "Ready")
    if field(pod, "metadata", "deletionTimestamp") or phase not in {"Running", "Pending"}:
        return None
    problem = _waiting(pod, waited) or _restarted(pod)
    warnings = _newest_first(events.get(text(pod, "metadata", "uid"), ()))
    if problem is not None and _CRASHING in problem.fact:
        why = next((one for one in warnings if _is_killing_probe(one)), None)
        if why is not None:
            message = f"{problem.message}; {_warning(why)}"
            problem = replace(problem, message=message, lasting_message=problem.fact)
    if problem is not None or (ready is not None and ready.status == "True"):
        return problem
    reasons = _NOT_STARTED if phase == "Pending" else {_UNHEALTHY}
    event = next((one for one in warnings if one.get("reason") in reasons), None)
    if event is None:
        return None
    lasts = phase == "Pending" and waited > GRACE
    return stuck(_warning(event)) if lasts else in_progress(_warning(event))


_NOT_STARTED = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"}
)
_UNHEALTHY = "Unhealthy"
# The kubelet kills a container for these, and for no other.
_KILLING = ("Liveness probe", "Startup probe")


def _is_killing_probe(event: Mapping[str, Any]) -> bool:
    return event.get("reason") == _UNHEALTHY and _message(event).startswith(_KILLING)


def _warning(event: Mapping[str, Any]) -> str:
    return f"{visible(text(event, 'reason'))}: {_told(event)}"


def _restarted(pod: Body) -> Readiness | None:
    """Return that a container has failed, and runs again or will; None if none has.

    Between two crashes it runs, and waits for nothing.
    """
    for name, status in containers(pod):
        ended = mapping(field(status, "state", "terminated"))
        last = mapping(field(status, "lastState", "terminated"))
        restarts = count(status, "restartCount")
        if status.get("ready") is True or not (count(ended, "exitCode") or (last and restarts)):
            continue
        if not restarts:
            return in_progress(f"container {name} exited with {how_ended(ended, code='code')}")
        times = "once" if restarts == 1 else f"{restarts} times"
        return replace(
            in_progress(
                f"container {name} has restarted {times} (last {how_ended(ended or last)})"
            ),
            lasting_message=_crash_fact(name, ended or last),
        )
    return None


def _crash_fact(name: str, ended: Body) -> str:
    """Return what stays of a crash while the container waits, starts and runs again."""
    last = f" (last {how_ended(ended, why=False)})" if ended else ""
    return f"container {name}: {_CRASHING}{last}"


def _waiting(pod: Body, waited: float) -> Readiness | None:
    """Return the problem of a Pod that waits for something that probably will not happen."""
    waiting = [
        (IN_VAIN[reason], name, reason, status)
        for name, status in containers(pod)
        if (reason := text(status, "state", "waiting", "reason")) in IN_VAIN
    ]
    if waiting:
        _, name, reason, status = min(waiting, key=lambda one: one[0])
        told = text(status, "state", "waiting", "message")
        last = mapping(field(status, "lastState", "terminated"))
        # The kubelet alternates between two reasons, and gives the same cause with each.
        if reason in _PULLING:
            reason = "ImagePullBackOff"
        elif reason == _CRASHING and text(last, "reason") in NEVER_RAN:
            reason, told = _NOT_STARTABLE, text(last, "message")
        told = _cause(told)
        message = ": ".join(filter(None, (f"container {name}", reason, told)))
        if reason == _NEVER:
            return failed(message)
        lasts, fact = waited > GRACE, ""
        if reason == _CRASHING:
            message = f"{message} (last {how_ended(last)})" if last else message
            fact = _crash_fact(name, last)
            lasts = controller_of(pod).get("kind") != "Job"
        elif reason == "ImagePullBackOff":
            fact = f"container {name}: {reason}"
        # The fact has no time of the next try.
        return replace(stuck(message) if lasts else in_progress(message), lasting_message=fact)
    scheduled = condition(pod, "PodScheduled")
    if text(pod, "status", "phase") == "Pending" and scheduled and scheduled.status == "False":
        if scheduled.reason == "Unschedulable":
            return stuck(scheduled.told) if waited > GRACE else in_progress(scheduled.told)
        if scheduled.reason == "SchedulingGated":
            return in_progress(scheduled.told)
    return None


_BESIDE = pattern(
    r" restarting failed container=.*| in pod [^ ]+_[^ ]+\([-\w]+\)$"
    r'| \(pod: "[^"]*", container: [^ ]+\)$|: unknown$'
    r"|\b(?:read|write) (?:tcp|udp) [^ ]+->[^ ]+: "
)
_LONGEST = 4096
"""Characters of a message that are looked at."""
_IMAGE = pattern(r'(?:image|reference) "([^"]*)"')
_WRAPPERS = pattern(
    r'(?:Back-off pulling image "[^"]*"|ErrImagePull|rpc error: code = \w+ desc = '
    r'|[Ff]ailed to pull(?: and unpack)? image "[^"]*"|failed to resolve (?:image|reference)'
    r'(?: "[^"]*")?|failed to do request|(?:Head|Get) "[^"]*"|dial tcp'
    r"|failed to (?:create|start) \w+(?: task)?|failed to create shim task"
    r"|(?:OCI runtime|runc) (?:create|start|exec) failed|unable to start container process"
    r"|error during container init)(?:: |(?<== )|$)"
)


def _cause(told: str) -> str:
    """Return the innermost cause of what a kubelet says, with the image that it cannot pull.

    The name and the UID of the Pod stand elsewhere, ``unknown`` is a code of gRPC, and each try has
    another port.
    """
    told = _BESIDE.sub("", " ".join(told[:_LONGEST].split()))
    cause, image = _innermost(told), _IMAGE.search(told)
    if cause and image is not None and image[1] not in cause:
        cause = f"{image[1]}: {cause}"
    # In this order: what is cut off must not be the cause.
    return one_line(cause or told)


def _innermost(told: str) -> str:
    """Return the cause that a kubelet, containerd and runc have wrapped."""
    while found := _WRAPPERS.match(told):
        told = told[found.end() :]
    return told


def containers(pod: Body) -> Iterator[tuple[str, Body]]:
    """Yield the name and status of each container, init containers first because they run first."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for item in items(pod, "status", kind):
            status = mapping(item)
            yield text(status, "name"), status


def how_ended(terminated: Body, *, code: str = "exit code", why: bool = True) -> str:
    """Return how a container has ended: ``exit code 137, OOMKilled``; empty if that is unknown.

    With ``why``, the last line of its termination message follows.
    """
    if not terminated:
        return ""
    reason, lines = text(terminated, "reason"), text(terminated, "message").strip().splitlines()
    parts = [f"{code} {count(terminated, 'exitCode')}"]
    if reason not in {"", "Error"}:
        parts.append(visible(reason))
    told = f": {_cause(lines[-1])}" if why and lines else ""
    return f"{', '.join(parts)}{told}"


def grace_of(pod: Body) -> str:
    """Return which containers of a Pod that is being deleted may run, and until when; may be empty.

    Of a Pod that was not read in full, it is not known which of them still run.
    """
    until, seconds = (
        text(pod, "metadata", "deletionTimestamp"),
        whole_number(pod, "metadata", "deletionGracePeriodSeconds"),
    )
    running = [name for name, one in containers(pod) if "running" in mapping(one.get("state"))]
    if not until or seconds == 0 or ("status" in pod and not running):
        return ""
    who = f"container {', '.join(running)}" if running else "its containers"
    return f"{who} may run until {until}" + (f", {seconds} s in all" if seconds else "")


def controller_of(body: Body) -> Body:
    """Return the reference of an object to its controller; empty if it has none."""
    owners = (mapping(owner) for owner in items(body, "metadata", "ownerReferences"))
    return next((owner for owner in owners if owner.get("controller") is True), {})


# The events about an object: its last warnings, and whether the server rejects its Pods.


GRACE = 15.0
"""Seconds before a reason that is often temporary counts as final; as kstatus for scheduling."""
_SHOWN = 3
_RECENT = 300.0
"""Seconds before the newest warning; a kubelet repeats itself at least so often."""
# The length of an RFC 3339 time up to its seconds.
_SECONDS = 19
# The wording of the API server and its admission plugins (1.36).
_REFUSED = ("forbidden", "exceeded quota", "is invalid:")
_DENIED = ("admission webhook", "ValidatingAdmissionPolicy")


def last_warnings(events: Events) -> tuple[WarningEvent, ...]:
    """Return the last warnings, one for each reason and at most three; what repeats comes first.

    ``events`` are those of an object, or of an object and its Pods. What has not come for a while
    before the newest one comes last.
    """
    by_reason: dict[str, list[WarningEvent]] = {}
    for event in _newest_first(events):
        if event.get("type") == "Warning":
            found = _of_event(event)
            by_reason.setdefault(found.reason, []).append(found)
    warnings = [_together(found) for found in by_reason.values()]
    newest = time_of(warnings[0].last) if warnings else None

    def rank(one: WarningEvent) -> tuple[bool, bool]:
        age = None if newest is None else seconds_since(one.last, newest)
        return age is not None and age > _RECENT, one.count == 1

    return tuple(sorted(warnings, key=rank)[:_SHOWN])


def _of_event(event: Mapping[str, Any]) -> WarningEvent:
    times = (
        count(event, "count"),
        count(event, "deprecatedCount"),
        count(event, "series", "count"),
    )
    reason = visible(text(event, "reason")) or "Warning"
    return WarningEvent(_about(event), reason, _told(event), max(1, *times), _time(event))


def _together(found: Sequence[WarningEvent]) -> WarningEvent:
    """Return the events of one reason as one; ``Failed`` often only repeats the state of a Pod."""
    telling = [one for one in found if not one.message.isalpha()] or found
    return replace(telling[0], count=sum(one.count for one in telling))


def adds_to(warning: WarningEvent, said: str) -> bool:
    """Return whether a warning says more than was ``said``; a back-off is part of such a reason."""
    is_back_off = warning.reason == "BackOff" and "BackOff" in said
    return not is_back_off and warning.message not in said


def _about(event: Mapping[str, Any]) -> str:
    subject = mapping(event.get("involvedObject")) or mapping(event.get("regarding"))
    group = text(subject, "apiVersion").rpartition("/")[0]
    return Ref(group, text(subject, "kind"), "", text(subject, "name")).short


def refused_creation(events: Events, *, waited: float = math.inf, since: str = "") -> str:
    """Return the server's message if the newest creation of a Pod was rejected, else "".

    StatefulSets, DaemonSets and Jobs have no condition for this, only FailedCreate events. Those
    from before ``since``, the RFC 3339 time of the last apply, are about what it may have repaired.
    """
    for event in _newest_first(events):
        is_older = _time(event)[:_SECONDS] < since[:_SECONDS]
        if is_older or event.get("reason") == "SuccessfulCreate":
            return ""
        if event.get("reason") == "FailedCreate":
            message = one_line(_message(event))
            return message if is_refusal(message, waited=waited) else ""
    return ""


def _newest_first(events: Events) -> Events:
    # Times are RFC 3339 in UTC, some with microseconds: truncated to seconds, they compare as text.
    # Of two events in the same second, the later event in the list counts as newer.
    placed = sorted(
        enumerate(events),
        key=lambda indexed: (_time(indexed[1])[:_SECONDS], indexed[0]),
        reverse=True,
    )
    return [event for _, event in placed]


def _time(event: Mapping[str, Any]) -> str:
    return max(
        text(event, "series", "lastObservedTime"),
        text(event, "lastTimestamp"),
        text(event, "deprecatedLastTimestamp"),
        text(event, "eventTime"),
    ) or text(event, "metadata", "creationTimestamp")


def _told(event: Mapping[str, Any]) -> str:
    """Return the cause that an event tells, without the names that stand beside it."""
    return _cause(_message(event).removeprefix("Error: "))


def _message(event: Mapping[str, Any]) -> str:
    # events.k8s.io/v1 has `note` instead of `message`.
    return text(event, "message") or text(event, "note")


# Temporary rejections: the service account controller creates `default` shortly after a Namespace,
# the quota controller must count first, and a rollout frees quota when it removes old Pods.
_TEMPORARY = (
    "exceeded quota",
    "status unknown for quota",
    "error looking up service account",
    "no API token found for service account",
    "not yet ready to handle request",
)


def is_refusal(message: str, *, waited: float = math.inf) -> bool:
    """Return whether a message is a permanent rejection by the API server.

    These are quota, Pod Security and other admission, and webhooks that deny. A webhook that cannot
    be called is not a rejection. A rejection that is often temporary counts after 15 seconds.
    """
    denied = "denied" in message and any(words in message for words in _DENIED)
    refused = denied or any(words in message for words in _REFUSED)
    return refused and (waited > GRACE or not any(words in message for words in _TEMPORARY))

"""Assess whether a Pod is ready, and what the Pods of a workload show about the workload.

Based on kstatus (cli-utils, pkg/kstatus/status/core.go), with additions: a failed Pod is Failed,
init containers count, and failed image pulls and failed container creations are detected. Events
and conditions of a workload show above all whether its Pods are rejected.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, Status, current, failed, in_progress
from applyprune.model.json_access import (
    condition,
    count,
    field,
    items,
    mapping,
    one_line,
    text,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

if TYPE_CHECKING:
    Body = Mapping[str, Any]

_CRASHING = "CrashLoopBackOff"
# Reasons for which a container waits in vain: Failed immediately, or after a grace period in which
# a registry may answer again, or a ConfigMap of the same run may arrive.
_AT_ONCE = frozenset({_CRASHING, "InvalidImageName"})
_LASTING = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "PreCreateHookError",
        "RegistryUnavailable",
        "RunContainerError",
        "SignatureValidationFailed",
    }
)
_HASH = "controller-revision-hash"
_DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"
_DAEMON_GENERATION = "pod-template-generation"
_DAEMON_TEMPLATE = "deprecated.daemonset.template.generation"


def assess_pod(body: Body, *, waited: float) -> Readiness:
    """Return the readiness of a Pod by its phase and its containers.

    Unlike in kstatus, phase Failed is Failed, and the 15 seconds count from the apply (``waited``),
    not from the creation, because this module has no clock.
    """
    phase = text(body, "status", "phase")
    if phase == "Succeeded":
        return current("the Pod has completed")
    if phase == "Failed":
        return failed(_failure(body))
    ready = condition(body, "Ready")
    if phase == "Running" and ready is not None and ready.status == "True":
        return current("the Pod is ready")
    if phase in {"Running", "Pending"}:
        return _waiting(body, waited=waited) or in_progress(_unready(body, phase))
    if not phase:
        return in_progress("the Pod has no phase yet")
    return Readiness(Status.UNKNOWN, f"the Pod's phase is {phase}")


def pods_problem(pods: Sequence[Body], *, waited: float) -> Readiness | None:
    """Return the first persistent problem of a workload's Pods, a Failed problem first.

    ``pods`` are the Pods of the workload's current template (``current_pods``). A Pod in phase
    Failed is not a problem: its controller replaces it. A crash in a Job is not a problem either:
    ``backoffLimit`` counts crashes.
    """
    found = None
    for pod in pods:
        if field(pod, "metadata", "deletionTimestamp") or text(pod, "status", "phase") not in {
            "Running",
            "Pending",
        }:
            continue
        problem = _waiting(pod, waited=waited)
        if problem is None:
            continue
        message = f"pod/{text(pod, 'metadata', 'name')}: {problem.message}"
        readiness = Readiness(problem.status, message)
        if readiness.status is Status.FAILED:
            return readiness
        found = found or readiness
    return found


def current_pods(
    workload: Body, pods: Sequence[Body], replica_sets: Sequence[Body] = ()
) -> Sequence[Body]:
    """Return the Pods of a workload's current template.

    Pods of an earlier template show nothing about the current template, which may repair them. The
    Pods of a Deployment are found through its ReplicaSets.
    """
    generation = whole_number(workload, "metadata", "generation")
    observed = whole_number(workload, "status", "observedGeneration")
    if None not in {generation, observed} and observed != generation:
        return ()
    if workload.get("kind") == "Deployment":
        revision = text(workload, "metadata", "annotations", _DEPLOYMENT_REVISION)
        newest = [
            replica_set
            for replica_set in _owned(workload, replica_sets)
            if text(replica_set, "metadata", "annotations", _DEPLOYMENT_REVISION) == revision
        ]
        return [pod for replica_set in newest for pod in _owned(replica_set, pods)]
    owned = _owned(workload, pods)
    label, wanted = "", ""
    if workload.get("kind") == "StatefulSet":
        label, wanted = _HASH, text(workload, "status", "updateRevision")
    elif workload.get("kind") == "DaemonSet":
        label = _DAEMON_GENERATION
        wanted = text(workload, "metadata", "annotations", _DAEMON_TEMPLATE)
    return [pod for pod in owned if not wanted or _label(pod, label) == wanted]


def _label(pod: Body, name: str) -> str:
    return text(pod, "metadata", "labels", name)


def _owned(owner: Body, bodies: Sequence[Body]) -> Sequence[Body]:
    uid = field(owner, "metadata", "uid")
    return [body for body in bodies if mapping(_controller(body)).get("uid") == uid]


def _controller(body: Body) -> Body:
    owners = (mapping(owner) for owner in items(body, "metadata", "ownerReferences"))
    return next((owner for owner in owners if owner.get("controller") is True), {})


def _waiting(pod: Body, *, waited: float) -> Readiness | None:
    """Return the problem of a Pod that waits for something that probably will not happen."""
    scheduled = condition(pod, "PodScheduled")
    in_a_job = _controller(pod).get("kind") == "Job"
    # As in kstatus, a crash has priority; in kstatus only while the Pod is Running.
    for name, status in _containers(pod):
        reason = text(status, "state", "waiting", "reason")
        if reason in _AT_ONCE:
            message = _container(name, reason, status)
            crash = reason == _CRASHING and in_a_job
            return in_progress(message) if crash else failed(message)
    for name, status in _containers(pod):
        reason = text(status, "state", "waiting", "reason")
        if reason in _LASTING:
            return _lasting(_container(name, reason, status), waited)
    if text(pod, "status", "phase") == "Pending" and scheduled and scheduled.status == "False":
        if scheduled.reason == "Unschedulable":
            return _lasting(scheduled.told, waited)
        if scheduled.reason == "SchedulingGated":
            return in_progress(scheduled.told)
    return None


def _lasting(message: str, waited: float) -> Readiness:
    return failed(message) if waited > GRACE else in_progress(message)


def _containers(pod: Body) -> Iterator[tuple[str, Body]]:
    """Yield the name and status of each container, init containers first because they run first."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for item in items(pod, "status", kind):
            status = mapping(item)
            yield text(status, "name"), status


def _container(name: str, reason: str, status: Body) -> str:
    parts = [f"container {name}", reason, one_line(text(status, "state", "waiting", "message"))]
    message = ": ".join(part for part in parts if part)
    last = _ended(mapping(field(status, "lastState", "terminated")))
    return f"{message} (last {last})" if last and reason == _CRASHING else message


def _ended(terminated: Body) -> str:
    if not terminated:
        return ""
    reason = text(terminated, "reason")
    code = f"exit code {count(terminated, 'exitCode')}"
    return f"{code}, {reason}" if reason and reason != "Error" else code


def _failure(pod: Body) -> str:
    """Return why a Pod in phase Failed has failed."""
    reason, message = text(pod, "status", "reason"), one_line(text(pod, "status", "message"))
    parts = [": ".join(part for part in (reason, message) if part)]
    for name, status in _containers(pod):
        terminated = mapping(field(status, "state", "terminated"))
        if count(terminated, "exitCode"):
            parts.append(f"container {name}: {_ended(terminated)}")
    return f"the Pod has failed: {'; '.join(filter(None, parts)) or 'no reason is given'}"


def _unready(pod: Body, phase: str) -> str:
    names = [name for name, status in _containers(pod) if _is_awaited(status)]
    if phase == "Pending":
        return "the Pod is pending"
    if names:
        return f"the Pod runs but is not ready: {', '.join(names)}"
    return "the Pod runs but is not ready"


def _is_awaited(status: Body) -> bool:
    return status.get("ready") is False and not field(status, "state", "terminated")


if TYPE_CHECKING:
    Events = Sequence[Mapping[str, Any]]

GRACE = 15.0
"""Seconds before a reason that is often temporary counts as final; as kstatus for scheduling."""

_SHOWN = 3
# The wording of the API server and its admission plugins (1.36).
_REFUSED = ("forbidden", "exceeded quota", "is invalid:")
_DENIED = ("admission webhook", "ValidatingAdmissionPolicy")
# Temporary rejections: the service account controller creates `default` shortly after a Namespace,
# the quota controller must count first, and a rollout frees quota when it removes old Pods.
_PASSING = (
    "exceeded quota",
    "status unknown for quota",
    "error looking up service account",
    "no API token found for service account",
    "not yet ready to handle request",
)
_FAILED_CREATE = "FailedCreate"
_CREATED = "SuccessfulCreate"


def is_refusal(message: str, *, waited: float = math.inf) -> bool:
    """Return whether a message is a permanent rejection by the API server.

    These are quota, Pod Security and other admission, and webhooks that deny. A webhook that cannot
    be called is not a rejection. A rejection that is often temporary counts after 15 seconds.
    """
    refused = any(words in message for words in _REFUSED) or is_denial(message)
    return refused and (waited > GRACE or not any(words in message for words in _PASSING))


def is_denial(message: str) -> bool:
    """Return whether a message is the denial of an admission webhook or policy."""
    return "denied" in message and any(words in message for words in _DENIED)


def events_problem(events: Events) -> str:
    """Return the newest Warning events, at most three lines of ``Reason: message`` with counts.

    ``events`` are those of an object, or of an object and its Pods.
    """
    lines: dict[str, int] = {}
    for event in _newest_first(events):
        if event.get("type") == "Warning":
            line = f"{text(event, 'reason') or 'Warning'}: {one_line(_message(event))}"
            # Combine equal events of several Pods into one line.
            lines[line] = lines.get(line, 0) + _times(event)
    return "\n".join(
        f"{line} (×{times})" if times > 1 else line for line, times in list(lines.items())[:_SHOWN]
    )


def refused_creation(events: Events, *, waited: float = math.inf) -> str:
    """Return the server's message if the newest creation of a Pod was rejected, else "".

    StatefulSets, DaemonSets and Jobs have no condition for this, only FailedCreate events.
    """
    for event in _newest_first(events):
        if event.get("reason") == _CREATED:
            return ""
        if event.get("reason") == _FAILED_CREATE:
            message = one_line(_message(event))
            return message if is_refusal(message, waited=waited) else ""
    return ""


def _newest_first(events: Events) -> Events:
    # Times are RFC 3339 in UTC, some with microseconds: truncated to seconds, they compare as text.
    # Of two events in the same second, the later event in the list counts as newer.
    placed = sorted(
        enumerate(events), key=lambda indexed: (_time(indexed[1])[:19], indexed[0]), reverse=True
    )
    return [event for _, event in placed]


def _time(event: Mapping[str, Any]) -> str:
    return max(
        text(event, "series", "lastObservedTime"),
        text(event, "lastTimestamp"),
        text(event, "deprecatedLastTimestamp"),
        text(event, "eventTime"),
    ) or text(event, "metadata", "creationTimestamp")


def _message(event: Mapping[str, Any]) -> str:
    # events.k8s.io/v1 has `note` instead of `message`.
    return text(event, "message") or text(event, "note")


def _times(event: Mapping[str, Any]) -> int:
    return max(
        count(event, "count"), count(event, "deprecatedCount"), count(event, "series", "count"), 1
    )

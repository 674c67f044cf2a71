"""When a Pod is ready, and what the Pods of a workload tell about it.

After kstatus (cli-utils, pkg/kstatus/status/core.go), and further: a Pod that failed is Failed,
init containers count, and images that cannot be pulled and containers that cannot be made are seen.

What the events and conditions of a workload tell: above all, that its Pods are refused.
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
# Why a container waits for something that is not on its way: Failed at once, or after the grace
# in which a registry answers again or a ConfigMap of the same run arrives.
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
    """Return the state of a Pod by its phase and its containers.

    Unlike kstatus, phase Failed is Failed, and 15 seconds count from the apply (``waited``), not
    from the creation: there is no clock here.
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
    """Return the first thing in a workload's Pods that will not pass by itself, Failed before rest.

    ``pods`` are those of the workload's present template (``current_pods``). A Pod in phase Failed
    is none: its controller makes another. Nor is a crash in a Job: ``backoffLimit`` counts those.
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
        told = Readiness(problem.status, f"pod/{text(pod, 'metadata', 'name')}: {problem.message}")
        if told.status is Status.FAILED:
            return told
        found = found or told
    return found


def current_pods(
    workload: Body, pods: Sequence[Body], replica_sets: Sequence[Body] = ()
) -> Sequence[Body]:
    """Return the Pods that a workload has made of its present template.

    Those of the template before say nothing about this one, and may be what it is to repair. A
    Deployment's Pods are found through its ReplicaSets.
    """
    generation = whole_number(workload, "metadata", "generation")
    observed = whole_number(workload, "status", "observedGeneration")
    if None not in {generation, observed} and observed != generation:
        return ()
    if workload.get("kind") == "Deployment":
        revision = text(workload, "metadata", "annotations", _DEPLOYMENT_REVISION)
        newest = [
            one
            for one in _owned(workload, replica_sets)
            if text(one, "metadata", "annotations", _DEPLOYMENT_REVISION) == revision
        ]
        return [pod for one in newest for pod in _owned(one, pods)]
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
    return [one for one in bodies if mapping(_controller(one)).get("uid") == uid]


def _controller(body: Body) -> Body:
    owners = (mapping(one) for one in items(body, "metadata", "ownerReferences"))
    return next((one for one in owners if one.get("controller") is True), {})


def _waiting(pod: Body, *, waited: float) -> Readiness | None:
    """Return what a Pod that is not ready waits for and will hardly get."""
    scheduled = condition(pod, "PodScheduled")
    in_a_job = _controller(pod).get("kind") == "Job"
    # As in kstatus a crash comes before everything else; there only while the Pod is Running.
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
    """Yield each container's name and status, init containers first: they run first."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for item in items(pod, "status", kind):
            status = mapping(item)
            yield text(status, "name"), status


def _container(name: str, reason: str, status: Body) -> str:
    parts = [f"container {name}", reason, one_line(text(status, "state", "waiting", "message"))]
    told = ": ".join(part for part in parts if part)
    last = _ended(mapping(field(status, "lastState", "terminated")))
    return f"{told} (last {last})" if last and reason == _CRASHING else told


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
"""Seconds for which a reason that often passes is not taken for final: kstatus's for scheduling."""

_SHOWN = 3
# In the words of the API server and its admission plugins (1.36).
_REFUSED = ("forbidden", "exceeded quota", "is invalid:")
_DENIED = ("admission webhook", "ValidatingAdmissionPolicy")
# Refusals that pass: the service account controller makes `default` shortly after a Namespace, the
# quota controller first counts, and a rollout frees quota as it takes old Pods away.
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
    """Return whether the message is a refusal of the API server that will not pass by itself.

    Quota, Pod Security and other admission, and webhooks that deny; a webhook that cannot be
    called is none. What often passes counts once it has lasted 15 seconds.
    """
    refused = any(words in message for words in _REFUSED) or is_denial(message)
    return refused and (waited > GRACE or not any(words in message for words in _PASSING))


def is_denial(message: str) -> bool:
    """Return whether the message is an admission webhook's or policy's refusal."""
    return "denied" in message and any(words in message for words in _DENIED)


def events_problem(events: Events) -> str:
    """Return the newest Warning events, at most three: ``Reason: message``, and how often, a line.

    They are those of an object, or of it and its Pods.
    """
    lines: dict[str, int] = {}
    for event in _newest_first(events):
        if event.get("type") == "Warning":
            line = f"{text(event, 'reason') or 'Warning'}: {one_line(_message(event))}"
            # One line for what several Pods of a workload tell alike.
            lines[line] = lines.get(line, 0) + _times(event)
    return "\n".join(
        f"{line} (×{times})" if times > 1 else line for line, times in list(lines.items())[:_SHOWN]
    )


def refused_creation(events: Events, *, waited: float = math.inf) -> str:
    """Return the server's words where the newest attempt at a Pod was refused, else nothing.

    StatefulSets, DaemonSets and Jobs have no condition for it, only FailedCreate events.
    """
    for event in _newest_first(events):
        if event.get("reason") == _CREATED:
            return ""
        if event.get("reason") == _FAILED_CREATE:
            message = one_line(_message(event))
            return message if is_refusal(message, waited=waited) else ""
    return ""


def _newest_first(events: Events) -> Events:
    # Times are RFC 3339 in UTC, some with microseconds: cut to seconds they compare as text. Of
    # two in one second the later in the list is taken for the newer.
    placed = sorted(enumerate(events), key=lambda one: (_time(one[1])[:19], one[0]), reverse=True)
    return [event for _, event in placed]


def _time(event: Mapping[str, Any]) -> str:
    return max(
        text(event, "series", "lastObservedTime"),
        text(event, "lastTimestamp"),
        text(event, "deprecatedLastTimestamp"),
        text(event, "eventTime"),
    ) or text(event, "metadata", "creationTimestamp")


def _message(event: Mapping[str, Any]) -> str:
    # `note` is what events.k8s.io/v1 calls it.
    return text(event, "message") or text(event, "note")


def _times(event: Mapping[str, Any]) -> int:
    return max(
        count(event, "count"), count(event, "deprecatedCount"), count(event, "series", "count"), 1
    )

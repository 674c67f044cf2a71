"""Assess whether a Pod is ready, and what the Pods of a workload show about the workload.

Based on kstatus (cli-utils, pkg/kstatus/status/core.go), with additions: a failed Pod is Failed,
init containers count, and failed image pulls and failed container creations are detected. Only what
cannot recover is Failed; what can is stuck: a crash, a missing node, a missing image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, Status, current, failed, in_progress, stuck
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
from applyprune.planning.readiness.warning_events import GRACE, is_refusal
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

if TYPE_CHECKING:
    Body = Mapping[str, Any]

_CRASHING = "CrashLoopBackOff"
# The image of a Pod can be changed, but its controllers never do it.
_NEVER = "InvalidImageName"
# The kubelet alternates between the two while an image cannot be pulled.
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})
# Reasons for which a container waits in vain: it is stuck after a grace period in which a registry
# may answer again, or a ConfigMap of the same run may arrive.
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
    """Return the worst problem of a workload's Pods: the first Failed one, or the first stuck one.

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
        readiness = replace(
            problem,
            message=f"pod/{text(pod, 'metadata', 'name')}: {problem.message}",
            # Which of several Pods is seen first is chance.
            lasting_message=f"its Pods: {problem.fact}",
        )
        if readiness.status is Status.FAILED:
            return readiness
        if found is None or (readiness.stuck and not found.stuck):
            found = readiness
    return found


def rejected_pods(workload: Body, replica_sets: Sequence[Body], *, waited: float) -> str:
    """Return why the API server rejects the Pods of a Deployment's newest ReplicaSet, else "".

    The Deployment's own condition also tells of older ReplicaSets, which may be what it repairs.
    """
    for replica_set in _newest(workload, replica_sets):
        failure = condition(replica_set, "ReplicaFailure")
        if failure is not None and failure.status == "True":
            return failure.message if is_refusal(failure.message, waited=waited) else ""
    return ""


def current_pods(
    workload: Body, pods: Sequence[Body], replica_sets: Sequence[Body] = ()
) -> Sequence[Body]:
    """Return the Pods of a workload's current template.

    Pods of an earlier template show nothing about the current template, which may repair them. The
    Pods of a Deployment are found through its ReplicaSets.
    """
    if not is_observed(workload):
        return ()
    if workload.get("kind") == "Deployment":
        newest = _newest(workload, replica_sets)
        return [pod for replica_set in newest for pod in _owned(replica_set, pods)]
    owned = _owned(workload, pods)
    label, wanted = "", ""
    if workload.get("kind") == "StatefulSet":
        label, wanted = _HASH, text(workload, "status", "updateRevision")
    elif workload.get("kind") == "DaemonSet":
        label = _DAEMON_GENERATION
        wanted = text(workload, "metadata", "annotations", _DAEMON_TEMPLATE)
    return [pod for pod in owned if not wanted or _label(pod, label) == wanted]


def is_observed(workload: Body) -> bool:
    """Return whether the controller has seen the present generation, as far as is known."""
    generation = whole_number(workload, "metadata", "generation")
    observed = whole_number(workload, "status", "observedGeneration")
    return None in {generation, observed} or observed == generation


def _newest(deployment: Body, replica_sets: Sequence[Body]) -> Sequence[Body]:
    """Return the ReplicaSet of a Deployment's current template, if it was read."""
    revision = text(deployment, "metadata", "annotations", _DEPLOYMENT_REVISION)
    return [
        replica_set
        for replica_set in _owned(deployment, replica_sets)
        if text(replica_set, "metadata", "annotations", _DEPLOYMENT_REVISION) == revision
    ]


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
        if reason == _NEVER:
            return failed(_container(name, reason, status))
    for name, status in _containers(pod):
        reason = text(status, "state", "waiting", "reason")
        if reason == _CRASHING:
            message = _container(name, reason, status)
            found = in_progress(message) if in_a_job else stuck(message)
            return replace(found, lasting_message=_lasting_container(name, reason, status))
    for name, status in _containers(pod):
        reason = text(status, "state", "waiting", "reason")
        if reason in _LASTING:
            found = _lasting(_container(name, reason, status), waited)
            return replace(found, lasting_message=_lasting_container(name, reason, status))
    if text(pod, "status", "phase") == "Pending" and scheduled and scheduled.status == "False":
        if scheduled.reason == "Unschedulable":
            return _lasting(scheduled.told, waited)
        if scheduled.reason == "SchedulingGated":
            return in_progress(scheduled.told)
    return None


def _lasting(message: str, waited: float) -> Readiness:
    return stuck(message) if waited > GRACE else in_progress(message)


def _containers(pod: Body) -> Iterator[tuple[str, Body]]:
    """Yield the name and status of each container, init containers first because they run first."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for item in items(pod, "status", kind):
            status = mapping(item)
            yield text(status, "name"), status


def _container(name: str, reason: str, status: Body) -> str:
    parts = [f"container {name}", reason, one_line(text(status, "state", "waiting", "message"))]
    message = ": ".join(part for part in parts if part)
    return f"{message}{_last_end(status)}" if reason == _CRASHING else message


def _lasting_container(name: str, reason: str, status: Body) -> str:
    """Return the problem of a container without the time of the next try; empty without one."""
    if reason == _CRASHING:
        return f"container {name}: {reason}{_last_end(status)}"
    return f"container {name}: ImagePullBackOff" if reason in _PULLING else ""


def _last_end(status: Body) -> str:
    last = _ended(mapping(field(status, "lastState", "terminated")))
    return f" (last {last})" if last else ""


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

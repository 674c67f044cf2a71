"""Assess whether a workload is ready: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job.

Based on kstatus (cli-utils, pkg/kstatus/status/core.go), with the same numbers in the same order.
Each function states its differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, current, failed, in_progress, stuck
from applyprune.model.live import condition, conditions, count, field, text, whole_number
from applyprune.planning.readiness.warning_events import is_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

if TYPE_CHECKING:
    Body = Mapping[str, Any]

# The Deployment controller reads this as "no deadline", and then sets no Progressing condition.
_NO_DEADLINE = 2**31 - 1


def assess_deployment(body: Body) -> Readiness:
    """Return the readiness of a Deployment (kstatus deploymentConditions).

    Unlike in kstatus, the reason names what the API server rejects (ReplicaFailure). As in kstatus,
    a paused Deployment is in progress: its Progressing condition says DeploymentPaused.
    """
    for item in conditions(body):
        if item.type == "Progressing" and item.reason == "ProgressDeadlineExceeded":
            return failed(f"the progress deadline is exceeded: {item.message or item.reason}")
    wanted = count(body, "spec", "replicas", default=1)
    there = count(body, "status", "replicas")
    updated = count(body, "status", "updatedReplicas")
    available = count(body, "status", "availableReplicas")
    ready = count(body, "status", "readyReplicas")
    short = _first(
        _less("replicas", there, wanted),
        _less("updated", updated, wanted),
        _extra(there, wanted),
        _less("available", available, updated),
        _less("ready", ready, wanted),
    )
    if short:
        paused = ", paused" if field(body, "spec", "paused") is True else ""
        failure = condition(body, "ReplicaFailure")
        rejected = failure is not None and failure.status == "True"
        missing = f"; Pods are missing: {failure.told}" if failure and rejected else ""
        return in_progress(f"{short}{paused}{missing}")
    return _complete(body) or current(f"the Deployment is available, replicas: {there}")


def _complete(body: Body) -> Readiness | None:
    """Return InProgress if the numbers of a Deployment match, but not its conditions."""
    deadline = whole_number(body, "spec", "progressDeadlineSeconds")
    progressing = condition(body, "Progressing")
    done = progressing is not None and (progressing.status, progressing.reason) == (
        "True",
        "NewReplicaSetAvailable",
    )
    if not done and deadline is not None and deadline != _NO_DEADLINE:
        detail = f" ({progressing.told})" if progressing and progressing.told else ""
        return in_progress(f"the new ReplicaSet is not available{detail}")
    available = condition(body, "Available")
    if available is None or available.status != "True":
        detail = f" ({available.told})" if available and available.told else ""
        return in_progress(f"the Deployment is not available{detail}")
    return None


def assess_replica_set(body: Body, *, waited: float) -> Readiness:
    """Return the readiness of a ReplicaSet (kstatus replicasetConditions).

    As in kstatus, a ReplicaFailure is in progress, regardless of the numbers. It is stuck if the
    API server rejects the Pods.
    """
    failure = condition(body, "ReplicaFailure")
    if failure is not None and failure.status == "True":
        if is_refusal(failure.message, waited=waited):
            return stuck(f"its Pods are rejected: {failure.message}")
        return in_progress(f"Pods are missing: {failure.told or 'ReplicaFailure'}")
    wanted = count(body, "spec", "replicas", default=1)
    there = count(body, "status", "replicas")
    short = _first(
        _less("labelled", count(body, "status", "fullyLabeledReplicas"), wanted),
        _less("available", count(body, "status", "availableReplicas"), wanted),
        _less("ready", count(body, "status", "readyReplicas"), wanted),
        _extra(there, wanted),
    )
    return in_progress(short) if short else current(f"the ReplicaSet is available, Pods: {there}")


def assess_stateful_set(body: Body) -> Readiness:
    """Return the readiness of a StatefulSet (kstatus stsConditions): by numbers, never Failed."""
    if text(body, "spec", "updateStrategy", "type") == "OnDelete":
        return current("the update strategy is OnDelete: Pods are replaced manually")
    wanted = count(body, "spec", "replicas", default=1)
    there = count(body, "status", "replicas")
    updated = count(body, "status", "updatedReplicas")
    short = _first(
        _less("replicas", there, wanted),
        _less("ready", count(body, "status", "readyReplicas"), wanted),
        _extra(there, wanted),
    )
    if short:
        return in_progress(short)
    partition = whole_number(body, "spec", "updateStrategy", "rollingUpdate", "partition")
    if partition is not None and partition != -1:
        short = _less("updated above the partition", updated, wanted - partition)
        return in_progress(short) if short else current(f"the partition is rolled out: {updated}")
    short = _less("current", count(body, "status", "currentReplicas"), wanted)
    if short:
        return in_progress(short)
    old, new = text(body, "status", "currentRevision"), text(body, "status", "updateRevision")
    if old != new:
        return in_progress(f"the revision is {old}, to be {new}")
    return current(f"all replicas are ready: {there}")


def assess_daemon_set(body: Body) -> Readiness:
    """Return the readiness of a DaemonSet (kstatus daemonsetConditions and checkGenerationSet).

    Unlike in kstatus, one with OnDelete is Current, as a StatefulSet is: somebody replaces its Pods
    at a time of their own.
    """
    if text(body, "spec", "updateStrategy", "type") == "OnDelete":
        return current("the update strategy is OnDelete: Pods are replaced manually")
    for path in (("metadata", "generation"), ("status", "observedGeneration")):
        if whole_number(body, *path) is None:
            return in_progress(f"the DaemonSet has no {'.'.join(path)} yet")
    wanted = whole_number(body, "status", "desiredNumberScheduled")
    if wanted is None or wanted == -1:
        return in_progress("the DaemonSet has no status.desiredNumberScheduled yet")
    short = _first(
        _less("scheduled", count(body, "status", "currentNumberScheduled"), wanted),
        _less("updated", count(body, "status", "updatedNumberScheduled"), wanted),
        _less("available", count(body, "status", "numberAvailable"), wanted),
        _less("ready", count(body, "status", "numberReady"), wanted),
    )
    return in_progress(short) if short else current(f"all Pods are ready: {wanted}")


def assess_job(body: Body, *, job_started: bool) -> Readiness:
    """Return the readiness of a Job (kstatus jobConditions).

    Unlike in kstatus, a started Job is Current only with ``job_started``; by default it must
    complete. As in kstatus, a Job that is suspended as desired is Current.
    """
    succeeded, active = count(body, "status", "succeeded"), count(body, "status", "active")
    lost = count(body, "status", "failed")
    parallel = count(body, "spec", "parallelism", default=1)
    wanted = count(body, "spec", "completions", default=parallel)
    suspend = field(body, "spec", "suspend")
    for item in conditions(body):
        if item.status != "True":
            continue
        if item.type == "Complete":
            return current(f"the Job is complete: {succeeded} of {wanted} succeeded")
        if item.type == "Failed":
            return failed(f"the Job has failed: {item.told or f'{lost} Pods failed'}")
        if item.type == "Suspended" and suspend is not False:
            return current("the Job is suspended")
    if suspend is True:
        return in_progress("the Job is being suspended")
    if not text(body, "status", "startTime"):
        return in_progress("the Job has not started")
    message = f"{succeeded} of {wanted} succeeded, active: {active}, failed: {lost}"
    return current(f"the Job has started: {message}") if job_started else in_progress(message)


def _less(what: str, have: int, want: int) -> str:
    return f"{what}: {have} of {want}" if have < want else ""


def _extra(have: int, want: int) -> str:
    return f"Pods to remove: {have - want}" if have > want else ""


def _first(*shortfalls: str) -> str:
    return next(filter(None, shortfalls), "")

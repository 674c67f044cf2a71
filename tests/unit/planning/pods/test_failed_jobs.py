"""A Job that has failed says how its Pods have ended, as far as they still show it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import Status
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.pods import last_failure
from applyprune.planning.readiness import Related, assess, with_pods_explained
from tests.support.planning import live

Body = dict[str, Any]
LIMIT = "BackoffLimitExceeded: Job has reached the specified backoff limit"
DEADLINE = "DeadlineExceeded: Job was active longer than specified deadline"


def exited(code: int, name: str = "main", *, second: int = 0, **more: Any) -> Body:
    """Return the status of a container that has ended."""
    ended = {"exitCode": code, "finishedAt": f"2026-11-29T12:00:{second:02}Z", **more}
    return {"name": name, "restartCount": 0, "state": {"terminated": ended}}


def pod(name: str, phase: str, *statuses: Body, init: Body | None = None, **status: Any) -> Body:
    """Return a Pod of the Job."""
    owner = {"kind": "Job", "uid": "j", "controller": True}
    metadata = {"name": name, "uid": name, "ownerReferences": [owner]}
    told = {"phase": phase, "containerStatuses": list(statuses), **status}
    if init is not None:
        told["initContainerStatuses"] = [init]
    return {"metadata": metadata, "status": told}


def held(body: Body) -> Body:
    """Return a Pod that is being deleted, and that the Job has not counted yet."""
    finalizers = ["batch.kubernetes.io/job-tracking"]
    body["metadata"] |= {"deletionTimestamp": "2026-11-29T12:00:09Z", "finalizers": finalizers}
    return body


RUNS = {"name": "main", "restartCount": 0, "state": {"running": {}}}
AGAIN = {
    "name": "main",
    "restartCount": 3,
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 3}},
}
PULLS = {
    "name": "main",
    "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
}
FAILURES: dict[str, tuple[list[Body], str]] = {
    "an exit code": (
        [pod("m-1", "Failed", exited(3, reason="Error"))],
        "pod/m-1: container main exited with code 3",
    ),
    "too little memory": (
        [pod("m-1", "Failed", exited(137, reason="OOMKilled"))],
        "pod/m-1: container main exited with code 137, OOMKilled",
    ),
    "a termination message, of which the last line counts": (
        [pod("m-1", "Failed", exited(3, reason="Error", message="connecting\nno database\n"))],
        "pod/m-1: container main exited with code 3: no database",
    ),
    "a program that does not exist": (
        [
            pod(
                "m-1",
                "Failed",
                exited(
                    128,
                    reason="StartError",
                    message="failed to create containerd task: failed to create shim task: OCI "
                    "runtime create failed: runc create failed: unable to start container process: "
                    'error during container init: exec: "/nope": no such file or directory',
                ),
            )
        ],
        (
            "pod/m-1: container main exited with code 128, StartError: "
            'exec: "/nope": no such file or directory'
        ),
    ),
    "an init container": (
        [
            pod(
                "m-1",
                "Failed",
                {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}},
                init=exited(7, "schema"),
            )
        ],
        "pod/m-1: container schema exited with code 7",
    ),
    "the Pod that failed last": (
        [
            pod("m-2", "Failed", exited(4, second=9)),
            pod("m-1", "Failed", exited(3, second=1)),
            pod("m-3", "Succeeded", exited(0, second=30)),
        ],
        "pod/m-2: container main exited with code 4",
    ),
    "an eviction": (
        [pod("m-1", "Failed", reason="Evicted", message="The node was low on resource: memory.")],
        "pod/m-1: Evicted: The node was low on resource: memory.",
    ),
    "a Pod that goes, and is still held": (
        [held(pod("m-1", "Failed", exited(3)))],
        "pod/m-1: container main exited with code 3",
    ),
    "one whose container runs again": (
        [held(pod("m-1", "Running", AGAIN))],
        "pod/m-1: container main exited with code 3",
    ),
    "an image that was never there": (
        [held(pod("m-1", "Pending", PULLS))],
        "pod/m-1: container main: ImagePullBackOff: no such image",
    ),
    "one that a deadline has stopped": ([held(pod("m-1", "Running", RUNS))], ""),
    "one that has succeeded": ([pod("m-1", "Succeeded", exited(0))], ""),
    "no Pod": ([], ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failed_pod_of_a_job_says_how_it_has_ended(name: str) -> None:
    pods, wanted = FAILURES[name]
    assert last_failure(pods) == wanted


def job(*conditions: Body, **status: Any) -> LiveObject:
    """Return a Job as it was read."""
    told = {"startTime": "2026-11-29T12:00:00Z", "conditions": list(conditions), **status}
    body: Body = {"apiVersion": "batch/v1", "kind": "Job", "status": told}
    body["metadata"] = {"name": "m", "namespace": "shop", "uid": "j"}
    return live(Ref("batch", "Job", "shop", "m"), uid="j", full=body)


def because(words: str, kind: str = "Failed") -> Body:
    """Return a condition of a Job."""
    reason, _, message = words.partition(": ")
    return {"type": kind, "status": "True", "reason": reason, "message": message}


DEAD = pod("m-1", "Failed", exited(3, reason="Error"))
BY_POLICY = "PodFailurePolicy: Container main for pod shop/m-1 failed with exit code 3"
JOBS: dict[str, tuple[LiveObject, list[Body], Status, str]] = {
    "past its limit": (
        job(because(LIMIT)),
        [DEAD],
        Status.FAILED,
        f"the Job has failed: {LIMIT}; pod/m-1: container main exited with code 3",
    ),
    "past its limit, without Pods": (
        job(because(LIMIT)),
        [],
        Status.FAILED,
        f"the Job has failed: {LIMIT}",
    ),
    "past its deadline": (
        job(because(DEADLINE)),
        [held(pod("m-1", "Pending", PULLS))],
        Status.FAILED,
        (
            f"the Job has failed: {DEADLINE}; "
            "pod/m-1: container main: ImagePullBackOff: no such image"
        ),
    ),
    "by its policy, which names the Pod": (
        job(because(BY_POLICY)),
        [DEAD],
        Status.FAILED,
        f"the Job has failed: {BY_POLICY}",
    ),
    "about to fail": (
        job(because(LIMIT, "FailureTarget"), failed=1),
        [held(pod("m-1", "Failed", exited(3)))],
        Status.IN_PROGRESS,
        (
            f"the Job is failing, and its Pods end: {LIMIT}; "
            "pod/m-1: container main exited with code 3"
        ),
    ),
    "which tries again": (
        job(active=1, failed=1),
        [DEAD, pod("m-2", "Running", RUNS)],
        Status.IN_PROGRESS,
        "0 of 1 succeeded, active: 1, failed: 1; pod/m-1: container main exited with code 3",
    ),
    "which has completed at last": (
        job(because(": ", "Complete"), succeeded=1, failed=1),
        [DEAD],
        Status.CURRENT,
        "the Job is complete: 1 of 1 succeeded",
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_job_says_what_its_pods_show(name: str) -> None:
    found, pods, status, wanted = JOBS[name]
    told = with_pods_explained(
        assess(found.body or {}), found, Related(pods=pods), manager="m", waited=60.0
    )
    assert (told.status, told.message) == (status, wanted)

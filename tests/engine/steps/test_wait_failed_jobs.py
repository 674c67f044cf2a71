"""A wait for a Job that fails ends with how its Pods have ended."""

from __future__ import annotations

import pytest

from applyprune.model.events import Finished, ObjectStatus
from tests.support.api import AuditTrail
from tests.support.clocks import AGES
from tests.support.stage import Stage, Story
from tests.support.workloads import (
    PLAYED,
    Body,
    Puppets,
    complaints,
    meanwhile,
    out_of_time,
    stuck,
    when_waiting,
    workload,
)

NAME = "job.batch/once"


def logs_of(story: Story) -> str:
    """Return the command of the run's last hint; empty if there is none."""
    (end,) = story.of(Finished)
    assert end.problem is not None
    return end.problem.hint.removeprefix("What the containers have logged: ")


def exited(code: int, **more: str) -> Body:
    """Return the status of a container that has ended."""
    ended = {"exitCode": code, "containerID": "containerd://1", **more}
    return {
        "name": "main",
        "image": "main:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }


def test_failed_job_names_the_exit_code_of_its_pod(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """Even if it fails before the wait looks at Pods; that costs a list of these and of events."""
    died = {"phase": "Failed", "containerStatuses": [exited(137, reason="OOMKilled")]}
    job = workload("Job", "once", pods=PLAYED, spec={"backoffLimit": 0})
    with meanwhile(lambda: puppets.pods_of("once", died)):
        story = stage.run(job, wait=True, timeout=AGES)
    assert story.exit_code == 5
    told = complaints(story)[NAME]
    assert " will not become ready: the Job has failed: BackoffLimitExceeded: " in told
    (pod,) = puppets.told
    assert f"; pod/{pod}: container main exited with code 137, OOMKilled" in told
    assert told.count("OOMKilled") == 1
    assert logs_of(story) == f"applyprune status {stage.target.arguments} --logs"
    audit.restart()
    (shown,) = stage.status().of(ObjectStatus)
    assert f"; pod/{pod}: container main exited with code 137, OOMKilled" in shown.readiness.message
    lists = [one["objectRef"]["resource"] for one in audit.ours() if one["verb"] == "list"]
    assert sorted(lists) == ["events", "jobs", "pods"]
    assert logs_of(stage.status(wait=True)) == f"applyprune status {stage.target.arguments} --logs"
    assert logs_of(stage.status(wait=True, logs=True)) == ""


def test_failed_job_whose_pod_is_gone_says_what_was_seen(stage: Stage, puppets: Puppets) -> None:
    """What the wait has seen before."""
    job = workload("Job", "once", pods=PLAYED, spec={"backoffLimit": 5})
    job["spec"]["template"]["spec"] |= {**PLAYED, "restartPolicy": "OnFailure"}
    crashed = exited(3) | {
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3, "containerID": "containerd://1"}},
    }
    path = puppets.path("jobs", "once", "/apis/batch/v1")
    soon = {"spec": {"activeDeadlineSeconds": 1}}
    when_waiting(stage, lambda: puppets.api.patch(path, soon), "(last exit code 3)")
    status = {"phase": "Running", "containerStatuses": [crashed]}
    with meanwhile(lambda: puppets.pods_of("once", status)):
        story = stage.run(job, wait=True, timeout=AGES)
    assert story.exit_code == 5
    told = complaints(story)[NAME]
    assert "the Job has failed: DeadlineExceeded: " in told
    assert "container main exited with code 3" in told
    assert logs_of(story) == ""


@pytest.mark.parametrize(
    ("reason", "logged"), [("ImagePullBackOff", False), ("CrashLoopBackOff", True)]
)
def test_failed_wait_names_the_command_that_shows_logs(
    stage: Stage, puppets: Puppets, reason: str, logged: bool
) -> None:
    """Once, at the end of the run, and only if a container of a Pod has ever run."""
    status = stuck(reason, "Running" if logged else "Pending")
    status["containerStatuses"][0]["restartCount"] = 3 if logged else 0
    out_of_time(stage, f"container main: {reason}")
    with meanwhile(lambda: puppets.pods_of("web", status)):
        story = stage.run(workload("Deployment", pods=PLAYED), wait=True, timeout=3600.0)
    assert (story.exit_code, "--logs" in str(complaints(story))) == (5, False)
    command = f"applyprune status {stage.target.arguments} --logs"
    assert logs_of(story) == (command if logged else "")

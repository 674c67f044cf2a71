"""Waits for Jobs: how they have ended, also of those that their TTL has removed."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import Finished, ObjectStatus
from applyprune.model.fate import Outcome
from applyprune.model.inventory import JobRecord
from tests.support.api import Api, AuditTrail, writes
from tests.support.clocks import AGES
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
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
)  # fmt: skip

JOB = "job.batch/once"
UNKNOWN = "no run has recorded that it completed: its result is unknown"


def logs_of(story: Story) -> str:
    """Return the command of the run's last hint; empty if there is none."""
    (end,) = story.of(Finished)
    assert end.problem is not None
    return end.problem.hint.removeprefix("What the containers have logged: ")


def exited(code: int, **more: str) -> Body:
    """Return the status of a container that has ended."""
    ended = {"exitCode": code, "containerID": "containerd://1", **more}
    named = {"name": "main", "image": "main:1", "imageID": ""}
    return {**named, "ready": False, "restartCount": 0, "state": {"terminated": ended}}


def test_failed_job_names_the_exit_code_of_its_pod(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """Even if it fails before the wait looks at Pods; that costs a list of these and of events."""
    died = {"phase": "Failed", "containerStatuses": [exited(137, reason="OOMKilled")]}
    job = workload("Job", "once", pods=PLAYED, spec={"backoffLimit": 0})
    with meanwhile(lambda: puppets.pods_of("once", died)):
        story = stage.run(job, wait=True, timeout=AGES)
    assert story.exit_code == 5
    told = complaints(story)[JOB]
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
    told = complaints(story)[JOB]
    assert "the Job has failed: DeadlineExceeded: " in told
    assert "container main exited with code 3" in told


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


# With a TTL.


def _job(ttl: int, *, suspend: bool = False) -> Body:
    spec: Body = {"backoffLimit": 0, "ttlSecondsAfterFinished": ttl}
    return workload("Job", "once", pods=PLAYED, spec={**spec, "suspend": suspend})


def _path(stage: Stage) -> str:
    return f"/apis/batch/v1/namespaces/{stage.namespace}/jobs/once"


def _delete(stage: Stage, api: Api) -> None:
    assert api("DELETE", f"{_path(stage)}?propagationPolicy=Background")[0] == 200
    eventually(lambda: not api.exists(_path(stage)), lambda: "the end of the Job")


def _record(stage: Stage) -> JobRecord:
    (entry,) = (one for one in stage.inventory().entries.values() if one.ref.kind == "Job")
    assert entry.job is not None
    return entry.job


def _waited(stage: Stage, body: Body, **options: Any) -> Story:
    return stage.run(body, wait=True, timeout=AGES, **options)


def test_job_that_removes_itself_when_finished_is_ready(stage: Stage, puppets: Puppets) -> None:
    """Gone is done, unless it was seen to have failed before; so the wait needs to have looked."""
    with meanwhile(lambda: puppets.pods_of("once", {"phase": "Succeeded"})):
        assert _waited(stage, _job(0)).exit_code == 0
    eventually(lambda: not puppets.api.exists(_path(stage)), lambda: "the Job to be gone")


@pytest.mark.holds("before-ttl")
def test_job_deleted_before_its_ttl_is_created_again(stage: Stage, api: Api) -> None:
    """Suspended, it cannot have finished; by the server's clock, no TTL has passed."""
    body = _job(86_400, suspend=True)
    assert _waited(stage, body).exit_code == 0
    created = api.get(_path(stage))["metadata"]["creationTimestamp"]
    assert _record(stage) == JobRecord(created, 86_400, completed=False)
    _delete(stage, api)
    (told,) = stage.status().of(ObjectStatus)
    assert (told.drifted, told.readiness.message) == (True, "somebody has deleted it")
    story = _waited(stage, body)
    assert story.outcomes == {JOB: Outcome.CREATED}
    (step,) = story.plan.applies
    assert step.reason == "somebody deleted it: its TTL cannot have removed it yet"
    assert api.exists(_path(stage))


@pytest.mark.holds("unknown-result")
def test_job_of_unknown_result_is_created_again_only_if_asked(stage: Stage, api: Api) -> None:
    """With a TTL of 0 it may have finished: a wait fails at once, and no run runs it again."""
    body = _job(0, suspend=True)
    assert _waited(stage, body).exit_code == 0
    _delete(stage, api)
    assert stage.run(body).outcomes == {JOB: Outcome.UNCHANGED}
    story = _waited(stage, body)
    assert story.exit_code == 5
    assert UNKNOWN in complaints(story)[JOB]
    assert "will not become ready" in complaints(story)[JOB]
    assert not api.exists(_path(stage))
    assert stage.run(body, reapply_all=True).outcomes == {JOB: Outcome.CREATED}


def test_completed_job_stays_ready_after_its_ttl(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """The run that sees it complete records it, also one that changes nothing; once."""
    body = _job(3600)
    stage.run(body)
    puppets.pods_of("once", {"phase": "Succeeded"})
    assert _waited(stage, body).exit_code == 0
    assert _record(stage).completed
    audit.restart()
    assert _waited(stage, body).exit_code == 0
    assert writes(audit) == []
    _delete(stage, puppets.api)
    story = _waited(stage, body, reapply_all=True)
    assert (story.exit_code, story.outcomes) == (0, {JOB: Outcome.UNCHANGED})
    (step,) = story.plan.applies
    assert step.reason == "finished, and removed by its TTL"

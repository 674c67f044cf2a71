"""Jobs with a TTL that are gone: deleted by somebody, or removed after they have finished."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import ObjectStatus
from applyprune.model.fate import Outcome
from applyprune.model.inventory import JobRecord
from tests.support.api import Api, AuditTrail, writes
from tests.support.clocks import AGES
from tests.support.objects import config_map
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import PLAYED, Body, Puppets, complaints, meanwhile, workload

JOB = "job.batch/once"
UNKNOWN = "no run has recorded that it completed: its result is unknown"


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


def test_failed_job_that_its_ttl_removed_is_not_ready(stage: Stage, puppets: Puppets) -> None:
    """A TTL removes failed Jobs too, and nobody waited for this one."""
    body = _job(0)
    stage.run(body)
    puppets.pods_of("once", {"phase": "Failed", "reason": "Error"})
    eventually(lambda: not puppets.api.exists(_path(stage)), lambda: "the end of the Job")
    story = _waited(stage, body)
    assert story.exit_code == 5
    assert UNKNOWN in complaints(story)[JOB]


@pytest.mark.parametrize("later", [False, True])
def test_completed_job_stays_ready_after_its_ttl(
    stage: Stage, puppets: Puppets, audit: AuditTrail, later: bool
) -> None:
    """The run that sees it complete records it, also one that changes nothing; once."""
    body = _job(3600)

    def complete() -> None:
        puppets.pods_of("once", {"phase": "Succeeded"})

    if later:
        stage.run(body)
        complete()
    else:
        with meanwhile(complete):
            assert _waited(stage, body).exit_code == 0
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


def test_unknown_result_holds_no_prune_back(stage: Stage, api: Api) -> None:
    """A Job that is gone uses nothing, whatever became of it."""
    body, other = _job(0, suspend=True), workload("DaemonSet", "agent", pods=PLAYED)
    keep = [config_map("a"), config_map("b")]
    stage.run(body, other, *keep)
    _delete(stage, api)
    story = stage.run(body, *keep, timeout=AGES)
    assert story.exit_code == 0
    assert story.outcomes["daemonset.apps/agent"] is Outcome.PRUNED

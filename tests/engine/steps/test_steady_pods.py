"""A workload is ready only if its Pods stay so: nothing is pruned for one that crashes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import WarningRaised
from applyprune.model.fate import Outcome
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.clocks import AGES
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.workloads import (
    PLAYED,
    Body,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    out_of_time,
    when_waiting,
    workload,
)

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

UNPROBED = "it has no readiness probe, and was not ready for 10 s yet"


def ago(seconds: float) -> str:
    """Return a time in the past, as a kubelet writes it."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def deployment(name: str, **pods: object) -> Body:
    """Return a Deployment without a probe, whose Pods the test plays."""
    containers = [{"name": "main", "image": "main:1"}]
    return workload("Deployment", name, pods={"containers": containers, **PLAYED, **pods})


def status(*, since: float, restarts: int = 0, crashed: bool = False) -> Body:
    """Return the status of a Pod that is ready since so many seconds, or has crashed."""
    ended = {"exitCode": 1, "startedAt": ago(since + 1), "finishedAt": ago(since)}
    state: Body = {"running": {"startedAt": ago(since)}}
    if crashed:
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
    container: Body = {"name": "main", "image": "main:1", "imageID": "", "ready": not crashed}
    container |= {"restartCount": restarts, "state": state}
    if restarts:
        container["lastState"] = {"terminated": ended}
    is_ready = {"type": "Ready", "status": "False" if crashed else "True"}
    return {
        "phase": "Running",
        "conditions": [{**is_ready, "lastTransitionTime": ago(since)}],
        "containerStatuses": [container],
    }


@pytest.fixture
def renamed(stage: Stage, puppets: Puppets) -> Stage:
    """A set with the Deployment ``old``, which works."""
    with meanwhile(lambda: puppets.pods_of("old", status(since=60))):
        story = stage.run(deployment("old"), config_map("stays"), wait=True, timeout=AGES)
    assert story.exit_code == 0, complaints(story)
    return stage


def test_working_deployment_is_not_pruned_for_one_that_crashes(
    renamed: Stage, puppets: Puppets, api: Api
) -> None:
    """It counts as available between its start and its crash."""
    crashed = status(since=0, restarts=1, crashed=True)
    left = [lambda: puppets.pods_of("new", crashed)]
    when_waiting(renamed, lambda: left and left.pop()(), UNPROBED)
    with meanwhile(lambda: puppets.pods_of("new", status(since=0))):
        story = renamed.run(deployment("new"), config_map("stays"), fail_fast=True)
    assert story.exit_code == 5
    assert "CrashLoopBackOff" in complaints(story)["deployment.apps/new"]
    assert story.outcomes["deployment.apps/old"] is Outcome.NOT_PRUNED
    assert api.exists(puppets.path("deployments", "old", "/apis/apps/v1"))


def test_deployment_whose_pods_are_steady_lets_the_old_one_go(
    renamed: Stage, puppets: Puppets
) -> None:
    """A wait that has lasted anyway costs nothing, and one restart is no failure."""
    with meanwhile(lambda: puppets.pods_of("new", status(since=30.0, restarts=1))):
        story = renamed.run(deployment("new"), config_map("stays"), timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/new"})
    assert story.outcomes["deployment.apps/old"] is Outcome.PRUNED


def test_unproved_deployment_stays_unready_in_the_next_run(
    renamed: Stage, puppets: Puppets, api: Api
) -> None:
    """The first run ends before it is proved; the second one sends nothing, and waits too."""
    with meanwhile(lambda: puppets.pods_of("new", status(since=-3600))):
        out_of_time(renamed, UNPROBED)
        first = renamed.run(deployment("new"), config_map("stays"))
    out_of_time(renamed, UNPROBED)
    second = renamed.run(deployment("new"), config_map("stays"))
    assert (first.exit_code, second.exit_code) == (5, 5)
    assert second.outcomes["deployment.apps/new"] is Outcome.UNCHANGED
    assert UNPROBED in complaints(second)["deployment.apps/new"]
    assert api.exists(puppets.path("deployments", "old", "/apis/apps/v1"))


def test_pods_that_may_not_be_listed_are_a_warning(
    plane: Plane, stage: Stage, puppets: Puppets, api: Api, tmp_path: Path
) -> None:
    """The workload must be ready for a while then, by its own status."""
    rules = [rule("", ["configmaps"], WRITE), rule("apps", ["deployments"], WRITE)]
    kubeconfig = kubeconfig_as("poor", plane, api, stage.namespace, tmp_path, *rules)
    poor = Stage(kubeconfig, stage.namespace, name=stage.name)
    clock = when_waiting(poor, lambda: clock.advance(11.0), "its Pods may not be listed")
    with meanwhile(lambda: puppets.pods_of("web", status(since=0))):
        story = poor.run(deployment("web"), wait=True, timeout=AGES)
    assert story.exit_code == 0, complaints(story)
    told = [str(one.problem) for one in story.of(WarningRaised)]
    assert any("whether its Pods restart was not seen" in one for one in told), told

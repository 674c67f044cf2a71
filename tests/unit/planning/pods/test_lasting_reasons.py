"""The reason why an object is not ready stays the same while nothing changes but the time."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import in_progress
from applyprune.model.identity import Ref
from applyprune.planning.pods import pods_problem
from applyprune.planning.readiness import Related, with_pods_explained
from tests.support.planning import live

Body = dict[str, Any]
LONG = 60.0


def pod(name: str, reason: str, message: str = "", **more: Any) -> Body:
    waiting = {"reason": reason, "message": message}
    status = {"name": "app", "state": {"waiting": waiting}, **more}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    }


CRASHED = {"lastState": {"terminated": {"exitCode": 1}}}
MOMENTS: dict[str, tuple[Body, Body, str]] = {
    "the next start of a crashing container": (
        pod("web-a", "CrashLoopBackOff", "back-off 10s restarting failed container", **CRASHED),
        pod("web-b", "CrashLoopBackOff", "back-off 5m0s restarting failed container", **CRASHED),
        "its Pods: container app: CrashLoopBackOff (last exit code 1)",
    ),
    "the next pull of an image": (
        pod("web-a", "ErrImagePull", "rpc error: not found"),
        pod("web-a", "ImagePullBackOff", 'Back-off pulling image "nope"'),
        "its Pods: container app: ImagePullBackOff",
    ),
    "another Pod of the same workload": (
        pod("web-a", "CreateContainerConfigError", 'configmap "a" not found'),
        pod("web-b", "CreateContainerConfigError", 'configmap "a" not found'),
        'its Pods: container app: CreateContainerConfigError: configmap "a" not found',
    ),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_problem_of_pods_is_the_same_at_each_look(name: str) -> None:
    """The message says what is seen now, and a status has what stays."""
    first, second, fact = MOMENTS[name]
    problems = [pods_problem([one], waited=LONG) for one in (first, second)]
    assert [problem and problem.fact for problem in problems] == [fact, fact]
    assert len({problem and problem.message for problem in problems}) == 2


@pytest.mark.parametrize(
    ("told", "fact"),
    [
        ('pods "web-{}" is forbidden: exceeded quota: q', "exceeded quota: q"),
        (
            'admission webhook "x" denied the request: no',
            'admission webhook "x" denied the request: no',
        ),
    ],
)
def test_refused_pods_are_the_same_at_each_look(told: str, fact: str) -> None:
    """The server has made up another name for each."""
    body: Body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"uid": "u1"}}
    found = live(Ref("batch", "Job", "home", "web"), full=body)

    def looked(name: str) -> str:
        event = {"type": "Warning", "reason": "FailedCreate", "message": told.format(name)}
        related = Related(events={found.uid: [event]})
        return with_pods_explained(
            in_progress("0 of 1"), found, related, manager="m", waited=LONG
        ).fact

    assert looked("x2lp") == looked("7zk9") == f"its Pods are rejected: {fact}"


def test_missing_claim_is_part_of_the_fact() -> None:
    """Beside the reason that stays."""
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    crashing = pod("p", "CrashLoopBackOff", "back-off 10s", **CRASHED)
    body = {**crashing, "spec": {"volumes": [volume]}}
    found = live(Ref("", "Pod", "home", "p"), full=body)
    told = in_progress("the Pod is pending")
    readiness = with_pods_explained(told, found, Related(claims={}), manager="m", waited=LONG)
    crash = "container app: CrashLoopBackOff (last exit code 1)"
    assert readiness.fact == f"{crash}; persistentvolumeclaim/data does not exist"

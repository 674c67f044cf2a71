"""Whose logs explain a failure, and how much of them is shown."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.planning.object_status import failing_instances, log_lines

Body = dict[str, Any]
DIED: Body = {"terminated": {"exitCode": 1}}


def pod(*statuses: Body, name: str = "p", init: list[Body] | None = None) -> Body:
    status = {"containerStatuses": list(statuses), "initContainerStatuses": init or []}
    return {"metadata": {"name": name, "namespace": "home"}, "status": status}


def container(state: Body, last: Body | None = None, *, ready: bool = False) -> Body:
    return {"name": "main", "state": state, "lastState": last or {}, "ready": ready}


@pytest.mark.parametrize(
    ("status", "previous"),
    [
        pytest.param(container({"running": {}}, ready=True), [], id="ready"),
        pytest.param(container({"running": {}}, DIED, ready=True), [], id="ready after a crash"),
        pytest.param(container({"waiting": {"reason": "ImagePullBackOff"}}), [], id="no log yet"),
        pytest.param(
            container({"waiting": {"reason": "CrashLoopBackOff"}}, DIED), [True], id="crashed"
        ),
        pytest.param(container({"running": {}}), [False], id="runs unready"),
        pytest.param(container({"running": {}}, DIED), [False, True], id="unready after a crash"),
        pytest.param(container(DIED), [False], id="died"),
        pytest.param(container(DIED, DIED), [False, True], id="died twice"),
        pytest.param(container({"terminated": {"exitCode": 0}}), [], id="done"),
        pytest.param(container({"terminated": {"exitCode": 0}}, DIED), [], id="done at last"),
    ],
)
def test_failing_instances_have_logs(status: Body, previous: list[bool]) -> None:
    """The present one if it has written something, and the one that crashed."""
    found = list(failing_instances([pod(status)]))
    assert [one.previous for one in found] == previous
    assert {(one.pod, one.container) for one in found} <= {(Ref("", "Pod", "home", "p"), "main")}


def test_init_container_that_runs_is_not_failing() -> None:
    """It is never ready while it runs, unless it is a sidecar."""
    assert list(failing_instances([pod(init=[container({"running": {}})])])) == []
    assert len(list(failing_instances([pod(init=[container(DIED)])]))) == 1


def test_few_pods_are_asked() -> None:
    """A thousand Pods of one workload crash for the same reason."""
    pods = [pod(container(DIED), name=f"p{number}") for number in range(1000)]
    healthy = pod(container({"running": {}}, ready=True))
    asked = {one.pod.name for one in failing_instances([healthy, *pods])}
    assert asked == {"p0", "p1", "p2"}


def test_log_is_cut_and_escaped() -> None:
    """The last ten lines, none longer than a screen."""
    lines = log_lines("".join(f"line {number}\n" for number in range(20)) + "\x1b[2J" + "x" * 900)
    assert len(lines) == 10
    assert lines[0] == "line 11"
    assert lines[-1].startswith("\\x1b[2Jxxx")
    assert len(lines[-1]) == 401
    assert log_lines("") == ()

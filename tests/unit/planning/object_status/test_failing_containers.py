"""Whose logs explain a failure, and how much of them is shown."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import ContainerLog
from applyprune.model.identity import Ref
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.object_status import (
    failing_instances,
    log_lines,
    logs_hint,
    shown_log,
    why_no_log,
)
from applyprune.values import replace

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
        pytest.param(
            container({"running": {}}, DIED, ready=True), [True], id="ready after a crash"
        ),
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


NONE = "there is none, the container has not started: "
NO_PROGRAM = {"terminated": {"exitCode": 128, "reason": "StartError"}}
MAIN = {"containers": [{"name": "main"}]}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def whole(phase: str, *statuses: Body, init: list[Body] | None = None, **status: Any) -> Body:
    """Return a Pod in a phase, of one container."""
    body = pod(*statuses, init=init)
    return body | {"spec": MAIN, "status": body["status"] | {"phase": phase, **status}}


def waits(reason: str, name: str = "main", *, restarts: int = 0) -> Body:
    """Return the status of a container that waits, and of which no earlier instance is known."""
    state = {"waiting": {"reason": reason}}
    return container(state) | {"name": name, "restartCount": restarts}


LOGS: dict[str, tuple[list[Body], list[tuple[str, bool, str]]]] = {
    "an image that cannot be pulled": (
        [whole("Pending", waits("ImagePullBackOff"))],
        [("main", False, f"{NONE}ImagePullBackOff")],
    ),
    "a volume that cannot be mounted": (
        [whole("Pending", waits("ContainerCreating"))],
        [("main", False, f"{NONE}ContainerCreating")],
    ),
    "no node": (
        [whole("Pending", conditions=[UNSCHEDULED])],
        [("main", False, f"{NONE}Unschedulable")],
    ),
    "a Pod that nobody has looked at": (
        [whole("Pending")],
        [("main", False, f"{NONE}Pending")],
    ),
    "an init container that runs": (
        [
            whole(
                "Pending",
                waits("PodInitializing"),
                init=[container({"running": {}}) | {"name": "schema"}],
            )
        ],
        [("schema", False, "")],
    ),
    "an init container that crashes": (
        [
            whole(
                "Pending",
                waits("PodInitializing"),
                init=[container({"waiting": {"reason": "CrashLoopBackOff"}}, DIED)],
            )
        ],
        [("main", True, "")],
    ),
    "a sidecar that runs again after a crash": (
        [whole("Running", init=[container({"running": {}}, DIED)])],
        [("main", False, ""), ("main", True, "")],
    ),
    "a program that does not exist": (
        [whole("Running", container({"waiting": {"reason": "CrashLoopBackOff"}}, NO_PROGRAM))],
        [("main", True, f"{NONE}StartError")],
    ),
    "an instance of which nothing is left": (
        [whole("Running", waits("CrashLoopBackOff", restarts=4))],
        [("main", True, "")],
    ),
    "a crash loop that runs just now, and its Pod is ready": (
        [whole("Running", container({"running": {}}, DIED, ready=True))],
        [("main", True, "")],
    ),
    "a Pod that waits, beside one that has crashed before": (
        [
            whole("Running", container({"running": {}}, DIED, ready=True)),
            whole("Pending", waits("ContainerCreating")),
        ],
        [("main", False, f"{NONE}ContainerCreating")],
    ),
    "an eviction": (
        [whole("Failed", reason="Evicted")],
        [("main", False, "it is gone: Evicted")],
    ),
    "an eviction of a container that has ended": (
        [whole("Failed", container({"terminated": {"exitCode": 137}}), reason="Evicted")],
        [("main", False, "")],
    ),
    "a Pod that is well": ([whole("Running", container({"running": {}}, ready=True))], []),
}


@pytest.mark.parametrize("name", LOGS)
def test_log_is_shown_or_says_why_not(name: str) -> None:
    """Without a request for what was never written."""
    pods, wanted = LOGS[name]
    found = [(one.container, one.previous, one.problem) for one in failing_instances(pods)]
    assert found == wanted
    hint = logs_hint(pods, applyset_identity("web", "home"))
    assert ("applyprune status web -n home --logs" in hint) is bool(hint)
    assert bool(hint) is any(not problem for _, _, problem in wanted)


def test_pods_that_run_are_asked_before_those_that_have_failed() -> None:
    """And of these the last one first: a Job keeps all of them."""

    def ended(name: str, second: int) -> Body:
        state = {"terminated": {"exitCode": 1, "finishedAt": f"2026-11-29T12:00:0{second}Z"}}
        body = whole("Failed", container(state))
        return body | {"metadata": {"name": name, "namespace": "home"}}

    pods = [ended("a", 1), ended("b", 3), whole("Running", container({"running": {}})),
            ended("c", 2)]  # fmt: skip
    assert [one.pod.name for one in failing_instances(pods)] == ["p", "b", "c"]


TOLD = {
    'container "main" in pod "p" is waiting to start: PodInitializing': f"{NONE}PodInitializing",
    'previous terminated container "main" in pod "p" not found': (
        "it is gone: the node has removed that instance"
    ),
    'container "main" in pod "p" is not available': (
        "it is gone: the node has removed the container"
    ),
    'pods "p" not found': "it is gone with its Pod",
    "unable to retrieve container logs for containerd://4be1": (
        "it is gone: the node has removed it"
    ),
    'failed to try resolving symlinks in path "/var/log/pods/p/0.log": lstat: no such file': (
        "it is gone: the node has removed it"
    ),
    "dial tcp 192.0.2.1:10250: connect: connection refused": (
        "it cannot be read: dial tcp 192.0.2.1:10250: connect: connection refused"
    ),
}


@pytest.mark.parametrize("told", TOLD)
def test_log_that_is_gone_says_why(told: str) -> None:
    """By the words of the kubelet and of the API server."""
    assert why_no_log(told) == TOLD[told]


@pytest.mark.parametrize("told", [one for one in TOLD if one.startswith(("unable", "failed"))])
def test_words_of_a_kubelet_in_place_of_a_log_are_no_log(told: str) -> None:
    """But a program may write the same among its own lines."""
    asked = ContainerLog(Ref("", "Pod", "home", "p"), "main", previous=True)
    assert shown_log(asked, f"{told}\n") == replace(asked, problem=TOLD[told])
    assert shown_log(asked, f"started\n{told}\n").lines == ("started", told)


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

"""``status`` says why an object is not ready: Pods, events, claims, logs, and the tree."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import Finished, ObjectStatus, Status
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail
from tests.support.command import applyprune
from tests.support.kubelet import Kubelet
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import NOWHERE, PLAYED, WAVE, Body, Puppets, stuck, workload


@pytest.fixture
def puppets(api: Api, namespace: str) -> Puppets:
    """The statuses of the test's namespace."""
    return Puppets(api, namespace)


def of(story: Story, name: str) -> ObjectStatus:
    *_, found = (one for one in story.of(ObjectStatus) if one.ref.short == name)
    return found


def pod_names(puppets: Puppets, app: str) -> list[str]:
    listed = puppets.api.get(f"{puppets.path('pods')}?labelSelector=app%3D{app}")
    return [item["metadata"]["name"] for item in listed["items"]]


def warn(puppets: Puppets, pod: str, reason: str, message: str, count: int, second: int) -> None:
    """Write a Warning event about a Pod, as its kubelet would."""
    live = puppets.api.get(puppets.path("pods", pod))
    stamp = f"2026-01-01T00:00:{second:02}Z"
    event = {
        "metadata": {"name": f"{pod}.{secrets.token_hex(4)}"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod,
            "namespace": puppets.namespace,
            "uid": live["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": count,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "reportingComponent": "kubelet",
        "reportingInstance": "",
    }
    puppets.api.create(puppets.path("events"), event)


def test_status_names_the_pod_and_its_last_warnings(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """As `apply --wait` does; one line for each reason, of which those that repeat come first."""
    stage.run(workload("Deployment", pods=PLAYED), workload("Deployment", "fine"))
    puppets.pods_of("web", stuck("CrashLoopBackOff", "Running"))
    (name,) = pod_names(puppets, "web")
    for second, count in ((1, 3), (2, 4)):
        warn(puppets, name, "BackOff", "back-off restarting failed container", count, second)
    for second in range(3, 8):
        warn(puppets, name, f"Reason{second}", "told", 1, second)
    eventually(
        lambda: of(stage.status(), "deployment.apps/fine").readiness.status is Status.CURRENT,
        lambda: "the other Deployment",
    )
    audit.restart()
    story = stage.status()
    told = of(story, "deployment.apps/web")
    assert told.readiness.status is Status.IN_PROGRESS
    assert told.readiness.stuck
    assert f"pod/{name}: container main: CrashLoopBackOff" in told.readiness.message
    assert [one.reason for one in told.events] == ["BackOff", "Reason7", "Reason6"]
    assert {one.about for one in told.events} == {f"pod/{name}"}
    assert (told.not_read, told.logs, told.tree) == ("", (), None)
    assert of(story, "deployment.apps/fine").events == ()
    lists = [one["objectRef"]["resource"] for one in audit.ours() if one["verb"] == "list"]
    assert sorted(lists) == ["deployments", "events", "pods", "replicasets"]


def test_refused_reads_are_reported_and_are_no_error(
    stage: Stage, puppets: Puppets, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Who may not read Pods and events still gets the status."""
    stage.run(workload("Deployment", pods=PLAYED))
    puppets.pods_of("web", stuck("CrashLoopBackOff", "Running"))
    access = kubeconfig_as(
        f"few-{stage.namespace}",
        plane,
        api,
        stage.namespace,
        tmp_path,
        rule("", ["configmaps"], WRITE),
        rule("apps", ["deployments"], WRITE),
    )
    story = Stage(access, stage.namespace).status()
    told = of(story, "deployment.apps/web")
    assert "available: 0 of 1" in told.readiness.message
    for plural in ("pods", "events", "replicasets"):
        assert f"its {plural} cannot be read: " in told.not_read
    assert [one.exit_code for one in story.of(Finished)] == [5]


@pytest.fixture
def status(stage: Stage) -> Callable[..., tuple[str, int]]:
    """A call of the command; returns standard output and the exit code."""

    def run(*arguments: str) -> tuple[str, int]:
        ended = applyprune(
            "status", "web", "-n", stage.namespace, *arguments, kubeconfig=stage.kubeconfig
        )
        return ended.out, ended.code

    return run


def test_tree_shows_waves_and_what_each_object_owns(
    stage: Stage, puppets: Puppets, status: Callable[..., tuple[str, int]]
) -> None:
    """Down to Pods, in the columns of kubectl; old ReplicaSets are left out."""
    recreate: Body = {"strategy": {"type": "Recreate"}}
    stage.run(workload("Deployment", pods=NOWHERE, spec=recreate))
    eventually(lambda: bool(pod_names(puppets, "web")), lambda: "the Pod of the first template")
    (old,) = pod_names(puppets, "web")
    second = workload("Deployment", pods=PLAYED, spec=recreate)
    late = {"apiVersion": "v1", "kind": "ConfigMap"}
    late["metadata"] = {"name": "late", "annotations": {WAVE: "1"}}  # type: ignore[assignment]
    second["metadata"]["annotations"] = {"applyprune.dev/wait": "skip"}
    stage.run(second, late, wait=False)
    eventually(
        lambda: {*pod_names(puppets, "web")} - {old} != set(), lambda: "the Pod of the second one"
    )
    (pod,) = pod_names(puppets, "web")
    puppets.pod(pod, stuck("CrashLoopBackOff", "Running"))
    out, code = status("--tree")
    assert code == 0, out
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1] == ["wave", "0"]
    assert lines[2][:5] == ["└─", "deployment.apps/web", "0/1", "InProgress", "-"]
    assert lines[3][:2] == ["└─", f"replicaset.apps/{pod.rpartition('-')[0]}"]
    assert lines[4][:5] == ["└─", f"pod/{pod}", "0/1", "CrashLoopBackOff", "3"]
    assert lines[5] == ["wave", "1"]
    assert lines[6][:4] == ["└─", "configmap/late", "-", "Ready"]
    assert f"deployment.apps/web: pod/{pod}: container main: CrashLoopBackOff" in out
    told = json.loads(status("--tree", "-o", "json")[0])["objects"]
    (tree,) = (one["objectStatus"]["tree"] for one in told if one["ref"]["kind"] == "Deployment")
    assert tree["owned"][0]["owned"][0]["ref"]["name"] == pod
    assert tree["owned"][0]["owned"][0]["restarts"] == 3


SECRET_ENV = "a-secret-of-the-environment"


def _started(puppets: Puppets) -> str:
    """Return the Pod of the Deployment, when kwok has started it."""

    def started() -> list[str]:
        listed = puppets.api.get(f"{puppets.path('pods')}?labelSelector=app%3Dweb")
        return [one["metadata"]["name"] for one in listed["items"] if one["status"].get("podIP")]

    (name,) = eventually(started, lambda: "kwok has started the Pod")
    return str(name)


@pytest.fixture
def kubelet(plane: Plane, api: Api, namespace: str) -> Iterator[Kubelet]:
    """A node with logs, for one test."""
    lines = "".join(f"line {number}\n" for number in range(1, 13))
    logs = {
        ("main", True): f"{lines}panic: \x1b[2J{'x' * 900}\n".encode(),
        ("side", False): b"listening\nnot ready: no database\n\xff\n",
    }
    with Kubelet(plane, api, f"node-{namespace}", logs) as running:
        yield running


def crash(name: str, *, running: bool) -> Body:
    """Return the status of a container that crashed before, and waits or runs unready."""
    ended = {"exitCode": 1, "reason": "Error", "containerID": "containerd://1"}
    state: dict[str, Any] = (
        {"running": {}} if running else {"waiting": {"reason": "CrashLoopBackOff"}}
    )
    return {
        "name": name,
        "image": "main:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0 if running else 2,
        "state": state,
        "lastState": {} if running else {"terminated": ended},
    }


def test_logs_show_the_last_lines_of_failing_containers(
    stage: Stage, puppets: Puppets, kubelet: Kubelet, status: Callable[..., tuple[str, int]]
) -> None:
    """Through the API server; ten lines, escaped and cut, and no environment variable."""
    env = [{"name": "TOKEN", "value": SECRET_ENV}]
    pods: Body = {
        "nodeName": kubelet.node,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {"name": "main", "image": "main:1", "env": env},
            {"name": "side", "image": "side:1"},
        ],
    }
    stage.run(workload("Deployment", pods=pods))

    name = _started(puppets)
    statuses = [crash("main", running=False), crash("side", running=True)]
    unready = [{"type": kind, "status": "False"} for kind in ("Ready", "ContainersReady")]
    puppets.pod(name, {"containerStatuses": statuses, "conditions": unready})
    eventually(lambda: status()[1] == 5, lambda: "the Deployment is not ready")
    out, code = status("--logs")
    assert code == 5
    assert f"log of pod/{name}, container main, the instance that crashed:\n" in out
    assert f"log of pod/{name}, container side:\n    listening\n    not ready: no dat" in out
    assert "    line 12\n" in out
    assert "line 3\n" not in out
    assert "panic: \\x1b[2Jxxx" in out
    assert "x" * 401 not in out
    assert SECRET_ENV not in out
    assert [one["tailLines"] for one in kubelet.asked] == ["10"] * len(kubelet.asked)
    whole, _ = status("--logs", "-o", "json")
    assert SECRET_ENV not in whole
    (told,) = (one for one in json.loads(whole)["objects"] if one["ref"]["kind"] == "Deployment")
    logs = {one["container"]: one for one in told["objectStatus"]["logs"]}
    assert logs["main"]["previous"] is True
    assert len(logs["main"]["lines"]) == 10
    assert logs["side"]["lines"][0] == "listening"
    assert logs["side"]["lines"][2] == "�"

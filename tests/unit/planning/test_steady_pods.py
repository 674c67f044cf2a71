"""Which Pods prove that their workload stays ready."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applyprune.model.identity import GroupKind
from applyprune.planning.steady_pods import needs_proof, pod_selector, unproved

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
PROBE = {"readinessProbe": {"tcpSocket": {"port": 80}}}
RESTARTED = "container main has restarted"
UNPROBED = "it has no readiness probe, and was not ready for 10 s yet"

Body = dict[str, Any]


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(kind: str = "Deployment", replicas: int = 1, **spec: Any) -> Body:
    status = {"updateRevision": "new", "desiredNumberScheduled": replicas}
    return {
        "kind": kind,
        "metadata": {"name": "web", "uid": "u"},
        "spec": {"replicas": replicas, **spec},
        "status": status,
    }


def pod(
    name: str = "p",
    kind: str = "Deployment",
    *,
    ready: float | None = 1.0,
    ran: float | None = None,
    runs: float = 1.0,
    mark: str = "new",
    probe: Body | None = None,
    **more: Any,
) -> Body:
    """Return a Pod that is ready since ``ready`` seconds.

    Its container has restarted ``runs`` seconds ago, after a run of ``ran`` seconds, if that is
    given.
    """
    owner = {"kind": "ReplicaSet", "name": f"web-{mark}", "controller": True}
    label = "pod-template-hash"
    if kind != "Deployment":
        owner, label = {"kind": kind, "uid": "u", "controller": True}, "controller-revision-hash"
    status: Body = {"name": "main", "restartCount": 0, "state": {"running": {}}}
    if ran is not None:
        ended = {"startedAt": ago(runs + ran), "finishedAt": ago(runs), "exitCode": 1}
        status |= {"restartCount": 1, "lastState": {"terminated": ended}}
        status["state"] = {"running": {"startedAt": ago(runs)}}
    is_ready = {"type": "Ready", "status": "False" if ready is None else "True"}
    return {
        "metadata": {"name": name, "labels": {label: mark}, "ownerReferences": [owner], **more},
        "spec": {"containers": [{"name": "main", **(probe or {})}]},
        "status": {
            "conditions": [{**is_ready, "lastTransitionTime": ago(ready or 0.0)}],
            "containerStatuses": [status],
        },
    }


GOING: Body = {"deletionTimestamp": ago(1)}
CASES: dict[str, tuple[Body, list[Body], str]] = {
    "just started, without a probe": (workload(), [pod(ready=1)], UNPROBED),
    "ready for long": (workload(), [pod(ready=10)], ""),
    "a probe": (workload(), [pod(ready=1, probe=PROBE)], ""),
    "a startup probe": (workload(), [pod(ready=1, probe={"startupProbe": {"exec": {}}})], ""),
    "minReadySeconds": (workload(minReadySeconds=1), [pod(ready=1)], ""),
    "not ready": (workload(), [pod(ready=None, probe=PROBE)], "it is not ready"),
    "restarted a moment ago": (workload(), [pod(ran=1, runs=5)], RESTARTED),
    "restarted, with a probe": (workload(), [pod(ran=1, runs=5, probe=PROBE)], RESTARTED),
    "restarted, and runs longer now": (workload(), [pod(ran=1, runs=11)], ""),
    "restarted after a long run": (workload(), [pod(ran=3600, runs=59)], RESTARTED),
    "restarted a minute ago": (workload(), [pod(ran=3600, runs=60)], ""),
    "no Pod": (workload(), [], "0 of 1 Pods were found"),
    "a Pod that is going": (workload(), [pod(ready=60, **GOING)], "0 of 1 Pods were found"),
    "a Pod of somebody else": (workload(), [pod(kind="Job")], "0 of 1 Pods were found"),
    "an old Pod": (
        workload(),
        [pod(ready=60), pod("q", ready=60, mark="old")],
        "Pods of its old template still run",
    ),
    "an old Pod that is going": (workload(), [pod(ready=60), pod("q", mark="old", **GOING)], ""),
    "three of four": (workload(replicas=4), [pod(str(n), ready=60) for n in range(3)], ""),
    "two of four": (
        workload(replicas=4),
        [pod(str(n), ready=60) for n in range(2)],
        "2 of 3 Pods were found",
    ),
    "Recreate wants all": (
        workload(replicas=2, strategy={"type": "Recreate"}),
        [pod(ready=60), pod("q", ready=1)],
        UNPROBED,
    ),
    "one of two that may be away": (
        workload(replicas=2, strategy={"rollingUpdate": {"maxUnavailable": 1}}),
        [pod(ready=60), pod("q", ran=1, runs=1)],
        "",
    ),
    "at least one": (
        workload(strategy={"rollingUpdate": {"maxUnavailable": "100%"}}),
        [pod(ready=1)],
        UNPROBED,
    ),
    "a StatefulSet": (
        workload("StatefulSet", 2),
        [pod(kind="StatefulSet", ready=60), pod("q", "StatefulSet", ready=60)],
        "",
    ),
    "a partition": (
        workload("StatefulSet", 2, updateStrategy={"rollingUpdate": {"partition": 1}}),
        [pod(kind="StatefulSet", mark="old"), pod("q", "StatefulSet", ready=60)],
        "",
    ),
    "a partition whose new Pod crashes": (
        workload("StatefulSet", 2, updateStrategy={"rollingUpdate": {"partition": 1}}),
        [pod(kind="StatefulSet", mark="old", ready=60), pod("q", "StatefulSet", ran=1, runs=1)],
        RESTARTED,
    ),
    "a DaemonSet": (workload("DaemonSet"), [pod(kind="DaemonSet", ready=60)], ""),
    "a DaemonSet on two nodes": (
        workload("DaemonSet", 3, updateStrategy={"rollingUpdate": {"maxUnavailable": "10%"}}),
        [pod(str(n), "DaemonSet", ready=60) for n in range(2)],
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pods_prove_that_a_workload_stays_ready(name: str) -> None:
    body, pods, wanted = CASES[name]
    found = unproved(body, pods, NOW)
    assert (found is None) is (not wanted)
    assert wanted in (found.message if found else "")


SIDECAR = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]}


@pytest.mark.parametrize(("container", "counts"), [("side", True), ("init", False)])
def test_restart_of_a_sidecar_counts(container: str, *, counts: bool) -> None:
    """An init container that ends has been repeated, and has ended well then."""
    body = pod(ready=60)
    body["spec"] |= SIDECAR
    ended = {"startedAt": ago(3), "finishedAt": ago(2), "exitCode": 1}
    state = {"running": {"startedAt": ago(2)}}
    status = {"name": container, "restartCount": 1, "state": state}
    body["status"]["initContainerStatuses"] = [{**status, "lastState": {"terminated": ended}}]
    assert (unproved(workload(), [body], NOW) is not None) is counts


WORKLOADS = {
    "a Deployment": ("Deployment", workload(), True),
    "without replicas": ("Deployment", workload(replicas=0), False),
    "OnDelete": ("StatefulSet", workload(updateStrategy={"type": "OnDelete"}), False),
    "a DaemonSet without a node": ("DaemonSet", workload("DaemonSet", 0), False),
    "a ReplicaSet": ("ReplicaSet", workload("ReplicaSet"), False),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_that_rolls_its_pods_needs_proof(name: str) -> None:
    kind, body, wanted = WORKLOADS[name]
    assert needs_proof(GroupKind("apps", kind), body) is wanted


def test_selector_of_pods_is_that_of_the_workload() -> None:
    rules = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "env", "operator": "NotIn", "values": ["dev"]},
        {"key": "app", "operator": "Exists"},
    ]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": rules}
    told = "app=web,tier in (a,b),!old,env notin (dev),app"
    assert pod_selector(workload(selector=selector)) == told

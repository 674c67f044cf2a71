"""A wait tells the reason that the kubelet has written, while it still waits."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.node.waits import READY, Run, container, pods, waiting
from tests.support.api import temporary_namespace
from tests.support.command import applyprune
from tests.support.objects import text
from tests.support.recorded_pods import write
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.workloads import Body

SERVE = container("serve", **READY)
ABSENT: Body = {
    "volumes": [{"name": "c", "configMap": {"name": "absent"}}],
    "containers": [{**SERVE, "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
}
PANIC = "panic: cannot open the database: connection refused"


@dataclass(frozen=True, slots=True)
class Row:
    """A workload that does not become ready."""

    name: str
    manifests: tuple[Body, ...]
    says: str
    """What a run, and `status` after it, say: a regular expression."""
    really: str
    """What the Pods or their Events have then: another one."""
    log: str = ""
    """What `status --logs` shows."""
    ends: bool = False
    """Whether the run gives up by itself: nothing that runs can help."""


def unprobed(*arguments: str, **more: Any) -> tuple[Body, ...]:
    return (pods(container(*arguments, **more)),)


def served(**more: Any) -> tuple[Body, ...]:
    return (pods({**SERVE, **more}),)


def of_pods(**more: Any) -> tuple[Body, ...]:
    (body,) = served()
    body["spec"]["template"]["spec"].update(more)
    return (body,)


def with_fields(*manifests: Body, **spec: Any) -> tuple[Body, ...]:
    manifests[0]["spec"].update(spec)
    return manifests


LIVENESS: Body = {
    "livenessProbe": {
        "httpGet": {"path": "/live", "port": 9999},
        "periodSeconds": 1,
        "failureThreshold": 2,
    }
}
KEY: Body = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "absent"}}}
SECRET: Body = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "stringData": {"a": "b"},
}
CLAIM: Body = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}

ROWS = (
    Row(
        "badcommand",
        served(command=["/no/such/program"]),
        r"container main: .*/no/such/program: no such file or directory",
        "StartError|RunContainerError",
    ),
    Row(
        "badimage",
        served(image="Registry/UPPER:1"),
        r"container main: InvalidImageName: .*must be lowercase",
        "InvalidImageName",
        ends=True,
    ),
    Row(
        "crash",
        unprobed("exit", "1"),
        r"container main: CrashLoopBackOff: back-off 10s \(last exit code 1\)",
        "CrashLoopBackOff",
        log=PANIC,
    ),
    Row(
        "crash-late",
        with_fields(*unprobed("exit", "1", "8"), minReadySeconds=15),
        r"container main: CrashLoopBackOff: back-off 10s \(last exit code 1\)",
        "CrashLoopBackOff",
        log=PANIC,
    ),
    Row(
        "initfail",
        of_pods(initContainers=[container("exit", "3", "1", name="migrate")]),
        r"container migrate: CrashLoopBackOff: back-off 10s \(last exit code 3\)",
        "CrashLoopBackOff",
        log=PANIC,
    ),
    Row(
        "job-deadline",
        (pods(container("serve"), kind="Job", activeDeadlineSeconds=6),),
        r"DeadlineExceeded",
        "DeadlineExceeded",
        ends=True,
    ),
    Row(
        "job-fail",
        (pods(container("exit", "3", "1"), kind="Job", backoffLimit=1),),
        r"BackoffLimitExceeded.*exited with code 3",
        "BackoffLimitExceeded",
        log=PANIC,
        ends=True,
    ),
    Row(
        "liveness",
        (pods(container("serve", "-ready=false", **READY, **LIVENESS)),),
        r"Liveness probe failed: .*:9999.*connection refused",
        "Liveness probe failed",
    ),
    Row(
        "noconfig",
        served(envFrom=[{"configMapRef": {"name": "absent"}}]),
        r'container main: CreateContainerConfigError: configmap "absent" not found',
        "CreateContainerConfigError",
    ),
    Row(
        "noimage-never",
        served(image="localhost/absent:1", imagePullPolicy="Never"),
        r"container main: ErrImageNeverPull: .*localhost/absent:1",
        "ErrImageNeverPull",
    ),
    Row(
        "nokey",
        (SECRET, *served(env=[KEY])),
        r"container main: CreateContainerConfigError: couldn't find key absent in Secret",
        "CreateContainerConfigError",
    ),
    Row(
        "nomount",
        of_pods(**ABSENT),
        r'FailedMount: .*configmap "absent" not found',
        "FailedMount",
    ),
    Row(
        "noroot",
        of_pods(securityContext={"runAsNonRoot": True}),
        r"container main: CreateContainerConfigError: container has runAsNonRoot and image will"
        r" run as root(?! \(pod)",
        "CreateContainerConfigError",
    ),
    Row(
        "oom",
        unprobed("eat", "200", resources={"limits": {"memory": "50Mi"}}),
        r"container main: CrashLoopBackOff: back-off 10s \(last exit code 137, OOMKilled\)",
        "OOMKilled",
    ),
    Row(
        "pull",
        served(image="registry.example.com/shop/web:1.2.3"),
        r"container main: ImagePullBackOff: registry.example.com/shop/web:1.2.3: lookup .*"
        r"network is unreachable",
        "ImagePullBackOff|ErrImagePull",
    ),
    Row(
        "sts",
        (pods(container("serve"), kind="StatefulSet", volumeClaimTemplates=[CLAIM]),),
        r"Unschedulable: .*unbound immediate PersistentVolumeClaims.*data-web-0 is Pending",
        "Unschedulable",
    ),
    Row(
        "toobig",
        served(resources={"requests": {"cpu": "1000"}}),
        r"Unschedulable: 0/2 nodes are available: .*Insufficient cpu",
        "Unschedulable",
    ),
    Row(
        "unready",
        (pods(container("serve", "-ready=false", **READY)),),
        r"Readiness probe failed: HTTP probe failed with statuscode: 503",
        "Readiness probe failed",
    ),
    Row(
        "unready-progress",
        (pods(container("serve", "-ready=false", **READY), progressDeadlineSeconds=20),),
        r"the progress deadline is exceeded.*Readiness probe failed",
        "ProgressDeadlineExceeded",
        ends=True,
    ),
)


@pytest.fixture(scope="module")
def runs(
    plane: Plane, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Run]]:
    """A run for each row, all at the same time: most of it is waiting."""
    with ExitStack() as stack:
        yield {
            row.name: stack.enter_context(
                waiting(
                    plane,
                    stack.enter_context(temporary_namespace(api)),
                    tmp_path_factory.mktemp(row.name),
                    *row.manifests,
                    options=("--wait",),
                )
            )
            for row in ROWS
        }


def written(api: Api, namespace: str) -> str:
    """Return all that the nodes and controllers have written in a namespace."""
    places = [f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("pods", "events")]
    places.append(f"/apis/batch/v1/namespaces/{namespace}/jobs")
    places.append(f"/apis/apps/v1/namespaces/{namespace}/deployments")
    return json.dumps([api.get(place)["items"] for place in places])


def record(name: str, api: Api, namespace: str) -> None:
    """Write the Pod of a row, what was told about it, and the Job that it belongs to."""
    (pod, *_) = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"] or [None]
    jobs = api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    (owner, *_) = jobs or [None]
    events = api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    for kind, bodies in (("v1 Pod", [pod]), ("batch/v1 Job", [owner])):
        for body in bodies:
            if body is not None:  # the items of a list do not say what they are
                body["apiVersion"], body["kind"] = kind.split()
    known = {body["metadata"]["uid"] for body in (pod, owner) if body is not None}
    about = [one for one in events if one["involvedObject"]["uid"] in known]
    write(name, pod, about, owner)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_reason_is_what_the_kubelet_says(
    row: Row, runs: Mapping[str, Run], api: Api, plane: Plane, request: pytest.FixtureRequest
) -> None:
    """While the run waits, and in `status` after it; the log of what ran is shown."""
    run = runs[row.name]
    run.tells(row.says)
    eventually(lambda: re.search(row.really, written(api, run.namespace)), lambda: row.really)
    if request.config.getoption("--write-pods"):
        record(row.name, api, run.namespace)
    assert (run.process.poll() is None) != row.ends or run.end() == 5
    if not row.ends:
        run.interrupt()
    place = ("status", "web", "-n", run.namespace)
    # Between two crashes, a Deployment without a probe says that it is ready.
    eventually(
        lambda: applyprune(*place, kubeconfig=plane.kubeconfig).code == 5,
        lambda: f"{row.name} is not ready",
    )
    if row.log:
        shown = applyprune(*place, "--logs", kubeconfig=plane.kubeconfig)
        assert row.log in shown.out


def test_work_that_succeeds_is_ready(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """A Job that ends, and a Deployment whose Pods need a while; the run ends after both."""
    job = pods(container("exit", "0", "4"), kind="Job", name="once", backoffLimit=0)
    slow = pods(container("serve", "-ready=3", **READY), replicas=2)
    with waiting(plane, namespace, tmp_path, job, slow, options=("--wait",)) as run:
        assert run.end() == 0
    done = api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/once")["status"]
    assert done["succeeded"] == 1
    ready = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")["status"]
    assert ready["availableReplicas"] == 2
    told = [one["ref"]["kind"] for one in run.told if one["event"] == "readiness"]
    assert sorted(told) == ["Deployment", "Job"]


def test_long_wait_says_its_reason_once(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """In a log: for 45 s of an image that nobody has, two lines at most before the error."""
    (tmp_path / "all.yaml").write_text(text(*served(image="registry.example.com/shop/web:1.2.3")))
    given = ("apply", "web", "-n", namespace, "-f", tmp_path / "all.yaml", "--wait")
    ended = applyprune(*given, "--timeout=45s", kubeconfig=plane.kubeconfig)
    assert ended.code == 5
    lines = [line for line in ended.err.splitlines() if line.startswith("waiting")]
    assert len(lines) <= 2, ended.err
    assert sum("network is unreachable" in line for line in lines) == 1

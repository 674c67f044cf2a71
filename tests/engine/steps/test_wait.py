"""Waiting until objects are ready, on a real API server whose nodes and kubelets kwok plays.

A Pod that names a scheduler which there is not is played by the test itself: nobody else writes
its status.
"""

from __future__ import annotations

import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.engine.cancellation import Cancellation
from applyprune.engine.informer import Listed, Upserted, WatchScope
from applyprune.engine.steps.wait import ReadinessWaiter
from applyprune.errors import InputError, Interrupted, UsageError
from applyprune.model.events import (
    InventoryWritten,
    Outcome,
    Phase,
    ReadinessReported,
    Status,
    Waiting,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.live import LiveObject
from applyprune.model.manifest import Origin
from applyprune.model.options import DryRun
from applyprune.model.resources import Resource
from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.readiness.wait_rules import Awaited
from tests.support.fault_proxy import always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.fault_proxy import Exchange, Fault, FaultProxy

Body = dict[str, Any]

NOWHERE: Body = {"nodeSelector": {"no": "node"}}
PLAYED: Body = {"schedulerName": "the-test-itself"}
MERGE = "application/merge-patch+json"
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
WAIT = "applyprune.dev/wait"
READY_WHEN = "applyprune.dev/ready-when"
DEPENDS_ON = "config.kubernetes.io/depends-on"


def metadata(name: str, **annotations: str) -> Body:
    """Return metadata; the words of annotations are those that this file uses."""
    keys = {
        "wait": WAIT,
        "ready_when": READY_WHEN,
        "depends_on": DEPENDS_ON,
        "wave": "applyprune.dev/wave",
    }
    found = {keys[key]: text for key, text in annotations.items()}
    return {"name": name, **({"annotations": found} if found else {})}


def pod(name: str, **annotations: str) -> Body:
    """Return a Pod whose status only the test writes."""
    spec = {"containers": [{"name": "main", "image": "main:1"}], **PLAYED}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, **annotations),
            "spec": spec}  # fmt: skip


def workload(
    kind: str,
    name: str = "web",
    *,
    pods: Body | None = None,
    spec: Body | None = None,
    **notes: str,
) -> Body:
    """Return a Deployment, StatefulSet, DaemonSet or Job; ``pods`` goes into its Pods' spec."""
    labels = {"app": name}
    template: Body = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "main:1"}], **(pods or {})},
    }
    body: Body = {"template": template, **(spec or {})}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        body["selector"] = {"matchLabels": labels}
    if kind == "StatefulSet":
        body["serviceName"] = name
    group = "batch" if kind == "Job" else "apps"
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": metadata(name, **notes),
        "spec": body,
    }


def ready(*, value: str = "True") -> Body:
    """Return the status of a Pod that runs, ready or not."""
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": value}]}


def stuck(reason: str, phase: str = "Pending") -> Body:
    """Return the status of a Pod whose container waits."""
    container = {
        "name": "main",
        "image": "main:1",
        "imageID": "",
        "ready": False,
        "restartCount": 3,
        "state": {"waiting": {"reason": reason, "message": "so says the kubelet"}},
    }
    return {"phase": phase, "containerStatuses": [container]}


@dataclass(slots=True)
class Puppets:
    """Writes the status of objects of one namespace, as their controllers and kubelets would."""

    api: Api
    namespace: str

    def path(self, plural: str, name: str = "", api: str = "/api/v1") -> str:
        """Return the path of an object, or of a collection."""
        return f"{api}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def set(self, path: str, status: Body) -> None:
        """Write a status as soon as the object is there."""
        eventually(lambda: self.api.exists(path), path)
        code, reply = self.api("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
        assert code == 200, reply

    def pod(self, name: str, status: Body) -> None:
        """Write the status of a Pod."""
        self.set(self.path("pods", name), status)

    def pods_of(self, app: str, status: Body, *, label: str = "app") -> None:
        """Write the status of a workload's Pods as soon as there is one."""
        names: list[str] = []

        def there() -> bool:
            listed = self.api.get(f"{self.path('pods')}?labelSelector={label}%3D{app}")
            names[:] = [item["metadata"]["name"] for item in listed["items"]]
            return bool(names)

        eventually(there, f"a Pod of {app}")
        for name in names:
            self.pod(name, status)

    def remove(self, path: str) -> None:
        """Delete an object at once."""
        code, reply = self.api("DELETE", path, {"gracePeriodSeconds": 0})
        assert code == 200, reply


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something in a thread of its own; what it raises is raised at the end."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(act)
        yield
        future.result()


def verdicts(story: Story) -> dict[str, ReadinessReported]:
    """Return how the wait for each object ended, by ``kind/name``."""
    return {one.ref.short: one for one in story.events if isinstance(one, ReadinessReported)}


def became_ready(story: Story) -> set[str]:
    """Return what became ready."""
    return {name for name, one in verdicts(story).items() if one.problem is None}


def complaints(story: Story) -> dict[str, str]:
    """Return what did not become ready, with what the user is told."""
    return {name: str(one.problem) for name, one in verdicts(story).items() if one.problem}


@pytest.fixture
def puppets(api: Api, namespace: str) -> Puppets:
    """The statuses of the test's namespace."""
    return Puppets(api, namespace)


@pytest.fixture
def waits(stage: Stage) -> Flag:
    """Set once a run with --wait has recorded everything and begins to wait."""
    return flag_of(stage)


def flag_of(stage: Stage) -> Flag:
    """Return a flag that is set once a run of the stage begins its last wait."""
    flag = Flag()

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten) and event.phase is Phase.APPLIED:
            flag.set()

    stage.seen = see
    return flag


def is_watch(seen: Exchange) -> bool:
    """Return whether a request is a watch."""
    return "watch" in seen.query


# What kwok makes ready, as a cluster would.


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (workload("Deployment", spec={"replicas": 2}), "deployment.apps/web"),
        (workload("StatefulSet", spec={"replicas": 2}), "statefulset.apps/web"),
        (workload("DaemonSet"), "daemonset.apps/web"),
        (workload("Job"), "job.batch/web"),
    ],
    ids=["Deployment", "StatefulSet", "DaemonSet", "Job"],
)
def test_workload_is_waited_for_until_its_pods_are_ready(
    stage: Stage, api: Api, puppets: Puppets, body: Body, name: str
) -> None:
    """By the API server's own numbers it is, when the run ends; again, it is so at once."""
    story = stage.run(body, wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {name})
    group, plural = body["apiVersion"], f"{body['kind'].lower()}s"
    status = api.get(f"{puppets.path(plural, 'web', f'/apis/{group}')}/status")["status"]
    done = {
        "Deployment": ("availableReplicas", 2),
        "StatefulSet": ("readyReplicas", 2),
        "DaemonSet": ("numberReady", 1),
        "Job": ("succeeded", 1),
    }
    field, count = done[body["kind"]]
    assert status[field] == count
    again = stage.run(body, wait=True, timeout=60.0)
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert verdicts(again)[name].elapsed < 1.0


def test_deployment_that_rolls_out_again_is_waited_for(stage: Stage, api: Api) -> None:
    """It was ready before: the numbers of the old generation do not count."""
    stage.run(workload("Deployment"), wait=True, timeout=60.0)
    changed = workload("Deployment")
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "main:2"
    story = stage.run(changed, wait=True, timeout=60.0)
    assert story.outcomes == {"deployment.apps/web": Outcome.CONFIGURED}
    assert story.exit_code == 0
    live = api.get(f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web")
    assert live["status"]["updatedReplicas"] == live["status"]["replicas"] == 1


def test_deployment_that_exceeds_its_progress_deadline_fails(stage: Stage) -> None:
    """Exit code 5, long before the timeout, with the Pod's own trouble."""
    body = workload("Deployment", pods=NOWHERE, spec={"progressDeadlineSeconds": 3})
    began = time.monotonic()
    story = stage.run(body, wait=True, timeout=120.0)
    assert time.monotonic() - began < 14.0
    assert story.exit_code == 5
    told = complaints(story)["deployment.apps/web"]
    assert "set.yaml:1" in told
    assert " will not become ready: the progress deadline is exceeded" in told
    assert "FailedScheduling: 0/1 nodes are available" in told, "the last warnings of its Pods"


def test_job_whose_pod_fails_fails(stage: Stage, puppets: Puppets) -> None:
    """The Job controller's own verdict, on a Pod that failed."""

    def fail() -> None:
        puppets.pods_of("once", {"phase": "Failed", "reason": "Error"})

    body = workload("Job", "once", pods=PLAYED, spec={"backoffLimit": 0})
    with meanwhile(fail):
        story = stage.run(body, wait=True, timeout=60.0)
    assert story.exit_code == 5
    told = complaints(story)["job.batch/once"]
    assert "the Job has failed: " in told
    assert "backoff limit" in told


@pytest.mark.parametrize("fails", [False, True])
def test_job_that_removes_itself_when_finished_is_ready(
    stage: Stage, puppets: Puppets, fails: bool
) -> None:
    """Gone is done, unless it was seen to have failed before; so the wait needs to have looked."""
    status: Body = {"phase": "Failed" if fails else "Succeeded"}
    spec = {"backoffLimit": 0, "ttlSecondsAfterFinished": 4 if fails else 0}
    path = puppets.path("jobs", "once", "/apis/batch/v1")
    with meanwhile(lambda: puppets.pods_of("once", status)):
        story = stage.run(workload("Job", "once", pods=PLAYED, spec=spec), wait=True, timeout=60.0)
    eventually(lambda: not puppets.api.exists(path), "the Job to be gone")
    assert story.exit_code == (5 if fails else 0)
    if fails:
        assert "the Job has failed: " in complaints(story)["job.batch/once"]


def test_job_that_failed_and_was_removed_at_once_fails() -> None:
    """Both may be in the news of one moment; what was seen last decides."""
    ref = Ref("batch", "Job", "n", "once")
    resource = Resource("batch", "v1", "Job", "jobs", namespaced=True)
    target = applyset_identity("web", "n")
    body: Body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once", "uid": "u", "labels": {PART_OF: target.id}},
        "status": {"conditions": [{"type": "Failed", "status": "True", "message": "too often"}]},
    }
    live = LiveObject(ref=ref, uid="u", resource_version="2", metadata=body["metadata"], body=body)
    source = WatchScope(resource, "n", f"{PART_OF}={target.id}")
    cluster: Any = None
    waiter = ReadinessWaiter(cluster, Cancellation(), target, 60.0)
    for news in (Listed(source, {}), Upserted(source, ref, live), Upserted(source, ref, None)):
        waiter._update(news)
    state = waiter._state(Awaited(ref, resource, 0.0, Origin("a.yaml", 1, 1), has_ttl=True))
    assert (state.status, state.message) == (Status.FAILED, "the Job has failed: too often")


def test_job_can_be_ready_when_started(stage: Stage, puppets: Puppets) -> None:
    """Its Pod never runs; the annotation asks for no more than the start."""
    story = stage.run(workload("Job", "once", pods=PLAYED, wait="started"), wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"job.batch/once"})
    live = puppets.api.get(puppets.path("jobs", "once", "/apis/batch/v1"))
    assert live["status"]["active"] == 1


def test_claim_is_ready_when_bound(stage: Stage, puppets: Puppets) -> None:
    """Pending until there is a volume for it; the controller binds the two."""
    name = f"{stage.namespace}-volume"
    claim: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    volume: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    late = stage.run(claim, wait=True, timeout=1.0)
    assert late.exit_code == 5
    assert (
        "the claim is not bound, its phase is Pending"
        in complaints(late)["persistentvolumeclaim/data"]
    )

    def provide() -> None:
        time.sleep(0.3)
        assert puppets.api("POST", "/api/v1/persistentvolumes", volume)[0] == 201

    with meanwhile(provide):
        story = stage.run(claim, wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"persistentvolumeclaim/data"})
    puppets.remove(puppets.path("persistentvolumeclaims", "data"))
    puppets.remove(f"/api/v1/persistentvolumes/{name}")


# Kinds of one's own.


def definition(group: str) -> Body:
    """Return the CRD of the kind Widget, which has a status."""
    anything: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def group(api: Api) -> Iterator[str]:
    """The group of a kind Widget that there is on the run's plane for the length of this file."""
    name = f"{secrets.token_hex(3)}.example.com"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api("POST", path, definition(name))[0] == 201
    eventually(lambda: api("GET", f"/apis/{name}/v1/widgets")[0] == 200, name)
    yield name
    api("DELETE", f"{path}/widgets.{name}")


def widget(group: str, name: str = "w", **notes: str) -> Body:
    """Return a custom resource of that kind."""
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": metadata(name, **notes),
        "spec": {"size": 1},
    }


def test_crd_and_unobserved_custom_resource_become_ready(stage: Stage, api: Api) -> None:
    """Its CRD has a status: a few seconds are left for one to come, then it counts as ready."""
    group = f"{secrets.token_hex(3)}.example.com"
    crd = f"customresourcedefinition.apiextensions.k8s.io/widgets.{group}"
    try:
        story = stage.run(definition(group), widget(group), wait=True, timeout=60.0)
    finally:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        api("DELETE", f"{path}/widgets.{group}")
    assert story.exit_code == 0
    assert became_ready(story) == {crd, f"widget.{group}/w"}
    assert verdicts(story)[crd].elapsed < 3.0
    assert 4.0 < verdicts(story)[f"widget.{group}/w"].elapsed < 10.0


def test_custom_resource_is_ready_by_its_ready_condition(
    stage: Stage, puppets: Puppets, group: str, waits: Flag
) -> None:
    """False first, which it stays beyond the grace period; then True."""
    path = puppets.path("widgets", "w", f"/apis/{group}/v1")
    turned: list[float] = []

    def turn() -> None:
        assert waits.wait(20)
        condition = {"type": "Ready", "status": "False", "message": "the pump is cold"}
        puppets.set(path, {"conditions": [condition]})
        time.sleep(6.0)
        turned.append(time.monotonic())
        puppets.set(path, {"conditions": [{**condition, "status": "True"}]})

    with meanwhile(turn):
        story = stage.run(widget(group), wait=True, timeout=60.0)
        ended = time.monotonic()
    assert (story.exit_code, became_ready(story)) == (0, {f"widget.{group}/w"})
    assert 0 < ended - turned[0] < 3.0
    said = [one for one in story.events if isinstance(one, Waiting)]
    assert {(one.what, one.reason) for one in said} == {("ready", "the pump is cold")}
    assert all(one.count == 1 and one.elapsed < one.timeout == 60.0 for one in said)


def test_stalled_custom_resource_fails_at_once(stage: Stage, puppets: Puppets, group: str) -> None:
    """The condition of kstatus, whatever the other conditions say."""
    conditions = [
        {"type": "Ready", "status": "Unknown"},
        {"type": "Stalled", "status": "True", "message": "no such pump"},
    ]
    path = puppets.path("widgets", "w", f"/apis/{group}/v1")
    with meanwhile(lambda: puppets.set(path, {"conditions": conditions})):
        story = stage.run(widget(group), wait=True, timeout=60.0)
    assert story.exit_code == 5
    assert "no such pump" in complaints(story)[f"widget.{group}/w"]
    assert verdicts(story)[f"widget.{group}/w"].elapsed < 5.0


@pytest.mark.parametrize("by", ["annotation", "option"])
def test_custom_ready_rule_decides_readiness(
    stage: Stage, puppets: Puppets, group: str, waits: Flag, by: str
) -> None:
    """It takes the place of the rule by conditions."""
    rule = "self.status.level > 3"
    path = puppets.path("widgets", "w", f"/apis/{group}/v1")
    turned: list[float] = []

    def rise() -> None:
        assert waits.wait(20)
        puppets.set(path, {"level": 3, "conditions": [{"type": "Ready", "status": "True"}]})
        time.sleep(0.5)
        turned.append(time.monotonic())
        puppets.set(path, {"level": 4})

    body = widget(group, ready_when=rule) if by == "annotation" else widget(group)
    option = ((f"Widget.{group}", rule),) if by == "option" else ()
    with meanwhile(rise):
        story = stage.run(body, wait=True, timeout=60.0, ready_when=option)
        ended = time.monotonic()
    assert (story.exit_code, ended > turned[0]) == (0, True)
    assert verdicts(story)[f"widget.{group}/w"].readiness.message == f"the rule “{rule}” holds"


def test_ready_rule_can_apply_to_kinds_that_are_ready_at_once(
    stage: Stage, puppets: Puppets
) -> None:
    """A ConfigMap that somebody else fills; while the rule does not hold, it is quoted."""
    body = config_map("a", annotations={READY_WHEN: "has(self.data.filled)"})
    late = stage.run(body, wait=True, timeout=0.5)
    assert late.exit_code == 5
    assert "the rule “has(self.data.filled)” does not hold yet" in complaints(late)["configmap/a"]

    def fill() -> None:
        path = puppets.path("configmaps", "a")
        data = {"data": {"filled": "yes"}}
        assert puppets.api("PATCH", path, data, content_type=MERGE)[0] == 200

    with meanwhile(fill):
        story = stage.run(body, wait=True, timeout=30.0)
    assert (story.exit_code, became_ready(story)) == (0, {"configmap/a"})


@pytest.mark.parametrize("by", ["annotation", "option", "wait"])
def test_invalid_ready_rule_ends_the_run_before_any_write(
    stage: Stage, audit: AuditTrail, by: str
) -> None:
    """A rule that does not compile, a wait annotation that cannot be meant: by file and line."""
    words = {
        "annotation": {READY_WHEN: "self.status.("},
        "wait": {WAIT: "sometimes"},
        "option": {},
    }
    options: Body = {"ready_when": (("Widget.x.io", "self."),)} if by == "option" else {}
    with pytest.raises(InputError) as caught:
        stage.run(config_map("a"), config_map("b", annotations=words[by]), wait=True, **options)
    assert caught.value.exit_code == 2
    assert caught.value.location == ("--ready-when Widget.x.io" if by == "option" else "set.yaml:2")
    assert [event for event in ours(audit) if event["verb"] in WRITES] == []


def test_ready_rule_for_an_unknown_kind_is_an_error(stage: Stage) -> None:
    """Nothing stands before the group."""
    with pytest.raises(UsageError, match="does not name a kind"):
        stage.run(config_map("a"), wait=True, ready_when=((".x.io", "true"),))


def ours(audit: AuditTrail) -> list[dict[str, Any]]:
    """Return the requests of applyprune, as the server saw them."""
    return [one for one in audit.events() if one["userAgent"].startswith("applyprune/")]


# What will never be ready, and why.


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (stuck("CrashLoopBackOff", "Running"), "container main: CrashLoopBackOff: so says the"),
        (stuck("InvalidImageName"), "container main: InvalidImageName: so says the kubelet"),
    ],
    ids=["CrashLoopBackOff", "InvalidImageName"],
)
def test_container_that_cannot_start_fails_its_workload_at_once(
    stage: Stage, puppets: Puppets, status: Body, told: str
) -> None:
    """The Pod is named, whatever the Deployment's own conditions say."""
    with meanwhile(lambda: puppets.pods_of("web", status)):
        story = stage.run(workload("Deployment", pods=PLAYED), wait=True, timeout=60.0)
    assert story.exit_code == 5
    problem = complaints(story)["deployment.apps/web"]
    assert "pod/web-" in problem
    assert told in problem
    assert verdicts(story)["deployment.apps/web"].elapsed < 8.0


@pytest.fixture(scope="module")
def slow(plane: Plane, api: Api) -> Iterator[dict[str, Story]]:
    """Stories told all at once: in each, 15 seconds must pass before something is called final."""
    home, tight = (f"test-{secrets.token_hex(4)}" for _ in range(2))
    for name in (home, tight):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert api("POST", "/api/v1/namespaces", body)[0] == 201
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0"}},
    }
    path = f"/api/v1/namespaces/{tight}/resourcequotas"
    assert api("POST", path, quota)[0] == 201
    eventually(lambda: "hard" in api.get(f"{path}/no-pods").get("status", {}), "the quota")
    nowhere = pod("nowhere")
    nowhere["spec"] = {**workload("Job", pods=NOWHERE)["spec"]["template"]["spec"]}
    sets = {
        "a quota and a Deployment": (tight, workload("Deployment", "deployed")),
        "a quota and a StatefulSet": (tight, workload("StatefulSet", "stateful")),
        "an image": (home, workload("Deployment", "image", pods=PLAYED)),
        "no node for a Pod": (home, nowhere),
        "no node for a StatefulSet": (home, workload("StatefulSet", "none", pods=NOWHERE)),
    }

    def tell(number: int, where: str, body: Body) -> Story:
        return Stage(plane.kubeconfig, where, name=f"set-{number}").run(
            body, wait=True, timeout=60.0
        )

    with ThreadPoolExecutor(len(sets)) as pool:
        futures = {
            title: pool.submit(tell, number, *told)
            for number, (title, told) in enumerate(sets.items())
        }
        Puppets(api, home).pods_of("image", stuck("ImagePullBackOff"))
        yield {title: future.result() for title, future in futures.items()}
    for name in (home, tight):
        api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize(
    ("title", "name", "told"),
    [
        ("a quota and a Deployment", "deployment.apps/deployed", "exceeded quota: no-pods"),
        ("a quota and a StatefulSet", "statefulset.apps/stateful", "exceeded quota: no-pods"),
        ("an image", "deployment.apps/image", "container main: ImagePullBackOff: so says"),
        ("no node for a Pod", "pod/nowhere", "0/1 nodes are available"),
        ("no node for a StatefulSet", "statefulset.apps/none", "0/1 nodes are available"),
    ],
)
def test_transient_problem_fails_when_it_lasts(
    slow: dict[str, Story], title: str, name: str, told: str
) -> None:
    """After 15 seconds, long before the timeout; the API server's own words are quoted."""
    story = slow[title]
    assert story.exit_code == 5
    assert "will not become ready" in complaints(story)[name]
    assert told in complaints(story)[name]
    assert 13.0 < verdicts(story)[name].elapsed < 30.0


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_denied_by_an_admission_policy_fail_their_workload(
    stage: Stage, api: Api, kind: str
) -> None:
    """A denial does not pass: no grace is given, and the policy's own words are quoted."""
    name = f"deny-{stage.namespace}"
    groups = "/apis/admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    home = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    policy = {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": home},
            "validations": [{"expression": "false", "message": "no Pods on a Sunday"}],
        },
    }
    binding = {
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    policies = f"{groups}/validatingadmissionpolicies"
    bindings = f"{groups}/validatingadmissionpolicybindings"
    try:
        assert api("POST", policies, policy)[0] == 201
        assert api("POST", bindings, binding)[0] == 201
        dry = f"/api/v1/namespaces/{stage.namespace}/pods?dryRun=All"
        eventually(lambda: api("POST", dry, pod("x"))[0] == 422, "the policy")
        story = stage.run(workload(kind), wait=True, timeout=60.0)
    finally:
        api("DELETE", f"{bindings}/{name}")
        api("DELETE", f"{policies}/{name}")
    assert story.exit_code == 5
    told = complaints(story)[f"{kind.lower()}.apps/web"]
    assert "its Pods are rejected: " in told
    assert "no Pods on a Sunday" in told
    assert verdicts(story)[f"{kind.lower()}.apps/web"].elapsed < 10.0


def test_first_failure_ends_the_wait_and_names_the_others(stage: Stage, puppets: Puppets) -> None:
    """Within seconds, though two others are on their way and the timeout is long."""
    began = time.monotonic()
    bodies = (pod("lost"), pod("slow"), workload("Deployment", "later", pods=PLAYED))
    with meanwhile(lambda: puppets.pod("lost", {"phase": "Failed", "reason": "Evicted"})):
        story = stage.run(*bodies, wait=True, timeout=300.0)
    assert time.monotonic() - began < 6.0
    assert story.exit_code == 5
    assert complaints(story).keys() == {"pod/lost"}
    told = complaints(story)["pod/lost"]
    assert "the Pod has failed: Evicted" in told
    for other in ("pod/slow", "deployment.apps/later"):
        assert other in told.partition("Not ready yet either: ")[2]


# What is not waited for.


def test_skipped_object_is_not_waited_for(stage: Stage) -> None:
    """The annotation takes one object out; the rest is waited for."""
    bodies = (
        workload("Deployment", pods=NOWHERE, wait="skip"),
        pod("played", wait="skip"),
        workload("Deployment", "other"),
    )
    story = stage.run(*bodies, wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/other"})


def test_object_that_is_ready_once_stored_is_not_watched(stage: Stage, audit: AuditTrail) -> None:
    """ConfigMaps and Secrets cost a run with --wait no request more, but one write."""
    bodies = [config_map(f"a-{number}") for number in range(5)]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    stage.run(*bodies, secret)
    audit.restart()
    story = stage.run(*bodies, secret, wait=True)
    assert (story.exit_code, verdicts(story)) == (0, {})
    assert sorted(event["verb"] for event in ours(audit)) == ["get"] * 3 + ["list"] * 2


@pytest.mark.parametrize("options", [{}, {"wait": True, "dry_run": DryRun.SERVER}])
def test_run_without_wait_or_with_dry_run_watches_nothing(
    stage: Stage, audit: AuditTrail, options: Body
) -> None:
    """The run ends as soon as everything is sent."""
    story = stage.run(workload("Deployment", pods=NOWHERE), **options)
    assert (story.exit_code, verdicts(story)) == (0, {})
    assert "watch" not in {event["verb"] for event in ours(audit)}


# Time, order, and the end of a run.


def test_timeout_is_exit_code_5_and_prunes_nothing(stage: Stage, api: Api) -> None:
    """What was applied is recorded with its UIDs; the next run with less prunes."""
    stage.run(config_map("old"))
    seen: list[set[str]] = []
    recorded = Stage(stage.kubeconfig, stage.namespace)

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten) and event.phase is Phase.APPLIED:
            seen.append({ref.short for ref, one in recorded.inventory().entries.items() if one.uid})

    stage.seen = see
    story = stage.run(pod("never"), config_map("new"), wait=True, timeout=1.5)
    assert story.exit_code == 5
    assert seen == [{"pod/never", "configmap/new", "configmap/old"}], "before the wait"
    assert "the Pod is pending" in complaints(story)["pod/never"]
    kept = [one for one in story.events if getattr(one, "outcome", None) is Outcome.NOT_PRUNED]
    assert [getattr(one, "reason", "") for one in kept] == ["not deleted: not everything is ready"]
    phases = [one.phase for one in story.events if isinstance(one, InventoryWritten)]
    assert phases == [Phase.UNION, Phase.APPLIED, Phase.SHRUNK]
    assert stage.listed() == {"pod/never", "configmap/new", "configmap/old"}
    entries = stage.inventory().entries.values()
    assert all(one.uid and one.ownership is Ownership.OWNED for one in entries)
    after = stage.run(config_map("new"))
    assert after.outcomes == {
        "configmap/new": Outcome.UNCHANGED,
        "configmap/old": Outcome.PRUNED,
        "pod/never": Outcome.PRUNED,
    }
    assert not api.exists(f"/api/v1/namespaces/{stage.namespace}/pods/never")


def after(*names: str, namespace: str) -> str:
    """Return the depends-on annotation for Pods of a namespace."""
    return ",".join(f"/namespaces/{namespace}/Pod/{name}" for name in names)


def test_dependent_is_sent_when_its_dependency_is_ready_even_without_wait(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """By the server's log the status comes first; what depends on a ConfigMap waits for nothing."""
    home = stage.namespace
    bodies = (
        pod("first"),
        config_map("second", annotations={DEPENDS_ON: after("first", namespace=home)}),
        config_map("at-once", annotations={DEPENDS_ON: f"/namespaces/{home}/ConfigMap/free"}),
        config_map("free"),
    )

    def turn() -> None:
        eventually(lambda: puppets.api.exists(puppets.path("configmaps", "free")), "free")
        time.sleep(0.3)
        puppets.pod("first", ready())

    with meanwhile(turn):
        story = stage.run(*bodies)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/first"})
    writes = [
        event["requestURI"].partition("?")[0].removeprefix(f"/api/v1/namespaces/{home}/")
        for event in audit.events()
        if event["verb"] == "patch"
    ]
    assert writes.index("pods/first/status") < writes.index("configmaps/second")
    assert {
        event["objectRef"]["resource"] for event in ours(audit) if event["verb"] == "watch"
    } == {"pods"}


def test_dependent_is_held_back_while_its_dependency_is_not_ready(stage: Stage, group: str) -> None:
    """Everything else is applied, of later ranks too; nothing is pruned; the object is named."""
    stage.run(config_map("old"))
    bodies = (
        pod("never"),
        config_map("back", annotations={DEPENDS_ON: after("never", namespace=stage.namespace)}),
        config_map("free"),
        widget(group, "free"),
    )
    story = stage.run(*bodies, timeout=1.0)
    assert story.exit_code != 0
    assert story.outcomes == {
        "pod/never": Outcome.CREATED,
        "configmap/back": Outcome.SKIPPED,
        "configmap/free": Outcome.CREATED,
        f"widget.{group}/free": Outcome.CREATED,
        "configmap/old": Outcome.NOT_PRUNED,
    }
    told = story.problem("configmap/back")
    assert "pod/never in namespace" in told
    assert "which is not ready" in told
    assert complaints(story).keys() == {"pod/never"}


def test_failure_does_not_release_dependents_of_another_object(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """Nothing is sent before what it depends on is ready, whatever became of the others."""
    home = stage.namespace
    bodies = (
        pod("lost"),
        pod("slow"),
        config_map("a", annotations={DEPENDS_ON: after("lost", namespace=home)}),
        config_map("b", annotations={DEPENDS_ON: after("slow", namespace=home)}),
    )

    def turn() -> None:
        puppets.pod("lost", {"phase": "Failed", "reason": "Evicted"})
        time.sleep(0.5)
        puppets.pod("slow", ready())

    with meanwhile(turn):
        story = stage.run(*bodies, timeout=20.0)
    assert story.outcomes["configmap/a"] is Outcome.SKIPPED
    writes = [event["requestURI"] for event in audit.events() if event["verb"] == "patch"]
    sent = [number for number, uri in enumerate(writes) if "/configmaps/b?" in uri]
    turned = next(number for number, uri in enumerate(writes) if "/pods/slow/status" in uri)
    assert all(number > turned for number in sent), "b was sent before what it depends on"


def test_second_wave_is_sent_when_the_first_is_ready(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """With --wait, by the server's log; a negative wave comes before those that name none."""
    bodies = (pod("first", wave="-1"), config_map("second"), config_map("third"))

    def turn() -> None:
        path = puppets.path("pods", "first")
        eventually(lambda: puppets.api.exists(path), path)
        time.sleep(0.3)
        puppets.pod("first", ready())

    with meanwhile(turn):
        story = stage.run(*bodies, wait=True, timeout=30.0)
    assert story.exit_code == 0
    writes = [event["requestURI"] for event in audit.events() if event["verb"] == "patch"]
    turned = next(number for number, uri in enumerate(writes) if "/pods/first/status" in uri)
    later = [number for number, uri in enumerate(writes) if "/configmaps/" in uri]
    assert len(later) == 2
    assert min(later) > turned


def test_second_wave_is_not_sent_when_the_first_is_not_ready(stage: Stage) -> None:
    """It is kept back, and says so."""
    story = stage.run(pod("first", wave="-1"), config_map("second"), wait=True, timeout=1.0)
    assert story.exit_code != 0
    assert story.outcomes == {"pod/first": Outcome.CREATED, "configmap/second": Outcome.SKIPPED}
    assert complaints(story).keys() == {"pod/first"}


def test_signal_ends_the_wait_and_records_everything(stage: Stage, waits: Flag) -> None:
    """Within two seconds, as soon as the inventory holds what was applied."""
    asked: list[float] = []

    def interrupt() -> None:
        assert waits.wait(20)
        time.sleep(0.5)
        asked.append(time.monotonic())
        stage.stop.request(2)

    bodies = (workload("Deployment", pods=PLAYED), pod("never"), config_map("a"))
    with meanwhile(interrupt), pytest.raises(Interrupted) as caught:
        stage.run(*bodies, wait=True, timeout=300.0)
    assert time.monotonic() - asked[0] < 2.0
    assert caught.value.exit_code == 130
    inventory = stage.inventory()
    assert inventory.holder is None
    assert {ref.short: bool(one.uid) for ref, one in inventory.entries.items()} == {
        "deployment.apps/web": True,
        "pod/never": True,
        "configmap/a": True,
    }


def test_signal_ends_the_wait_during_a_hanging_list(spoiled: Stage, proxy: FaultProxy) -> None:
    """Nor does a list that hangs keep a wait from its end otherwise."""
    proxy.rule = always(faults.hang(), where=lambda seen: seen.path.endswith("/events"))
    asked: list[float] = []

    def interrupt() -> None:
        eventually(
            lambda: any(seen.path.endswith("/events") for seen in [*proxy.exchanges]), "events"
        )
        asked.append(time.monotonic())
        spoiled.stop.request(15)

    with meanwhile(interrupt), pytest.raises(Interrupted):
        spoiled.run(workload("Deployment", pods=PLAYED), wait=True, timeout=300.0)
    assert time.monotonic() - asked[0] < 2.5


@pytest.mark.parametrize("how", ["deleted", "replaced", "replaced with our label", "unlabelled"])
def test_object_replaced_while_waiting_fails(
    stage: Stage, puppets: Puppets, waits: Flag, how: str
) -> None:
    """Whatever bears its name, ready as it may be, is not what this run has applied."""
    path = puppets.path("pods", "p")

    def act() -> None:
        assert waits.wait(20)
        live = puppets.api.get(path)
        time.sleep(0.5)
        if how == "unlabelled":
            gone = {"metadata": {"labels": None}}
            assert puppets.api("PATCH", path, gone, content_type=MERGE)[0] == 200
        else:
            puppets.remove(path)
        if how.startswith("replaced"):
            body = pod("p")
            if "label" in how:
                body["metadata"]["labels"] = live["metadata"]["labels"]
            assert puppets.api("POST", puppets.path("pods"), body)[0] == 201
        if how != "deleted":
            puppets.pod("p", ready())

    with meanwhile(act):
        story = stage.run(pod("p"), wait=True, timeout=8.0)
    assert story.exit_code == 5
    assert "will not become ready: " in complaints(story)["pod/p"]
    assert verdicts(story)["pod/p"].elapsed < 5.0


# What may go wrong between the run and the server.


def an_error_in_a_watch(code: int) -> Fault:
    """Return a watch that the server ends with a Status."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    line = json.dumps({"type": "ERROR", "object": {**status, "reason": "Expired"}}) + "\n"
    return faults.answer(200, line.encode(), (("Content-Type", "application/json"),))


def test_broken_watch_is_resumed(spoiled: Stage, puppets: Puppets, proxy: FaultProxy) -> None:
    """One after the other; what happened meanwhile is seen all the same."""
    ends_at_once = faults.answer(200, b"", (("Content-Type", "application/json"),))
    ways = [
        ends_at_once,
        an_error_in_a_watch(410),
        faults.status(410, reason="Expired", message="too old resource version"),
        an_error_in_a_watch(500),
        faults.answer(200, b'{"type":"MODI', (("Content-Type", "application/json"),)),
        faults.garbage(),
        faults.web_page(),
        faults.reset(),
    ]
    left = iter(ways)
    met: list[int] = []

    def rule(seen: Exchange) -> Fault | None:
        fault = next(left, None) if is_watch(seen) else None
        if fault is not None:
            met.append(seen.number)
            if len(met) == len(ways):
                puppets.pod("p", ready())
        return fault

    proxy.rule = rule
    story = spoiled.run(pod("p"), wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    assert len(met) == len(ways)
    requests = [seen for seen in proxy.exchanges if seen.path.endswith("/pods")]
    assert len(requests) < 4 * len(ways), "no storm"


@pytest.mark.parametrize(
    "fault",
    [
        faults.status(403, reason="Forbidden", message="pods is forbidden: no right to watch"),
        faults.status(410, reason="Expired", message="too old resource version"),
        faults.answer(200, b"", (("Content-Type", "application/json"),)),
    ],
    ids=["403", "410", "ends at once"],
)
def test_wait_without_watches_lists_periodically(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, fault: Fault
) -> None:
    """Never a storm of them: that is what becomes of a watch that the server will not serve."""
    proxy.rule = always(fault, where=is_watch)
    waits = flag_of(spoiled)

    def turn() -> None:
        assert waits.wait(20)
        time.sleep(1.5)
        puppets.pod("p", ready())

    with meanwhile(turn):
        story = spoiled.run(pod("p"), wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    assert len([seen for seen in proxy.exchanges if seen.path.endswith("/pods")]) < 20


def test_wait_without_permission_for_pods_still_works(spoiled: Stage, proxy: FaultProxy) -> None:
    """A Deployment's own conditions are enough, to be ready and to have failed."""
    hidden = ("/pods", "/events", "/replicasets")
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="that is forbidden"),
        where=lambda seen: seen.method == "GET" and seen.path.endswith(hidden),
    )
    bad = workload("Deployment", "bad", pods=NOWHERE, spec={"progressDeadlineSeconds": 4})
    story = spoiled.run(workload("Deployment", "good"), bad, wait=True, timeout=60.0)
    assert story.exit_code == 5
    assert became_ready(story) == {"deployment.apps/good"}
    told = complaints(story)["deployment.apps/bad"]
    assert "the progress deadline is exceeded" in told
    asked = [seen.path.rpartition("/")[2] for seen in proxy.exchanges if seen.status == 403]
    assert set(asked) == {"pods", "events", "replicasets"}, "they were asked for"
    assert len(asked) < 15, "and not again and again"


def test_wait_with_namespaced_permissions_covers_several_namespaces(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, api: Api
) -> None:
    """What cannot be listed over all namespaces is listed in each."""
    homes = [f"{spoiled.namespace}-{number}" for number in range(5)]
    for home in homes:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}
        assert api("POST", "/api/v1/namespaces", body)[0] == 201
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="pods is forbidden at the cluster scope"),
        where=lambda seen: seen.path == "/api/v1/pods",
    )
    bodies = [{**pod("p"), "metadata": {"name": "p", "namespace": home}} for home in homes]

    def turn() -> None:
        for home in homes:
            Puppets(api, home).pod("p", ready())

    with meanwhile(turn):
        story = spoiled.run(*bodies, wait=True, timeout=10.0)
    for home in homes:
        api("DELETE", f"/api/v1/namespaces/{home}")
    assert (story.exit_code, complaints(story)) == (0, {})


def test_wait_does_not_poll(spoiled: Stage, puppets: Puppets, proxy: FaultProxy) -> None:
    """Five seconds for a Deployment and a Pod: a list and a watch of what is looked at, no more."""
    marks: list[int] = []

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten) and event.phase in {Phase.APPLIED, Phase.SHRUNK}:
            marks.append(len(proxy.exchanges))

    spoiled.seen = see
    story = spoiled.run(workload("Deployment", pods=PLAYED), pod("p"), wait=True, timeout=5.0)
    assert story.exit_code == 5
    assert len(marks) == 2
    asked = proxy.exchanges[marks[0] : marks[1]]
    # Deployments, the set's Pods, then all Pods, ReplicaSets, Events; the lease; the last write.
    assert len(asked) <= 12, [f"{seen.method} {seen.target}" for seen in asked]
    assert sum(is_watch(seen) for seen in asked) == 5

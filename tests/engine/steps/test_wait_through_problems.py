"""A wait goes on through problems that can pass, shows each of them, and ends when they do."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ObjectStuck
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import (
    MERGE,
    PLAYED,
    Body,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    pod,
    ready,
    stuck,
    verdicts,
    workload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api


def stuck_events(story: Story) -> list[ObjectStuck]:
    """Return the problems that a wait has reported."""
    return [one for one in story.events if isinstance(one, ObjectStuck)]


def flag_stuck(stage: Stage) -> Flag:
    """Return a flag that is set as soon as a run of the stage reports a problem."""
    flag = Flag()

    def see(event: object) -> None:
        if isinstance(event, ObjectStuck):
            flag.set()

    stage.seen = see
    return flag


def node(name: str, labels: dict[str, str]) -> Body:
    """Return a Node that kwok plays, like that of the plane."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"type": "kwok", **labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
    }


@pytest.fixture(scope="module")
def repaired(plane: Plane, api: Api) -> Iterator[dict[str, Story]]:
    """Stories in parallel: in each, the problem is reported after 15 seconds, and then repaired."""
    home, tight = (f"test-{secrets.token_hex(4)}" for _ in range(2))
    label = {"only": home}
    for name in (home, tight):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert api("POST", "/api/v1/namespaces", body)[0] == 201
    quotas = f"/api/v1/namespaces/{tight}/resourcequotas"
    quota = {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}
    assert api("POST", quotas, quota)[0] == 201
    eventually(
        lambda: "hard" in api.get(f"{quotas}/no-pods").get("status", {}), lambda: "the quota"
    )

    def more_quota() -> None:
        body = {"spec": {"hard": {"pods": "5"}}}
        assert api("PATCH", f"{quotas}/no-pods", body, content_type=MERGE)[0] == 200

    def pulled() -> None:
        Puppets(api, home).pods_of("image", ready())

    def new_node() -> None:
        assert api("POST", "/api/v1/nodes", node(f"new-{home}", label))[0] == 201

    sets: dict[str, tuple[str, Body, Callable[[], None]]] = {
        "quota": (tight, workload("StatefulSet", "quota"), more_quota),
        "image": (home, workload("Deployment", "image", pods=PLAYED), pulled),
        "node": (home, workload("Deployment", "node", pods={"nodeSelector": label}), new_node),
    }

    def tell(number: int, where: str, body: Body, repair: Callable[[], None]) -> Story:
        stage = Stage(plane.kubeconfig, where, name=f"set-{number}")
        shown = flag_stuck(stage)

        def act() -> None:
            assert shown.wait(40), "nothing was reported"
            repair()

        with meanwhile(act):
            return stage.run(body, wait=True, timeout=120.0)

    with ThreadPoolExecutor(len(sets)) as pool:
        futures = {
            title: pool.submit(tell, number, *told)
            for number, (title, told) in enumerate(sets.items())
        }
        Puppets(api, home).pods_of("image", stuck("ImagePullBackOff"))
        yield {title: future.result() for title, future in futures.items()}
    for path in (f"namespaces/{home}", f"namespaces/{tight}", f"nodes/new-{home}"):
        api("DELETE", f"/api/v1/{path}")


@pytest.mark.parametrize(
    ("title", "name", "told"),
    [
        ("quota", "statefulset.apps/quota", "its Pods are rejected: "),
        ("image", "deployment.apps/image", "container main: ImagePullBackOff: so says the"),
        ("node", "deployment.apps/node", "Unschedulable: 0/"),
    ],
)
def test_wait_outlasts_a_problem_that_passes(
    repaired: dict[str, Story], title: str, name: str, told: str
) -> None:
    """It is reported with its reason, and the object is ready once somebody has repaired it."""
    story = repaired[title]
    assert became_ready(story) == {name}
    assert story.exit_code == 0
    first = stuck_events(story)[0]
    assert first.ref.short == name
    assert told in first.readiness.message
    assert verdicts(story)[name].elapsed > 14.0


def test_problem_is_reported_once_for_each_reason(stage: Stage, puppets: Puppets) -> None:
    """A crash is shown at once, and again only when its reason changes; the timeout names it."""
    first, second = stuck("CrashLoopBackOff", "Running"), stuck("CrashLoopBackOff", "Running")
    container = second["containerStatuses"][0]
    container["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    shown = flag_stuck(stage)

    def act() -> None:
        puppets.pods_of("web", first)
        assert shown.wait(20)
        puppets.pods_of("web", second)

    with meanwhile(act):
        story = stage.run(workload("Deployment", pods=PLAYED), wait=True, timeout=6.0)
    messages = [one.readiness.message for one in stuck_events(story)]
    assert len(messages) == 2
    assert "CrashLoopBackOff: so says the kubelet" in messages[0]
    assert "(last exit code 137, OOMKilled)" in messages[1]
    told = complaints(story)["deployment.apps/web"]
    assert "timed out waiting for deployment.apps/web" in told
    assert "(last exit code 137, OOMKilled)" in told
    assert verdicts(story)["deployment.apps/web"].elapsed > 6.0


def test_timeout_names_the_last_problem_after_it_has_passed(stage: Stage, puppets: Puppets) -> None:
    """Between two crashes a container runs: what it died of is still the reason."""
    shown = flag_stuck(stage)

    def act() -> None:
        puppets.pod("p", stuck("CrashLoopBackOff", "Running"))
        assert shown.wait(20)
        puppets.pod("p", ready(value="False") | {"containerStatuses": []})

    with meanwhile(act):
        story = stage.run(pod("p"), wait=True, timeout=4.0)
    told = complaints(story)["pod/p"]
    assert "the Pod runs but is not ready" in told
    assert "before that: container main: CrashLoopBackOff: so says the kubelet" in told


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_refusal_of_the_old_template_is_no_failure_of_the_new_one(
    stage: Stage, api: Api, kind: str
) -> None:
    """Even with --fail-fast: a repair replaces the Pods that Pod Security refuses."""
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    path = f"/api/v1/namespaces/{stage.namespace}"
    assert api("PATCH", path, enforce, content_type=MERGE)[0] == 200
    privileged: dict[str, Any] = {"hostNetwork": True}
    refused = stage.run(workload(kind, pods=privileged), wait=True, timeout=60.0, fail_fast=True)
    name = f"{kind.lower()}.apps/web"
    assert "violates PodSecurity" in complaints(refused)[name]
    assert "will not become ready" in complaints(refused)[name]
    repaired = stage.run(workload(kind), wait=True, timeout=60.0, fail_fast=True)
    assert (repaired.exit_code, became_ready(repaired)) == (0, {name})


def autoscaler(name: str = "web") -> Body:
    """Return an autoscaler by CPU, for which a plane has no metrics."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3},
    }


def test_autoscaler_without_metrics_is_ready_with_a_warning(stage: Stage, puppets: Puppets) -> None:
    """A cluster without metrics-server does not hold a wait; status shows the warning too."""
    path = puppets.path("horizontalpodautoscalers", "web", "/apis/autoscaling/v2")
    conditions = [
        {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale"},
        {
            "type": "ScalingActive",
            "status": "False",
            "reason": "FailedGetResourceMetric",
            "message": "no metrics known",
        },
    ]
    told: Body = {"conditions": conditions, "desiredReplicas": 1, "currentMetrics": None}
    stage.run(autoscaler())
    puppets.set(path, told)
    story = stage.run(autoscaler(), wait=True, timeout=30.0)
    assert story.exit_code == 0
    name = "horizontalpodautoscaler.autoscaling/web"
    assert verdicts(story)[name].elapsed < 5.0
    assert any(
        name in one and "FailedGetResourceMetric: no metrics known" in one for one in story.warnings
    )


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_workload_whose_pods_somebody_replaces_is_not_waited_for(stage: Stage, kind: str) -> None:
    """With OnDelete, a changed template changes no Pod until somebody deletes it."""
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    stage.run(workload(kind, spec=by_hand), wait=True, timeout=60.0)
    changed = workload(kind, spec=by_hand)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "main:2"
    story = stage.run(changed, wait=True, timeout=60.0)
    name = f"{kind.lower()}.apps/web"
    assert (story.exit_code, became_ready(story)) == (0, {name})
    assert verdicts(story)[name].elapsed < 10.0

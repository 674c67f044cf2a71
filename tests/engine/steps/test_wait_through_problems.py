"""A wait goes on through problems that can pass, shows each of them, and ends when they do."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import Event, ObjectStuck
from applyprune.planning.pods import GRACE
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.objects import of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import (
    PLAYED,
    Body,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    on_problem,
    pod,
    ready,
    run_ahead,
    stuck,
    verdicts,
    when_waiting,
    workload,
)


def stuck_events(story: Story) -> list[ObjectStuck]:
    return story.of(ObjectStuck)


def node(name: str, labels: dict[str, str]) -> Body:
    """Return a Node that kwok plays, like that of the plane."""
    return of_kind(
        "Node",
        name,
        {"labels": {"type": "kwok", **labels}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        api="v1",
    )


@pytest.mark.parametrize("kind", ["quota", "image", "node"])
def test_wait_outlasts_a_problem_that_passes(
    stage: Stage, api: Api, puppets: Puppets, kind: str
) -> None:
    """It is reported with its reason, and the object is ready once somebody has repaired it."""
    quotas, label = puppets.path("resourcequotas"), {"only": stage.namespace}
    body = {
        "quota": workload("StatefulSet"),
        "image": workload("Deployment", pods=PLAYED),
        "node": workload("Deployment", pods={"nodeSelector": label}),
    }[kind]
    told = {
        "quota": "its Pods are rejected: ",
        "image": "container main: ImagePullBackOff: so says the",
        "node": "Unschedulable: 0/",
    }[kind]
    if kind == "quota":
        quota = {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}
        api.create(quotas, quota)
        path = f"{quotas}/no-pods"
        eventually(lambda: "hard" in api.get(path).get("status", {}), lambda: "the quota")

    def repair() -> None:
        if kind == "quota":
            more = {"spec": {"hard": {"pods": "5"}}}
            api.patch(f"{quotas}/no-pods", more)
        elif kind == "image":
            # A container that waits is not ready, and this one has restarted.
            puppets.pods_of("web", ready() | {"containerStatuses": []})
        else:
            api.create("/api/v1/nodes", node(stage.namespace, label))

    on_problem(stage, repair)
    played = stuck("ImagePullBackOff")
    with meanwhile(lambda: puppets.pods_of("web", played) if kind == "image" else None):
        story = stage.run(body, wait=True, timeout=AGES)
    if kind == "node":
        api("DELETE", f"/api/v1/nodes/{stage.namespace}")
    name = f"{body['kind'].lower()}.apps/web"
    assert (story.exit_code, became_ready(story)) == (0, {name})
    first = stuck_events(story)[0]
    assert first.ref.short == name
    assert told in first.readiness.message
    assert verdicts(story)[name].elapsed > GRACE - 0.5


def test_problem_is_reported_once_for_each_reason(stage: Stage, puppets: Puppets) -> None:
    """A crash is shown at once, and again only when its reason changes; the timeout names it."""
    first, second = stuck("CrashLoopBackOff", "Running"), stuck("CrashLoopBackOff", "Running")
    container = second["containerStatuses"][0]
    container["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    clock = on_problem(stage, lambda: puppets.pods_of("web", second), lambda: clock.advance(AGES))
    with meanwhile(lambda: puppets.pods_of("web", first)):
        story = stage.run(workload("Deployment", pods=PLAYED), wait=True, timeout=3600.0)
    messages = [one.readiness.message for one in stuck_events(story)]
    assert len(messages) == 2
    assert "CrashLoopBackOff: so says the kubelet" in messages[0]
    assert "(last exit code 137, OOMKilled)" in messages[1]
    told = complaints(story)["deployment.apps/web"]
    assert "timed out waiting for deployment.apps/web" in told
    assert "(last exit code 137, OOMKilled)" in told
    assert verdicts(story)["deployment.apps/web"].elapsed > 3600.0


def test_timeout_names_the_last_problem_after_it_has_passed(stage: Stage, puppets: Puppets) -> None:
    """Between two crashes a container runs: what it died of is still the reason."""
    runs = ready(value="False") | {"containerStatuses": []}
    clock = when_waiting(stage, lambda: clock.advance(AGES), "the Pod runs but is not ready")
    seen = stage.seen

    def see(event: Event) -> None:
        seen(event)
        if isinstance(event, ObjectStuck):
            puppets.pod("p", runs)

    stage.seen = see
    with meanwhile(lambda: puppets.pod("p", stuck("CrashLoopBackOff", "Running"))):
        story = stage.run(pod("p"), wait=True, timeout=3600.0)
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
    api.patch(path, enforce)
    privileged: dict[str, Any] = {"hostNetwork": True}
    refused = stage.run(workload(kind, pods=privileged), wait=True, timeout=AGES, fail_fast=True)
    name = f"{kind.lower()}.apps/web"
    assert "violates PodSecurity" in complaints(refused)[name]
    assert "will not become ready" in complaints(refused)[name]
    repaired = stage.run(workload(kind), wait=True, timeout=AGES, fail_fast=True)
    assert (repaired.exit_code, became_ready(repaired)) == (0, {name})


def autoscaler(name: str = "web") -> Body:
    """Return an autoscaler by CPU, for which a plane has no metrics."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return of_kind(
        "HorizontalPodAutoscaler", name, spec={"scaleTargetRef": target, "maxReplicas": 3}
    )


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
    run_ahead(stage, last=0.0)
    story = stage.run(autoscaler(), wait=True, timeout=AGES)
    assert story.exit_code == 0, "while no time has passed"
    name = "horizontalpodautoscaler.autoscaling/web"
    assert any(
        name in one and "FailedGetResourceMetric: no metrics known" in one for one in story.warnings
    )


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_workload_whose_pods_somebody_replaces_is_not_waited_for(stage: Stage, kind: str) -> None:
    """With OnDelete, a changed template changes no Pod until somebody deletes it."""
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    stage.run(workload(kind, spec=by_hand), wait=True, timeout=AGES)
    changed = workload(kind, spec=by_hand)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "main:2"
    run_ahead(stage, last=0.0)
    story = stage.run(changed, wait=True, timeout=AGES)
    name = f"{kind.lower()}.apps/web"
    assert (story.exit_code, became_ready(story)) == (0, {name}), "while no time has passed"

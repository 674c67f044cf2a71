"""A wait goes on through problems that can pass, shows each of them, and ends when they do."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import ObjectStuck
from applyprune.planning.pods import GRACE
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.objects import of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import (
    Body,
    Puppets,
    became_ready,
    complaints,
    on_problem,
    run_ahead,
    verdicts,
    workload,
)


def node(name: str, labels: dict[str, str]) -> Body:
    """Return a Node that kwok plays, like that of the plane."""
    return of_kind(
        "Node",
        name,
        {"labels": {"type": "kwok", **labels}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        api="v1",
    )


@pytest.mark.parametrize("kind", ["quota", "node"])
def test_wait_outlasts_a_problem_that_passes(
    stage: Stage, api: Api, puppets: Puppets, kind: str
) -> None:
    """It is reported with its reason, and the object is ready once somebody has repaired it."""
    quotas, label = puppets.path("resourcequotas"), {"only": stage.namespace}
    body, told = workload("Deployment", pods={"nodeSelector": label}), "Unschedulable: 0/"
    path = f"{quotas}/no-pods"
    if kind == "quota":
        body, told = workload("StatefulSet"), "its Pods are rejected: "
        api.create(quotas, {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}})
        eventually(lambda: "hard" in api.get(path).get("status", {}), lambda: "the quota")

    def repair() -> None:
        if kind == "quota":
            api.patch(path, {"spec": {"hard": {"pods": "5"}}})
        else:
            api.create("/api/v1/nodes", node(stage.namespace, label))

    on_problem(stage, repair)
    story = stage.run(body, wait=True, timeout=AGES)
    if kind == "node":
        api("DELETE", f"/api/v1/nodes/{stage.namespace}")
    name = f"{body['kind'].lower()}.apps/web"
    assert (story.exit_code, became_ready(story)) == (0, {name})
    first = story.of(ObjectStuck)[0]
    assert first.ref.short == name
    assert told in first.readiness.message
    assert verdicts(story)[name].elapsed > GRACE - 0.5


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


def test_workload_whose_pods_somebody_replaces_is_not_waited_for(stage: Stage) -> None:
    """With OnDelete, a changed template changes no Pod until somebody deletes it."""
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    bodies = [workload(kind, kind.lower(), spec=by_hand) for kind in ("DaemonSet", "StatefulSet")]
    stage.run(*bodies, wait=True, timeout=AGES)
    for body in bodies:
        body["spec"]["template"]["spec"]["containers"][0]["image"] = "main:2"
    run_ahead(stage, last=0.0)
    story = stage.run(*bodies, wait=True, timeout=AGES)
    names = {"daemonset.apps/daemonset", "statefulset.apps/statefulset"}
    assert (story.exit_code, became_ready(story)) == (0, names), "while no time has passed"

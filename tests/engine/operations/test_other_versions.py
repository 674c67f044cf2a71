"""A kind whose fields move between versions: values are read in the version of the manifest."""

from __future__ import annotations

from typing import Any

from applyprune.model.events import ObjectStatus
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.stage import Stage

SCALER: dict[str, Any] = {
    "apiVersion": "autoscaling/v1",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
    },
}
NAME = "horizontalpodautoscaler.autoscaling/web"


def test_values_in_the_version_of_the_manifest(stage: Stage, api: Api) -> None:
    """The server prefers autoscaling/v2, in which the CPU target is one of its metrics."""
    bumped = {**SCALER, "apiVersion": "autoscaling/v2", "spec": {**SCALER["spec"]}}
    del bumped["spec"]["targetCPUUtilizationPercentage"]
    for body in (bumped, SCALER):
        # The version is not identity: nothing is pruned.
        story = stage.run(body, config_map("a"))
        assert (story.exit_code, story.plan.removals) == (0, ())
    path = stage.path("web", "horizontalpodautoscalers", "/apis/autoscaling/v2")
    condition = {"type": "AbleToScale", "status": "True", "lastTransitionTime": None}
    status = {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [condition]}
    api.patch(f"{path}/status", {"status": status}, by="scaler")
    told = stage.status(values=True)
    assert told.warnings == []
    assert [one.drifted for one in told.of(ObjectStatus)] == [False, False]
    # A write of the status is no change, and asks for no apply.
    plan = stage.run(SCALER, config_map("a"), dry_run=DryRun.SERVER).plan
    assert [step.request for step in plan.applies] == [None, None]
    # The server itself writes the conditions as an annotation in this version.
    shown = stage.run(SCALER, config_map("a"), dry_run=DryRun.SERVER, reapply_all=True)
    assert set(shown.outcomes.values()) == {Outcome.UNCHANGED}
    metric = {"type": "Utilization", "averageUtilization": 70}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": metric}}
    api.patch(path, {"spec": {"metrics": [cpu]}}, by="hand")
    drifted = {one.ref.short: one for one in stage.status(values=True).of(ObjectStatus)}
    assert drifted["configmap/a"].drifted is False
    (drift,) = drifted[NAME].drift
    assert (drifted[NAME].drifted, drift.path) == (True, "/spec/targetCPUUtilizationPercentage")

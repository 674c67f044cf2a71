"""Which autoscalers count: what a run leaves to them, and what it does where it sees none."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun, Mode
from applyprune.model.plan import ConsequenceKind
from applyprune.planning.approval import needed_consent
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT
from tests.support.stage import Stage

DISABLED = {"applyprune.dev/apply": "disabled"}
NAME, SCALER = "deployment.apps/web", "horizontalpodautoscaler.autoscaling/web"


def _deployment(replicas: int) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["replicas"] = replicas
    return body


def _scaler(target: str = "web", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", **({"annotations": annotations} if annotations else {})},
        "spec": {
            "scaleTargetRef": scaled,
            "minReplicas": 1,
            "maxReplicas": 9,
            "metrics": [{"type": "Resource", "resource": metric}],
        },
    }


def _path(stage: Stage) -> str:
    return f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"


def _replicas(stage: Stage, api: Api) -> int:
    return int(api.get(_path(stage))["spec"]["replicas"])


@pytest.mark.holds("disabled-autoscaler")
def test_autoscaler_that_will_not_be_there_does_not_count(stage: Stage, api: Api) -> None:
    """Its manifest is disabled, or gives it another target."""
    stage.run(_deployment(1), _scaler(annotations=DISABLED))
    stage.run(_deployment(2), _scaler(annotations=DISABLED))
    assert _replicas(stage, api) == 2
    stage.run(_deployment(2), _scaler())
    stage.run(_deployment(3), _scaler())
    assert _replicas(stage, api) == 2
    assert stage.run(_deployment(3), _scaler("other")).exit_code == 0
    assert _replicas(stage, api) == 3


def _scale(stage: Stage, api: Api, replicas: int) -> None:
    """Scale the Deployment as an autoscaler does."""
    patch = {"spec": {"replicas": replicas}}
    api.patch(f"{_path(stage)}/scale", patch, by="kube-controller-manager")


def test_autoscaler_counts_in_the_run_that_prunes_it(stage: Stage, api: Api) -> None:
    """It is there while the object is applied; the next run sends the replicas."""
    stage.run(_deployment(2), _scaler())
    story = stage.run(_deployment(4), max_prune=stage.most(1))
    assert (story.outcomes[SCALER], _replicas(stage, api)) == (Outcome.PRUNED, 2)
    assert stage.run(_deployment(4)).exit_code == 0
    assert _replicas(stage, api) == 4


def test_number_of_an_autoscaler_that_is_gone_stays(stage: Stage, api: Api) -> None:
    """It is the autoscaler's until somebody decides; the conflict says what sets it back."""
    stage.run(_deployment(1), _scaler())
    _scale(stage, api, 7)
    story = stage.run(_deployment(1), max_prune=stage.most(1))
    assert (story.exit_code, story.outcomes[SCALER]) == (0, Outcome.PRUNED)
    story = stage.run(_deployment(1))
    assert (story.exit_code, _replicas(stage, api)) == (4, 7)
    told = story.problem(NAME)
    assert "--conflicts force" in told
    story = stage.run(_deployment(1), conflicts=Conflicts.FORCE)
    assert (story.exit_code, _replicas(stage, api)) == (0, 1)


def test_second_run_with_an_autoscaler_writes_nothing(stage: Stage, audit: AuditTrail) -> None:
    """The replicas were sent at creation."""
    stage.run(_deployment(2), _scaler())
    audit.restart()
    story = stage.run(_deployment(2), _scaler())
    assert set(story.outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []


def _without_replicas(kind: str = "Deployment") -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["kind"] = kind
    body["spec"].pop("replicas", None)
    return body


@pytest.mark.parametrize(
    "where", [pytest.param("input", marks=pytest.mark.holds("lost-replicas")), "cluster"]
)
def test_replicas_that_leave_the_manifest_are_handed_to_the_autoscaler(
    stage: Stage, api: Api, audit: AuditTrail, where: str
) -> None:
    """One commit removes them and adds it, or somebody else has made it: no Pod stops."""
    scalers = [_scaler()] if where == "input" else []
    stage.run(_deployment(5))
    if where == "cluster":
        path = f"/apis/autoscaling/v2/namespaces/{stage.namespace}/horizontalpodautoscalers"
        api.create(path, _scaler())
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = stage.run(_without_replicas(), *scalers, dry_run=dry_run)
        (step,) = [one for one in story.plan.applies if one.desired.ref.short == NAME]
        assert step.reason == (
            "/spec/replicas is left to HorizontalPodAutoscaler web "
            "(default rule autoscaled-replicas)"
        )
        assert not [one for one in story.plan.consequences if one.kind is ConsequenceKind.SCALES]
        assert (story.exit_code, _replicas(stage, api)) == (0, 5)
    _scale(stage, api, 7)
    audit.restart()
    story = stage.run(_without_replicas(), *scalers)
    assert set(story.outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    changed = _without_replicas()
    changed["metadata"]["annotations"] = {"a": "b"}
    assert stage.run(changed, *scalers).exit_code == 0
    assert _replicas(stage, api) == 7


def test_replicas_of_a_stateful_set_are_handed_over(stage: Stage, api: Api) -> None:
    """As those of a Deployment are."""
    body = _without_replicas("StatefulSet")
    body["spec"]["serviceName"] = "web"
    scaler = _scaler()
    scaler["spec"]["scaleTargetRef"]["kind"] = "StatefulSet"
    stage.run({**body, "spec": {**body["spec"], "replicas": 5}})
    assert stage.run(body, scaler).exit_code == 0
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/statefulsets/web"
    assert api.get(path)["spec"]["replicas"] == 5


def test_replicas_that_an_adoption_takes_are_handed_over(stage: Stage, api: Api) -> None:
    """What ``kubectl apply`` has declared is taken, and the manifest has no replicas."""
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments"
    api.create(path, _deployment(5), by="kubectl-client-side-apply")
    assert stage.run(_without_replicas(), _scaler()).exit_code == 0
    assert _replicas(stage, api) == 5


def test_replicas_that_leave_without_an_autoscaler_are_a_consequence(
    stage: Stage, api: Api
) -> None:
    """The plan says so, and the question asks; a manifest that changes them needs none."""
    stage.run(_deployment(5))
    planned = stage.run(_deployment(4), dry_run=DryRun.SERVER).plan
    assert needed_consent(planned, Mode.APPLY) == frozenset()
    ways: tuple[tuple[dict[str, Any], str], ...] = (
        ({"dry_run": DryRun.SERVER}, "scales from 5 to 1"),
        ({"dry_run": DryRun.CLIENT}, "may scale to 1"),
        ({"check": False}, "may scale to 1"),
    )
    for options, expected in ways:
        story = stage.run(_without_replicas(), **options)
        (caused,) = [one for one in story.plan.consequences if one.kind is ConsequenceKind.SCALES]
        assert caused.message == f"{expected}: its manifest does not set replicas"
        assert caused in needed_consent(story.plan, Mode.APPLY)
    assert _replicas(stage, api) == 1


@pytest.mark.holds("replicas-stay-unread")
def test_replicas_that_leave_the_manifest_stay_where_none_can_be_read(
    stage: Stage, api: Api, plane: Plane, tmp_path: Path
) -> None:
    """An autoscaler may be there: the line and a warning say so."""
    rules = (rule("", ["configmaps"], WRITE), rule("apps", ["deployments"], WRITE))
    access = kubeconfig_as("no-scalers", plane, api, stage.namespace, tmp_path, *rules)
    poor = Stage(access, stage.namespace)
    assert poor.run(_deployment(5)).exit_code == 0
    story = poor.run(_without_replicas())
    (step,) = story.plan.applies
    assert "left to an autoscaler, as none could be read" in step.reason
    assert any("HorizontalPodAutoscaler" in one for one in story.warnings)
    assert (story.exit_code, _replicas(stage, api)) == (0, 5)


@pytest.mark.holds("unread-autoscalers")
def test_replicas_are_not_set_back_where_no_autoscaler_can_be_read(
    stage: Stage, api: Api, plane: Plane, tmp_path: Path
) -> None:
    """One warning says so; null removes them as little, and the conflict promises nothing."""
    scalers = f"/apis/autoscaling/v2/namespaces/{stage.namespace}/horizontalpodautoscalers"
    api.create(scalers, _scaler())
    rules = (rule("", ["configmaps"], WRITE), rule("apps", ["deployments"], WRITE))
    access = kubeconfig_as("no-scalers", plane, api, stage.namespace, tmp_path, *rules)
    poor = Stage(access, stage.namespace)
    assert poor.run(_deployment(2)).exit_code == 0
    api.patch(f"{_path(stage)}/scale", {"spec": {"replicas": 5}}, by="kubectl-scale")
    story = poor.run(_deployment(2), conflicts=Conflicts.REVERT)
    assert (story.exit_code, _replicas(stage, api)) == (4, 5)
    (warning,) = [one for one in story.warnings if "HorizontalPodAutoscaler" in one]
    assert stage.namespace in warning
    told = story.problem(NAME)
    assert "--conflicts revert" not in told
    body = _deployment(2)
    del body["spec"]["replicas"]
    poor.run(body, conflicts=Conflicts.FORCE)
    body["spec"]["replicas"] = None
    before = _replicas(stage, api)
    assert poor.run(body, conflicts=Conflicts.FORCE).exit_code == 0
    assert _replicas(stage, api) == before

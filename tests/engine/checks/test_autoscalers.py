"""Autoscalers: what a run leaves to them, and what it does where it sees none.

Which autoscalers count is decided in ``tests/decisions/test_conflicts.py``.
"""

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
from tests.support.objects import DEPLOYMENT, of_kind
from tests.support.stage import Stage

NAME = "deployment.apps/web"


def _workload(replicas: int | None, kind: str = "Deployment", **annotations: str) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["kind"] = kind
    body["metadata"]["annotations"] = annotations
    body["spec"] |= {"replicas": replicas}
    if replicas is None:
        del body["spec"]["replicas"]
    return body


def _scaler(kind: str = "Deployment") -> dict[str, Any]:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return of_kind("HorizontalPodAutoscaler", "web", spec={
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 9,
        "metrics": [{"type": "Resource", "resource": metric}],
    })  # fmt: skip


def _path(stage: Stage, name: str = "web", kind: str = "deployments") -> str:
    return stage.path(name, kind, "/apis/apps/v1")


def _scalers(stage: Stage) -> str:
    return stage.path("", "horizontalpodautoscalers", "/apis/autoscaling/v2")


def _replicas(stage: Stage, api: Api) -> int:
    return int(api.get(_path(stage))["spec"]["replicas"])


def test_second_run_with_an_autoscaler_writes_nothing(stage: Stage, audit: AuditTrail) -> None:
    """The replicas were sent at creation."""
    stage.run(_workload(2), _scaler())
    audit.restart()
    assert set(stage.run(_workload(2), _scaler()).outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []


def test_number_of_an_autoscaler_that_is_gone_stays(stage: Stage, api: Api) -> None:
    """It is the autoscaler's until somebody decides."""
    stage.run(_workload(1), _scaler())
    api.patch(f"{_path(stage)}/scale", {"spec": {"replicas": 7}}, by="kube-controller-manager")
    for options, code, there in (
        ({"max_prune": stage.most(1)}, 0, 7),
        ({}, 4, 7),
        ({"conflicts": Conflicts.FORCE}, 0, 1),
    ):
        story = stage.run(_workload(1), **options)
        assert (story.exit_code, _replicas(stage, api)) == (code, there)
    assert stage.listed() == {NAME}


@pytest.mark.parametrize("where", ["input", "cluster"])
def test_replicas_that_leave_the_manifest_are_handed_to_the_autoscaler(
    stage: Stage, api: Api, audit: AuditTrail, where: str
) -> None:
    """One commit removes them and adds it, or somebody else has made it: no Pod stops."""
    scalers = [_scaler()] if where == "input" else []
    stage.run(_workload(5))
    if where == "cluster":
        api.create(_scalers(stage), _scaler())
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = stage.run(_workload(None), *scalers, dry_run=dry_run)
        assert not [one for one in story.plan.consequences if one.kind is ConsequenceKind.SCALES]
        assert (story.exit_code, _replicas(stage, api)) == (0, 5)
    api.patch(f"{_path(stage)}/scale", {"spec": {"replicas": 7}}, by="kube-controller-manager")
    audit.restart()
    story = stage.run(_workload(None), *scalers)
    assert set(story.outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    assert stage.run(_workload(None, a="b"), *scalers).exit_code == 0
    assert _replicas(stage, api) == 7


def test_replicas_of_a_stateful_set_are_handed_over(stage: Stage, api: Api) -> None:
    """As those of a Deployment are."""
    before, after = (_workload(number, "StatefulSet") for number in (5, None))
    for body in (before, after):
        body["spec"]["serviceName"] = "web"
    stage.run(before)
    assert stage.run(after, _scaler("StatefulSet")).exit_code == 0
    assert api.get(_path(stage, "web", "statefulsets"))["spec"]["replicas"] == 5


def test_replicas_that_an_adoption_takes_are_handed_over(stage: Stage, api: Api) -> None:
    """What ``kubectl apply`` has declared is taken, and the manifest has no replicas."""
    api.create(_path(stage, ""), _workload(5), by="kubectl-client-side-apply")
    assert stage.run(_workload(None), _scaler()).exit_code == 0
    assert _replicas(stage, api) == 5


def test_replicas_that_leave_without_an_autoscaler_are_a_consequence(
    stage: Stage, api: Api
) -> None:
    """The plan says so, and the question asks; a manifest that changes them needs none."""
    stage.run(_workload(5))
    planned = stage.run(_workload(4), dry_run=DryRun.SERVER).plan
    assert needed_consent(planned, Mode.APPLY) == frozenset()
    ways: tuple[tuple[dict[str, Any], str], ...] = (
        ({"dry_run": DryRun.SERVER}, "scales from 5 to 1"),
        ({"dry_run": DryRun.CLIENT}, "may scale to 1"),
        ({"check": False}, "may scale to 1"),
    )
    for options, expected in ways:
        plan = stage.run(_workload(None), **options).plan
        (caused,) = [one for one in plan.consequences if one.kind is ConsequenceKind.SCALES]
        assert caused.message.startswith(expected)
        assert caused in needed_consent(plan, Mode.APPLY)
    assert _replicas(stage, api) == 1


@pytest.fixture
def poor(stage: Stage, api: Api, plane: Plane, tmp_path: Path) -> Stage:
    """The set, through an account that may not read autoscalers."""
    rules = (rule("", ["configmaps"], WRITE), rule("apps", ["deployments"], WRITE))
    return Stage(
        kubeconfig_as("no-scalers", plane, api, stage.namespace, tmp_path, *rules), stage.namespace
    )


@pytest.mark.holds("replicas-stay-unread")
def test_replicas_that_leave_the_manifest_stay_where_none_can_be_read(
    poor: Stage, api: Api
) -> None:
    """An autoscaler may be there: the line and a warning say so."""
    assert poor.run(_workload(5)).exit_code == 0
    story = poor.run(_workload(None))
    (step,) = story.plan.applies
    assert "left to an autoscaler, as none could be read" in step.reason
    assert any("HorizontalPodAutoscaler" in one for one in story.warnings)
    assert (story.exit_code, _replicas(poor, api)) == (0, 5)


@pytest.mark.holds("unread-autoscalers")
def test_replicas_are_not_set_back_where_no_autoscaler_can_be_read(poor: Stage, api: Api) -> None:
    """One warning says so; null removes them as little, and the conflict promises nothing."""
    api.create(_scalers(poor), _scaler())
    assert poor.run(_workload(2)).exit_code == 0
    api.patch(f"{_path(poor)}/scale", {"spec": {"replicas": 5}}, by="kubectl-scale")
    story = poor.run(_workload(2), conflicts=Conflicts.REVERT)
    assert (story.exit_code, _replicas(poor, api)) == (4, 5)
    (warning,) = [one for one in story.warnings if "HorizontalPodAutoscaler" in one]
    assert poor.namespace in warning
    assert "--conflicts revert" not in story.problem(NAME)
    poor.run(_workload(None), conflicts=Conflicts.FORCE)
    before, body = _replicas(poor, api), _workload(None)
    body["spec"]["replicas"] = None
    assert poor.run(body, conflicts=Conflicts.FORCE).exit_code == 0
    assert _replicas(poor, api) == before

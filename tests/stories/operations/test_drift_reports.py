"""What each verb reports about drift, before and after a refused apply; the guide says the same."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from applyprune.cli.run import with_exit_code
from applyprune.model.events import (
    Event,
    Finished,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Planned,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun
from applyprune.planning.applyset import PART_OF
from tests.support.actors import ALICE
from tests.support.api import Api
from tests.support.drifting import AFTER, BEFORE, DRIFTS, deployment, documented
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, of_kind, text
from tests.support.plane import Kubectl
from tests.support.stage import Stage, on

LIVE = "/api/v1/namespaces/{}/configmaps/{}"


def _map(name: str, **data: str) -> dict[str, Any]:
    return {**config_map(name), "data": data}


def _code(events: Iterable[Event]) -> int:
    (end,) = (one for one in events if isinstance(one, Finished))
    return end.exit_code


def _status(stage: Stage) -> str:
    events = stage.status(drift=True, fail_on_drift=True).events
    (told,) = (one for one in events if isinstance(one, ObjectStatus))
    named = [one.path for one in told.drift]
    # The Deployment is not ready either, and that comes first.
    code = 1 if _code(events) in {1, 5} else _code(events)
    return f"drifted, {code}" if (told.drifted, named) == (True, ["/spec/replicas"]) else str(told)


def _diff(stage: Stage, *, fails: bool) -> str:
    story = stage.run(deployment(), dry_run=DryRun.SERVER, diff=True, drift_only=fails)
    code = _code(with_exit_code(story.events, drift_only=fails))
    if fails:
        (found,) = story.of(ObjectDiff)
        assert [one.path for one in found.drift] == ["/spec/replicas"]
        return f"{'drifted' if found.drifted else found.drifted}, {code}"
    return _outcome(story.events, code)


def _apply(stage: Stage, **options: Any) -> str:
    story = stage.run(deployment(), **options)
    return _outcome(story.events, story.exit_code)


def _outcome(events: Iterable[Event], code: int) -> str:
    (done,) = (one for one in events if isinstance(one, ObjectDone))
    if done.problem is not None:
        assert "field manager owns one of its fields" in done.problem.reason
        return f"conflict, {code}"
    return f"{done.reason.partition(' ')[0]}, {code}"


@pytest.mark.parametrize("row", DRIFTS)
def test_refused_apply_hides_no_drift(row: str, stage: Stage, kubectl: Kubectl, api: Api) -> None:
    """Each verb says afterwards what it said before."""
    manager, change = DRIFTS[row]
    stage.run(deployment())
    change(kubectl, api, stage.namespace)
    found = []
    for _ in (BEFORE, AFTER):
        reports = {
            "`status --exit-code`": _status(stage),
            "`diff`": _diff(stage, fails=False),
            "`diff --drift`": _diff(stage, fails=True),
            "`apply`": _apply(stage),
        }
        found.append(reports)
    last = {"`apply --conflicts revert`": _apply(stage, conflicts=Conflicts.REVERT)}
    for when, reports in zip((BEFORE, AFTER), found, strict=True):
        told = documented(row, when)
        assert {**told, **reports, **last} == told
    live = api.get(f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web")
    is_reverted = last["`apply --conflicts revert`"].startswith("reverted")
    assert live["spec"]["replicas"] == (3 if is_reverted else 1)
    assert is_reverted is (manager != "team-pipeline")


def test_drift_is_reverted_without_a_check_too_and_names_who_caused_it(
    stage: Stage, api: Api
) -> None:
    """In a plan and in the result; what others have added stays."""
    stage.run(_map("a", key="1", other="1"), config_map("b"))
    path = LIVE.format(stage.namespace, "a")
    changed = {"data": {"key": "2", "other": "2", "more": "x"}}
    api.patch(path, changed, by=ALICE)
    bodies = _map("a", key="1", other="1"), config_map("b")
    refused = stage.run(*bodies)
    assert refused.exit_code == 4
    assert "To overwrite their change with the manifest: --conflicts revert" in refused.problem(
        "configmap/a"
    )
    options = {"conflicts": Conflicts.REVERT, "check": False}
    planned = stage.run(*bodies, dry_run=DryRun.CLIENT, **options).plan.applies[0]
    assert planned.reverts == (("/data/key", ALICE), ("/data/other", ALICE))
    story = stage.run(*bodies, **options)
    (done,) = (one for one in story.of(ObjectDone) if one.outcome is Outcome.UPDATED)
    assert done.reason == f"reverted 2 fields that {ALICE} had changed"
    assert api.get(path)["data"] == {"key": "1", "other": "1", "more": "x"}
    assert set(stage.run(*bodies, **options).outcomes.values()) == {Outcome.UNCHANGED}


def _before_forced_applies(proxy: FaultProxy, act: Callable[[], object], times: int) -> list[str]:
    """Act before each of the first forced applies; return their versions as they come."""
    sent: list[str] = []

    def forward(seen: Exchange) -> None:
        if seen.query.get("force") == "true" and "dryRun" not in seen.query:
            sent.append(json.loads(seen.body)["metadata"]["resourceVersion"])
            if len(sent) <= times:
                act()

    proxy.before_forward = forward
    return sent


def test_status_writes_do_not_fail_a_forced_apply(
    spoiled: Stage, proxy: FaultProxy, stage: Stage, api: Api
) -> None:
    """A controller writes the status all the time: each write outdates a forced apply."""
    service = of_kind(
        "Service",
        "s",
        {"labels": {"a": "1"}},
        spec={"ports": [{"port": 80}], "selector": {"app": "a"}},
    )
    assert stage.run(service).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/services/s"
    other = {"metadata": {"labels": {"a": "2"}}}
    api.patch(path, other, by=ALICE)
    count = itertools.count()

    def write_status() -> None:
        condition = {"type": "X", "status": "True", "reason": f"R{next(count)}", "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"status": {"conditions": [condition]}}
        api.patch(f"{path}/status", status)

    sent = _before_forced_applies(proxy, write_status, 3)
    story = spoiled.run({**service}, conflicts=Conflicts.FORCE)
    assert story.outcomes["service/s"] is Outcome.UPDATED
    assert len(set(sent)) == 4
    assert api.get(path)["metadata"]["labels"]["a"] == "1"


@pytest.mark.holds("unplanned-force")
def test_force_takes_nothing_that_no_plan_has_shown(
    spoiled: Stage, proxy: FaultProxy, stage: Stage, api: Api
) -> None:
    """Another value: somebody has changed it since force was decided."""
    wanted = _map("a", key="1", other="1")
    stage.run(wanted)
    path = f"{LIVE.format(stage.namespace, 'a')}?fieldManager={ALICE}"
    api.patch(path, {"data": {"key": "2"}})
    _before_forced_applies(proxy, lambda: api.patch(path, {"data": {"key": "3"}}), 1)
    story = spoiled.run(wanted, conflicts=Conflicts.FORCE)
    assert "changed during this run, after force was decided" in story.problem("configmap/a")
    assert api.get(path)["data"] == {"key": "3", "other": "1"}


@pytest.mark.holds("unplanned-revert")
def test_drift_that_nobody_has_planned_to_revert_is_not(stage: Stage, api: Api) -> None:
    """Between plan and request, the object may change: only what was shown is reverted."""
    wanted = _map("a", key="1", other="1")
    stage.run(wanted)
    path = f"{LIVE.format(stage.namespace, 'a')}?fieldManager={ALICE}"

    def during(patch: dict[str, Any]) -> None:
        api.patch(path, {"data": {"key": "2"}})

        stage.seen = on(Planned, lambda: api.patch(path, patch))

    during({"data": {"other": "2"}})
    story = stage.run(wanted, conflicts=Conflicts.REVERT)
    assert story.exit_code == 3
    assert "changed during this run, after force was decided" in story.problem("configmap/a")
    assert api.get(path)["data"] == {"key": "2", "other": "2"}
    # Any other change of the object does not matter.
    during({"data": {"other": "1"}, "metadata": {"annotations": {"team": "x"}}})
    story = stage.run(wanted, conflicts=Conflicts.REVERT)
    assert story.exit_code == 0
    assert api.get(path)["data"] == {"key": "1", "other": "1"}


@pytest.mark.parametrize(
    ("method", "number", "code"),
    [
        pytest.param("GET", 2, 4, marks=pytest.mark.holds("taken-before-the-revert")),
        pytest.param("PATCH", 1, 3, marks=pytest.mark.holds("taken-by-another-set")),
    ],
)
def test_object_that_another_set_takes_meanwhile_is_not_taken_back(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, method: str, number: int, code: int
) -> None:
    """Before or after the plan has decided to force: the force reverts drift, and that is all."""
    path = LIVE.format(stage.namespace, "a")
    other = Stage(stage.kubeconfig, stage.namespace, name="shop")
    stage.run(_map("a", key="v"))
    drifted = {"data": {"key": "drifted"}}
    api.patch(path, drifted, by=ALICE)
    requests: list[int] = []

    def before(seen: Exchange) -> None:
        if (seen.method, seen.path) != (method, path):
            return
        requests.append(seen.number)
        if len(requests) == number:
            assert other.run(_map("a", theirs="1"), adopt=Adopt.ALL).exit_code == 0

    proxy.before_forward = before
    story = spoiled.run(_map("a", key="v"), conflicts=Conflicts.REVERT)
    assert story.exit_code == code
    found = api.get(path)
    assert found["metadata"]["labels"][PART_OF] == other.target.id
    assert found["data"] == {"key": "drifted", "theirs": "1"}


@pytest.mark.holds("real-conflict")
def test_drift_beside_a_conflict_is_not_reverted(stage: Stage, api: Api) -> None:
    """Force would take the field of the other applier too."""
    wanted = _map("a", key="1", other="1")
    stage.run(wanted)
    path = LIVE.format(stage.namespace, "a")
    changed = {"data": {"key": "2"}}
    api.patch(path, changed, by=ALICE)
    taken = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"other": "2"}}
    taken["metadata"] = {"name": "a"}
    api.apply(path, taken, by="tool", force=True)
    for check in (True, False):
        story = stage.run(wanted, conflicts=Conflicts.REVERT, check=check)
        assert story.exit_code == 4
        problem = story.problem("configmap/a")
        assert "--conflicts revert" not in problem
        # Neither way out fits both managers.
        assert "applyprune.dev/ignore-fields: /data/key,/data/other" in problem
    assert api.get(path)["data"] == {"key": "2", "other": "2"}


@pytest.mark.holds("other-version")
def test_drift_is_not_reverted_beside_fields_of_another_api_version(stage: Stage, api: Api) -> None:
    """They cannot be compared, so force might take them."""
    scaler: dict[str, Any] = of_kind(
        "HorizontalPodAutoscaler",
        "web",
        spec={
            "minReplicas": 1,
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [_cpu(50)],
        },
    )
    stage.run(scaler)
    path = "/apis/autoscaling/v{}/namespaces/{}/horizontalpodautoscalers/web"
    old, new = path.format(1, stage.namespace), path.format(2, stage.namespace)
    theirs = {**scaler, "apiVersion": "autoscaling/v1"}
    theirs["spec"] = {**scaler["spec"], "targetCPUUtilizationPercentage": 90}
    del theirs["spec"]["metrics"], theirs["spec"]["minReplicas"]
    api.apply(old, theirs, by="team", force=True)
    edit = {"spec": {"minReplicas": 2}}
    api.patch(new, edit, by=ALICE)
    for options in ({}, {"check": True}, {"conflicts": Conflicts.REVERT}):
        story = stage.run(scaler, **options)
        assert story.exit_code == 4
        # Nobody is told to use what would not help.
        problem = story.problem("horizontalpodautoscaler.autoscaling/web")
        assert "--conflicts revert" not in problem
    assert api.get(new)["spec"]["metrics"] == [_cpu(90)]


def _cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def test_refused_manifest_keeps_the_record(stage: Stage, api: Api) -> None:
    """Refused by validation or held back by another failure, an object is as it was."""
    stage.run(deployment(), config_map("a"))
    invalid = deployment()
    invalid["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 99999}]
    waiting = _map("a", key="2")
    waiting["metadata"]["annotations"] = {
        "config.kubernetes.io/depends-on": f"apps/namespaces/{stage.namespace}/Deployment/web"
    }
    assert stage.run(invalid, waiting, check=False).exit_code == 3
    told = {one.ref.short: one.drifted for one in _standings(stage)}
    assert told == {"deployment.apps/web": False, "configmap/a": False}
    api.patch(stage.path("a"), {"data": {"key": "theirs"}}, by="kubectl-patch")
    assert stage.run(invalid, waiting, check=False).exit_code == 4
    told = {one.ref.short: one.drifted for one in _standings(stage)}
    assert told == {"deployment.apps/web": False, "configmap/a": True}
    # Drift is found beside a change of the manifest.
    fresh = stage.run(
        deployment(), _map("a", key="3"), dry_run=DryRun.SERVER, diff=True, drift_only=True
    )
    (diff,) = fresh.of(ObjectDiff)
    assert (diff.drifted, [one.path for one in diff.drift]) == (True, ["/data/key"])
    assert diff.drift[0].found == '"theirs"'


def _standings(stage: Stage) -> list[ObjectStatus]:
    return stage.status(drift=True).of(ObjectStatus)


@pytest.mark.holds("unknown-drift", "unknown-drift-of-status")
def test_drift_of_a_killed_run_is_unknown(proxy: FaultProxy, stage: Stage, tmp_path: Path) -> None:
    """Killed after the server has applied the object: nobody knows whose change it was."""
    path = tmp_path / "set.yaml"
    stage.run(config_map("a"), config_map("b"))
    path.write_text(text(config_map("a", "new"), config_map("b")))

    def is_apply(exchange: Any) -> bool:
        applies = "apply-patch" in exchange.header("content-type")
        return applies and "/configmaps/" in exchange.path and "dryRun" not in exchange.path

    arguments = ("apply", "web", "-n", stage.namespace, "-f", path, "--no-check", "--yes")
    kill_at_first(proxy, is_apply, Moment.AFTER, arguments, proxy.kubeconfig(tmp_path))
    story = stage.status(fail_on_drift=True)
    told = {one.ref.short: one.drifted for one in story.of(ObjectStatus)}
    assert told == {"configmap/a": None, "configmap/b": False}
    assert story.exit_code == 1
    (warning,) = (one.problem for one in story.of(WarningRaised))
    assert warning.message == "it is unknown whether configmap/a has drifted"
    compared = stage.run(*map(config_map, "ab"), dry_run=DryRun.SERVER, diff=True)
    (diff,) = compared.of(ObjectDiff)
    assert (diff.ref.name, diff.drifted) == ("a", None)
    assert _code(with_exit_code(compared.events, drift_only=True)) == 1

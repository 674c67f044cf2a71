"""Fields of others, of nobody and of the server that become ours or go, so that ours can go."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun, Mode
from applyprune.planning.applyset import LAST_APPLIED
from applyprune.planning.digests import planned_object
from applyprune.values import replace
from tests.support.actors import ALICE
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.forged import forge
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually

KUBECTL = "kubectl-client-side-apply"
FINALIZERS = {"finalizers": ["a.test/hold"]}
DEPLOYMENTS = "deployments", "/apis/apps/v1"


def _body(name: str = "old", **data: str) -> dict[str, Any]:
    return {**config_map(name), "data": data}


def _stale(name: str) -> dict[str, Any]:
    return _body(name, key="v", stale="1")


def _managers(found: dict[str, Any]) -> set[str]:
    return {one["manager"] for one in found["metadata"]["managedFields"]}


def _data(stage: Stage, api: Api, *names: str) -> list[dict[str, str]]:
    return [api.get(stage.path(name))["data"] for name in names]


def test_fields_of_who_declared_it_are_removed_by_one_apply(stage: Stage, api: Api) -> None:
    """What it holds is ours alone, but for what was added since; the second run writes nothing.

    No option takes finalizers: the next apply would remove them, and with them somebody's clean-up.
    """
    names = ("applied", "served", "helm", "held")
    copied = {"metadata": {"name": "applied", "annotations": {LAST_APPLIED: "{}"}}}
    api.create(stage.path(), _stale("applied") | copied, by=KUBECTL)
    api.apply(stage.path("served"), _stale("served"), by="kubectl")
    api.create(stage.path(), _stale("helm"), by="helm")
    held = {**_body("held", key="v"), "metadata": {"name": "held", **FINALIZERS}}
    api.create(stage.path(), held, by=KUBECTL)
    added = {"annotations": {"note": "theirs"}, **FINALIZERS}
    api.patch(stage.path("applied"), {"metadata": added}, by="kubectl-label")
    given = [_body(name, key="v") for name in names]
    assert stage.run(*given[:2]).exit_code == 0
    assert _data(stage, api, "applied", "served") == [{"key": "v"}] * 2
    options = {"adopt": Adopt.ALL, "take_over": frozenset({KUBECTL})}
    assert stage.run(*given, **options).exit_code == 0
    assert _data(stage, api, *names) == [{"key": "v"}] * 4
    now = {name: api.get(stage.path(name)) for name in names}
    assert _managers(now["served"]) == _managers(now["helm"]) == {stage.target.manager}
    assert stage.run(*given).outcomes == {f"configmap/{one}": Outcome.UNCHANGED for one in names}
    assert {name: api.get(stage.path(name)) for name in names} == now
    assert stage.run(*(_body(name, key="w") for name in names)).exit_code == 0
    assert api.get(stage.path("applied"))["metadata"]["annotations"].keys() == {"note"}
    for name in ("applied", "held"):
        assert api.get(stage.path(name))["metadata"]["finalizers"] == FINALIZERS["finalizers"]
        api.patch(stage.path(name), {"metadata": {"finalizers": None}})


def test_fields_that_nobody_declared_stay_until_their_manager_is_named(
    stage: Stage, api: Api
) -> None:
    """At any time: also of an object that was unchanged otherwise."""
    names = ("kubectl-create", "before-first-apply", "our-old-deployer")
    for name in names:
        api.create(stage.path(), _stale(name), by=name)
    given = [_body(name, key="w") for name in names]
    for _ in range(2):
        assert stage.run(*given, conflicts=Conflicts.FORCE).exit_code == 0
        assert _data(stage, api, *names) == [{"key": "w", "stale": "1"}] * 3
    for outcome in (Outcome.UPDATED, Outcome.UNCHANGED):
        taken = stage.run(*given, take_over=frozenset(names))
        assert set(taken.outcomes.values()) == {outcome}
    assert _data(stage, api, *names) == [{"key": "w"}] * 3


def _clear(api: Api, path: str) -> None:
    """Clear managedFields, as a restore from a backup does."""
    api.patch(path, [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}])


ACCOUNT = of_kind("ServiceAccount", "default")


@pytest.mark.holds("untracked-object")
def test_second_apply_keeps_what_others_have_on_an_untracked_object(stage: Stage, api: Api) -> None:
    """The first apply must not book everything to ``before-first-apply``."""
    path = stage.path("default", "serviceaccounts")
    eventually(lambda: api.exists(path), lambda: "the account")
    theirs = {
        "imagePullSecrets": [{"name": "registry"}],
        "metadata": {"annotations": {"iam.test/role": "r"}, **FINALIZERS},
    }
    api.patch(path, theirs, by=ALICE)
    _clear(api, path)
    for value in (True, False, True):
        assert stage.run({**ACCOUNT, "automountServiceAccountToken": value}).exit_code == 0
        now = api.get(path)
        assert now["automountServiceAccountToken"] is value
        assert now["imagePullSecrets"] == theirs["imagePullSecrets"]
        assert now["metadata"]["annotations"] == {"iam.test/role": "r"}
        assert now["metadata"]["finalizers"] == FINALIZERS["finalizers"]
        assert "before-first-apply" not in _managers(now)
    api.patch(path, {"metadata": {"finalizers": None}})


@pytest.mark.holds("restored-fields")
def test_cleared_managed_fields_cost_nobody_a_field(stage: Stage, api: Api) -> None:
    """What left the manifest is removed, and only that; what somebody has scaled stays."""
    path = stage.path("web", *DEPLOYMENTS)
    spec = {key: value for key, value in DEPLOYMENT["spec"].items() if key != "replicas"}

    def body(**annotations: str) -> dict[str, Any]:
        metadata = {"name": "web", "annotations": annotations}
        return {**DEPLOYMENT, "metadata": metadata, "spec": spec}

    stage.run(body(mine="1", leaves="1"))
    api.patch(f"{path}/scale", {"spec": {"replicas": 7}}, by="kubectl-scale")
    api.patch(path, {"metadata": {"annotations": {"theirs": "1"}}}, by=ALICE)
    _clear(api, path)
    for _ in range(2):
        assert stage.run(body(mine="1")).exit_code == 0
        now = api.get(path)
        noted = now["metadata"]["annotations"]
        assert now["spec"]["replicas"] == 7
        assert (noted.get("mine"), noted.get("theirs"), noted.get("leaves")) == ("1", "1", None)
        assert "before-first-apply" not in _managers(now)


def test_forged_fields_take_no_finalizer(stage: Stage, api: Api) -> None:
    """Whoever may edit the inventory can write any fields into it."""
    stage.run(_body(key="v"))
    path = stage.path("old")
    api.patch(path, {"metadata": FINALIZERS}, by=ALICE)
    fields: dict[str, Any] = {"f:metadata": {"f:finalizers": {".": {}, 'v:"a.test/hold"': {}}}}
    forge(stage, "old", owned_fields=json.dumps(fields))
    _clear(api, path)
    assert stage.run(_body(key="w"), conflicts=Conflicts.FORCE).exit_code == 0
    assert api.get(path)["metadata"]["finalizers"] == FINALIZERS["finalizers"]
    api.patch(path, {"metadata": {"finalizers": None}})


@pytest.mark.holds("parting-entry")
def test_next_applier_of_an_orphan_has_no_conflict(stage: Stage, api: Api) -> None:
    """It would have one with ``before-first-apply`` if the orphan had no field manager."""
    stage.run(_body(key="v", other="1"))
    assert stage.orphan("configmap/old").exit_code == 0
    api.patch(stage.path("old"), {"data": {"theirs": "1"}}, by=ALICE)
    for value in ("w", "x"):
        api.apply(stage.path("old"), _body(key=value), by="kubectl")
        assert _data(stage, api, "old") == [{"key": value, "other": "1", "theirs": "1"}]


def test_fields_that_change_or_a_run_that_dies_on_the_way_are_no_obstacle(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The guarded patch is built again; the next run ends what a dead one began, as an adoption."""
    for name in ("a", "b"):
        api.create(stage.path(), _stale(name), by=KUBECTL)
    noted = {"metadata": {"annotations": {"some": "note"}}}
    done = proxy.before_first(
        lambda seen: "json-patch" in seen.header("content-type"),
        lambda: api.patch(stage.path("a"), noted, by=ALICE),
    )
    assert spoiled.run(_body("a", key="v")).exit_code == 0
    assert done
    spoiled.budget = 0.2
    proxy.rule = always(
        faults.reset(), where=lambda seen: "apply-patch" in seen.header("content-type")
    )
    given = [_body(name, key="v") for name in ("a", "b")]
    assert spoiled.run(*given).exit_code == 3
    assert stage.run(*given).exit_code == 0
    assert _data(stage, api, "a", "b") == [{"key": "v"}] * 2
    assert set(stage.run(mode=Mode.DELETE).outcomes.values()) == {Outcome.ORPHANED}


def _taken_over(stage: Stage, api: Api) -> dict[str, Any]:
    """Another manager has the same value: only its entry goes."""
    stage.run(_body(key="v"))
    api.apply(stage.path("old"), _body(key="v"), by="our-old-deployer")
    return {"bodies": [_body(key="v")], "take_over": frozenset({"our-old-deployer"})}


def _handed_over(stage: Stage, api: Api) -> dict[str, Any]:
    """The second field manager gets what the first one gives up; no value changes."""
    stage.run({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 5}})
    scaler = of_kind("HorizontalPodAutoscaler", "web", api="autoscaling/v2")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler["spec"] = {"scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 9}
    spec = {name: value for name, value in DEPLOYMENT["spec"].items() if name != "replicas"}
    return {"bodies": [{**DEPLOYMENT, "spec": spec}, scaler]}


def _fenced(stage: Stage, api: Api) -> dict[str, Any]:
    """A delete of an interrupted run may still arrive: the object changes, so that it fails."""
    stage.run(_body(key="v"))
    inventory = stage.inventory()
    stage.rewrite(
        entries={ref: replace(one, deleting=True) for ref, one in inventory.entries.items()}
    )
    return {"bodies": [_body(key="v")]}


@pytest.mark.parametrize(
    "make",
    [
        _taken_over,
        pytest.param(_handed_over, marks=pytest.mark.holds("written-before-the-apply")),
        _fenced,
    ],
)
def test_request_before_an_apply_counts_in_its_plan(
    stage: Stage, api: Api, make: Callable[[Stage, Api], dict[str, Any]]
) -> None:
    """No value changes. The second plan and the second apply change nothing."""
    options = make(stage, api)
    bodies = options.pop("bodies")
    (name,) = {one for one in stage.listed() if not one.startswith("horizontal")}
    planned = stage.run(*bodies, dry_run=DryRun.SERVER, diff=True, **options)
    assert planned.outcomes[name] is Outcome.UPDATED
    local = stage.run(*bodies, dry_run=DryRun.CLIENT, diff=True, **options)
    for story in (planned, local):
        (shown,) = [one for one in story.of(ObjectDiff) if one.ref.short == name]
        assert shown.before == shown.after
    (step,) = [one for one in planned.plan.applies if one.desired.ref.short == name]
    assert planned_object(step).fate is Fate.CHANGE
    assert stage.run(*bodies, **options).outcomes[name] is Outcome.UPDATED
    for again in (DryRun.SERVER, DryRun.OFF):
        # The autoscaler has no generation: its controller may write its status meanwhile.
        story = stage.run(*bodies, dry_run=again, **options)
        assert (story.exit_code, story.outcomes[name]) == (0, Outcome.UNCHANGED)
        assert set(story.outcomes.values()) <= {Outcome.UNCHANGED, Outcome.UPDATED}


# What belongs to nobody: the server's defaults, and what somebody has left behind.


def _deployment(*, volume: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"].update(spec)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "v", **volume}]
    return body


def _stateful_set(**spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    del body["spec"]["replicas"]
    return {**body, "kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "web", **spec}}


OLD = (_deployment(volume={}), _stateful_set())
NEW = (
    _deployment(
        volume={"hostPath": {"path": "/x"}}, strategy={"type": "Recreate", "rollingUpdate": None}
    ),
    _stateful_set(updateStrategy={"type": "OnDelete"}),
)


def _check_end(stage: Stage, api: Api) -> None:
    spec = api.get(stage.path("web", *DEPLOYMENTS))["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x", "type": ""}}
    ]
    update = api.get(stage.path("web", "statefulsets", "/apis/apps/v1"))["spec"]["updateStrategy"]
    assert update == {"type": "OnDelete"}


def test_excluded_defaults_are_removed(stage: Stage, api: Api) -> None:
    """The diff shows it, one run does it, and later runs write nothing and show nothing."""
    assert stage.run(*OLD).exit_code == 0
    story = stage.run(*NEW, dry_run=DryRun.SERVER, diff=True)
    assert story.exit_code == 0
    after = {one.ref.kind: one.after or {} for one in story.of(ObjectDiff)}
    assert after["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    (volume,) = after["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert volume.keys() == {"name", "hostPath"}
    assert after["StatefulSet"]["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert set(stage.run(*NEW).outcomes.values()) == {Outcome.UPDATED}
    _check_end(stage, api)
    generation = api.get(stage.path("web", *DEPLOYMENTS))["metadata"]["generation"]
    for options in ({}, {"reapply_all": True}, {"dry_run": DryRun.SERVER, "reapply_all": True}):
        assert set(stage.run(*NEW, **options).outcomes.values()) == {Outcome.UNCHANGED}
    assert api.get(stage.path("web", *DEPLOYMENTS))["metadata"]["generation"] == generation


def test_run_that_ends_before_the_removal_is_finished_by_the_next(
    spoiled: Stage, stage: Stage, api: Api, proxy: FaultProxy
) -> None:
    """In between every value is as before, and only managedFields differ."""
    assert stage.run(*OLD).exit_code == 0
    path = stage.path("web", *DEPLOYMENTS)
    before = api.get(path)["spec"]
    spoiled.budget = 0.2

    def is_apply(seen: Exchange) -> bool:
        return "apply-patch" in seen.header("content-type") and seen.path == path

    proxy.rule = always(faults.reset(), where=is_apply)
    assert spoiled.run(NEW[0], prune=False).exit_code == 3
    between = api.get(path)
    assert between["spec"] == before
    assert "f:rollingUpdate" in json.dumps(between["metadata"]["managedFields"])
    assert stage.run(*NEW).exit_code == 0
    _check_end(stage, api)


@pytest.mark.holds("removes-only-unowned")
def test_default_that_somebody_else_has_set_stays(stage: Stage, api: Api) -> None:
    """The server refuses the manifest then, and nothing is removed."""
    stage.run(*OLD[:1])
    path = stage.path("web", *DEPLOYMENTS)
    api.patch(path, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}, by="alice")
    assert stage.run(*NEW[:1]).exit_code != 0
    assert api.get(path)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 2


@pytest.mark.parametrize(
    "conflicts",
    [
        pytest.param(Conflicts.FORCE, marks=pytest.mark.holds("transfer-of-the-changed")),
        pytest.param(Conflicts.FAIL, marks=pytest.mark.holds("relied-on-version")),
    ],
)
def test_field_that_others_leave_before_the_apply_stays_if_it_is_left_to_them(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, conflicts: Conflicts
) -> None:
    """Its last owner would remove it by leaving it out, so it gets another one first."""
    path = stage.path("a")
    theirs: dict[str, Any] = {"labels": {"theirs": "1"}}
    stage.run(config_map("a", **theirs))

    def apply(**metadata: Any) -> None:
        named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
        api.apply(path, named, by=ALICE)

    apply(**theirs)
    changed = proxy.before_first(
        lambda seen: "apply-patch" in seen.header("content-type"),
        lambda: apply(annotations={"hers": "1"}),
    )
    marks = {"applyprune.dev/ignore-fields": "/metadata/labels/theirs"}
    new = config_map("a", "new", annotations=marks, **theirs)
    assert spoiled.run(new, conflicts=conflicts).exit_code == 0
    assert changed
    assert api.get(path)["metadata"]["labels"].get("theirs") == "1"


def test_item_that_somebody_has_left_behind_is_named(stage: Stage, api: Api) -> None:
    """Nobody owns it; nor the defaults of the server, which a trial shows."""
    spec = {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}
    body = copy.deepcopy(DEPLOYMENT)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container |= {"ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}
    given = body, of_kind("Service", "web", spec=spec)
    assert stage.run(*given).exit_code == 0

    def told() -> list[str]:
        story = stage.run(*given, dry_run=DryRun.SERVER, diff=True, reapply_all=True)
        items = "no manifest and no field manager has these items: "
        found = [one for one in story.warnings if items in one]
        return [one.removeprefix(items).partition(": ")[0] for one in found]

    assert told() == []
    # Somebody adds a variable, and takes the record of that away.
    path = stage.path("web", *DEPLOYMENTS)
    place = "/spec/template/spec/containers/0/env/-"
    live = api.patch(path, [{"op": "add", "path": place, "value": {"name": "B"}}])
    managers = live["metadata"]["managedFields"]
    kept = [one for one in managers if one["manager"] == stage.target.manager]
    api.patch(path, {"metadata": {"managedFields": kept}})
    where = 'deployment.apps/web at spec.template.spec.containers[name="web"].env[name="B"]'
    assert told() == [where]

"""Objects that others have managed until now: their fields become ours, so that they can go."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun, Mode
from applyprune.planning.applyset import LAST_APPLIED, OWNED_BY
from applyprune.planning.digests import planned_object
from applyprune.values import replace
from tests.support.actors import ALICE
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.forged import forge
from tests.support.objects import DEPLOYMENT, config_map, of_kind, text
from tests.support.plane import Kubectl
from tests.support.stage import Stage
from tests.support.waiting import eventually

FINALIZERS = {"finalizers": ["a.test/hold"]}
DEPLOYMENTS = "deployments", "/apis/apps/v1"


def _body(name: str = "old", **data: str) -> dict[str, Any]:
    return {**config_map(name), "data": data}


def _stale(*names: str) -> list[dict[str, Any]]:
    return [_body(name, key="v", stale="1") for name in names]


def _managers(found: dict[str, Any]) -> set[str]:
    return {one["manager"] for one in found["metadata"]["managedFields"]}


def _data(stage: Stage, api: Api, *names: str) -> list[dict[str, str]]:
    return [api.get(stage.path(name))["data"] for name in names]


def test_fields_of_who_declared_it_are_removed_by_one_apply(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """What it holds is ours alone, but for what was added since; the second run writes nothing.

    No option takes finalizers: the next apply would remove them, and with them somebody's clean-up.
    """
    where, names = ("-n", stage.namespace, "-f", "-"), ("applied", "served", "helm", "held")
    held = {**_body("held", key="v"), "metadata": {"name": "held", **FINALIZERS}}
    kubectl("apply", *where, stdin=text(*_stale("applied"), held))
    kubectl("apply", "--server-side", *where, stdin=text(*_stale("served")))
    api.create(stage.path(), *_stale("helm"), by="helm")
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    added = {"labels": label, "annotations": {"note": "theirs"}, **FINALIZERS}
    api.patch(stage.path("applied"), {"metadata": added}, by="kubectl-label")
    given = [_body(name, key="v") for name in names]
    assert stage.run(*given[:2]).exit_code == 0
    assert _data(stage, api, "applied", "served") == [{"key": "v"}] * 2
    options = {"adopt": Adopt.ALL, "take_over": frozenset({"kubectl-client-side-apply"})}
    assert stage.run(*given, **options).exit_code == 0
    assert _data(stage, api, *names) == [{"key": "v"}] * 4
    now = {name: api.get(stage.path(name)) for name in names}
    assert _managers(now["served"]) == _managers(now["helm"]) == {stage.target.manager}
    assert stage.run(*given).outcomes == {f"configmap/{one}": Outcome.UNCHANGED for one in names}
    assert {name: api.get(stage.path(name)) for name in names} == now
    assert stage.run(*(_body(name, key="w") for name in names)).exit_code == 0
    metadata = api.get(stage.path("applied"))["metadata"]
    assert metadata["labels"].items() >= label.items()
    assert metadata["annotations"].keys() == {"note"}
    for name in ("applied", "held"):
        assert api.get(stage.path(name))["metadata"]["finalizers"] == FINALIZERS["finalizers"]
        api.patch(stage.path(name), {"metadata": {"finalizers": None}})


def test_fields_that_nobody_declared_stay_until_their_manager_is_named(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """At any time: also of an object that was unchanged otherwise."""
    names = ("kubectl-create", "kubectl-edit", "helm", "before-first-apply", "our-old-deployer")
    created, *others = _stale(*names)
    kubectl("create", "-n", stage.namespace, "-f", "-", stdin=json.dumps(created))
    for body, manager in zip(others, names[1:], strict=True):
        api.create(stage.path(), body, by=manager)
    for key in "vww":
        given = [_body(name, key=key) for name in names]
        assert stage.run(*given, conflicts=Conflicts.FORCE).exit_code == 0
        assert _data(stage, api, *names) == [{"key": key, "stale": "1"}] * 5
    outcomes = dict.fromkeys((f"configmap/{name}" for name in names), Outcome.UNCHANGED)
    assert stage.run(*given).outcomes == outcomes
    for outcome in (Outcome.UPDATED, Outcome.UNCHANGED):
        taken = stage.run(*given, take_over=frozenset(names))
        assert set(taken.outcomes.values()) == {outcome}
    assert _data(stage, api, *names) == [{"key": "w"}] * 5
    # A hot fix beside our fields is no adoption.
    api.patch(stage.path("helm"), {"data": {"theirs": "1"}}, by="kubectl-edit")
    assert stage.run(*(_body(name, key="x") for name in names)).exit_code == 0
    assert _data(stage, api, "helm") == [{"key": "x", "theirs": "1"}]


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


def test_diff_after_the_clearing_shows_what_the_apply_removes(stage: Stage, api: Api) -> None:
    """A list item with what somebody has written into it, and the last entry of a map."""
    path = stage.path("web", *DEPLOYMENTS)
    body, less = copy.deepcopy(DEPLOYMENT), copy.deepcopy(DEPLOYMENT)
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}
    body["spec"]["template"]["spec"]["volumes"] = [volume]
    body["spec"]["template"]["metadata"]["annotations"] = {"hint": "1"}
    less["spec"]["template"]["metadata"]["annotations"] = {}
    stage.run(body)
    medium = "/spec/template/spec/volumes/0/emptyDir/medium"
    api.patch(path, [{"op": "add", "path": medium, "value": "Memory"}], by=ALICE)
    _clear(api, path)
    (diff,) = stage.run(less, dry_run=DryRun.SERVER, diff=True).of(ObjectDiff)
    assert stage.run(less).exit_code == 0
    template = api.get(path)["spec"]["template"]
    assert "volumes" not in template["spec"]
    assert "annotations" not in template["metadata"]
    assert diff.after is not None
    assert diff.after["spec"]["template"] == template


IGNORED = {"applyprune.dev/ignore-fields": "/data/left"}


def test_diff_removes_nothing_that_the_second_manager_keeps(stage: Stage, api: Api) -> None:
    """What the set has left to others stays, while it takes over from somebody else."""
    names = ("taken", "unignored", "cleared")
    plain = {name: _body(name, key="v", left="1") for name in names}
    ignoring = {
        name: {**body, "metadata": {"name": name, "annotations": IGNORED}}
        for name, body in plain.items()
    }
    assert stage.run(*plain.values()).exit_code == 0
    assert stage.run(ignoring["taken"], ignoring["unignored"], plain["cleared"]).exit_code == 0
    for name in ("taken", "unignored"):
        api.patch(stage.path(name), {"data": {"theirs": "1"}}, by="nightly")
    _clear(api, stage.path("cleared"))
    wanted = ignoring["taken"], _body("unignored", key="v"), ignoring["cleared"]
    options: dict[str, Any] = {"take_over": frozenset({"nightly"})}
    diffs = stage.run(*wanted, dry_run=DryRun.SERVER, diff=True, **options).of(ObjectDiff)
    assert stage.run(*wanted, **options).exit_code == 0
    shown = {diff.ref.name: (diff.after or {})["data"] for diff in diffs}
    assert shown == {name: api.get(stage.path(name))["data"] for name in names}
    assert shown == {name: body["data"] for name, body in plain.items()}


def test_another_apply_after_the_clearing_costs_nobody_a_field(stage: Stage, api: Api) -> None:
    """The server has booked our fields, and others', to ``before-first-apply`` by then."""
    stage.run(_body(key="v", leaves="1"))
    api.patch(stage.path("old"), {"data": {"theirs": "1"}}, by=ALICE)
    _clear(api, stage.path("old"))
    api.apply(stage.path("old"), _body(third="1"), by="kubectl")
    assert stage.run(_body(key="w")).exit_code == 0
    assert _data(stage, api, "old") == [{"key": "w", "theirs": "1", "third": "1"}]


@pytest.mark.holds("parting-entry")
def test_next_applier_of_an_orphan_has_no_conflict(stage: Stage, api: Api) -> None:
    """It would have one with ``before-first-apply`` if the orphan had no field manager."""
    stage.run(_body(key="v", other="1"))
    assert stage.orphan("configmap/old").exit_code == 0
    api.patch(stage.path("old"), {"data": {"theirs": "1"}}, by=ALICE)
    for value in ("w", "x"):
        api.apply(stage.path("old"), _body(key=value), by="kubectl")
        assert _data(stage, api, "old") == [{"key": value, "other": "1", "theirs": "1"}]


def test_workload_status_stays_with_its_controller(stage: Stage, api: Api) -> None:
    """Only the main resource's fields move; a subresource's entry is not touched."""
    path = stage.path("web", *DEPLOYMENTS)
    api.create(path.rpartition("/")[0], DEPLOYMENT, by="kubectl-client-side-apply")
    eventually(
        lambda: api.get(path).get("status", {}).get("availableReplicas") == 1, lambda: "a Pod"
    )
    assert stage.run(DEPLOYMENT).exit_code == 0
    live = api.get(path)
    entries = live["metadata"]["managedFields"]
    assert {(one["manager"], one.get("subresource", "")) for one in entries} >= {
        (stage.target.manager, ""), ("kube-controller-manager", "status"),
    }  # fmt: skip
    assert not [one for one in _managers(live) if one.startswith("kubectl")]
    assert live["status"]["availableReplicas"] == 1


def test_change_between_read_and_migration_is_no_obstacle(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The patch is guarded: it is built again from the current object."""
    api.create(spoiled.path(), *_stale("old"), by="kubectl-client-side-apply")
    noted = {"metadata": {"annotations": {"some": "note"}}}
    done = proxy.before_first(
        lambda seen: "json-patch" in seen.header("content-type"),
        lambda: api.patch(spoiled.path("old"), noted, by=ALICE),
    )
    assert spoiled.run(_body(key="v")).exit_code == 0
    assert done
    assert _data(spoiled, api, "old") == [{"key": "v"}]


def test_run_killed_between_migration_and_apply_recovers(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The next one ends what it began; the object is adopted still, and never deleted."""
    api.create(stage.path(), *_stale("old"), by="kubectl-client-side-apply")
    spoiled.budget = 0.2
    proxy.rule = always(
        faults.reset(), where=lambda seen: "apply-patch" in seen.header("content-type")
    )
    assert spoiled.run(_body(key="v"), config_map("a")).exit_code == 3
    assert stage.run(_body(key="v"), config_map("a")).exit_code == 0
    assert api.get(stage.path("old"))["data"] == {"key": "v"}
    assert stage.run(mode=Mode.DELETE).outcomes["configmap/old"] is Outcome.ORPHANED


def test_manifest_with_last_applied_annotation_is_applied_without_it(
    stage: Stage, api: Api
) -> None:
    """It is copied along from live objects, and would hold the whole manifest, Secrets too."""
    stage.run(config_map("a", annotations={LAST_APPLIED: "{}", "mine": "1"}))
    noted = api.get(stage.path("a"))["metadata"]["annotations"]
    assert (noted.keys(), noted["mine"]) == ({"mine", OWNED_BY}, "1")


DUPLICATE = [{"name": "c", "image": "x", "env": [{"name": "E", "value": v} for v in "ab"]}]


def test_schema_errors_are_permanent_and_named(spoiled: Stage, proxy: FaultProxy) -> None:
    """They come as a 500 without a reason: sent once, never retried.

    The server finds them where its schemas may not be read.
    """
    proxy.rule = always(faults.answer(403), where=lambda seen: "/openapi/" in seen.path)
    undeclared = [{"name": "c", "image": "x", "imagee": "y"}]
    pods = {
        "duplicate": (DUPLICATE, "duplicate entries for key"),
        "undeclared": (undeclared, "imagee"),
    }
    bodies = [of_kind("Pod", name, spec={"containers": one}) for name, (one, _) in pods.items()]
    story = spoiled.run(*bodies, config_map("a"))
    assert story.exit_code == 3
    assert story.outcomes["configmap/a"] is Outcome.CREATED
    for name, (_, expected) in pods.items():
        assert expected in story.problem(f"pod/{name}")
        sent = [one for one in proxy.exchanges if one.path.endswith(f"/pods/{name}")]
        assert len([one for one in sent if one.method == "PATCH"]) == 1


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


def _released(stage: Stage, api: Api) -> dict[str, Any]:
    """The second field manager goes with the next apply: the set has nothing to give up now."""
    bodies = _handed_over(stage, api)["bodies"]
    stage.run(*bodies)
    return {"bodies": bodies, "reapply_all": True}


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
        _released,
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

"""Objects that a controller creates while the run is about to create them."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate, Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Approval, DryRun, Mode
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import config_map, manifest, of_kind
from tests.support.stage import Stage

CONTROLLER = {"User-Agent": "kube-controller-manager/v1.34"}


def _namespace_set(name: str) -> list[dict[str, Any]]:
    """Return a Namespace with what controllers create in it, and a ConfigMap."""
    namespace = of_kind("Namespace", name)
    account = of_kind(
        "ServiceAccount", "default", {"namespace": name}, imagePullSecrets=[{"name": "registry"}]
    )
    authority = of_kind(
        "ConfigMap", "kube-root-ca.crt", {"namespace": name, "labels": {"team": "a"}}
    )
    return [namespace, account, authority, config_map("a", namespace=name)]


@pytest.mark.parametrize("check", [False, True])
def test_objects_of_a_new_namespace_are_planned_as_adopted(
    stage: Stage, api: Api, home: str, check: bool
) -> None:
    """The first run succeeds; without the set they would exist too, so a delete keeps them."""
    bodies = _namespace_set(home)
    planned = stage.run(*bodies, dry_run=DryRun.SERVER)
    fates = {step.desired.ref.short: step.fate for step in planned.plan.applies}
    assert fates == {
        f"namespace/{home}": Fate.CREATE,
        "serviceaccount/default": Fate.ADOPT,
        "configmap/kube-root-ca.crt": Fate.ADOPT,
        "configmap/a": Fate.CREATE,
    }
    (reason,) = {step.reason for step in planned.plan.applies if step.fate is Fate.ADOPT}
    assert reason == "adopted: a controller creates it in a new Namespace"
    story = stage.run(*bodies, check=check)
    assert story.exit_code == 0, story.events
    account = api.get(f"/api/v1/namespaces/{home}/serviceaccounts/default")
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    assert account["metadata"]["labels"][PART_OF] == stage.target.id
    assert OWNED_BY not in (account["metadata"].get("annotations") or {})
    ownership = {one.ref.short: one.ownership for one in stage.inventory().entries.values()}
    assert ownership["serviceaccount/default"] is Ownership.ADOPTED
    assert ownership["configmap/kube-root-ca.crt"] is Ownership.ADOPTED
    assert ownership["configmap/a"] is Ownership.OWNED
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    without = stage.run(bodies[0], bodies[3])
    assert without.outcomes["serviceaccount/default"] is Outcome.ORPHANED
    assert api.exists(f"/api/v1/namespaces/{home}/serviceaccounts/default")


def test_objects_of_a_new_namespace_need_an_adoption(stage: Stage, api: Api, home: str) -> None:
    """With --adopt=none nothing is written, and the error says who creates them."""
    story = stage.run(*_namespace_set(home), adopt=Adopt.NONE)
    assert story.outcomes == dict.fromkeys(
        ("serviceaccount/default", "configmap/kube-root-ca.crt"), Outcome.FAILED
    )
    problem = story.problem("serviceaccount/default")
    assert "a controller creates it in a new Namespace" in problem
    assert "--adopt=unowned" in problem
    assert not api.exists(f"/api/v1/namespaces/{home}")


def test_objects_of_the_inventorys_new_namespace(stage: Stage, api: Api, home: str) -> None:
    """--create-namespace creates it before the inventory."""
    target = Stage(stage.kubeconfig, home)
    _, account, authority, one = _namespace_set(home)
    story = target.run(account, authority, one, create_namespace=True)
    assert story.exit_code == 0, story.events
    assert [step.fate for step in story.plan.applies].count(Fate.ADOPT) == 2
    assert target.run(mode=Mode.DELETE).exit_code == 0
    assert api.exists(f"/api/v1/namespaces/{home}/serviceaccounts/default")


def test_plan_file_of_a_new_namespace_is_applied(stage: Stage, home: str) -> None:
    """Its plan adopts what does not exist yet, so it fits whoever creates that first."""
    manifests = [manifest(body) for body in _namespace_set(home)]
    with stage.connection() as cluster:
        applyset = stage.applyset(cluster)
        plan = applyset.plan(manifests).plan
        assert plan is not None
        file = applyset.plan_file(plan)
        report = applyset.apply_plan(manifests, file)
        assert report.exit_code == 0, report
        assert applyset.apply_plan(manifests, file).exit_code == 0


def _create_before(proxy: FaultProxy, api: Api, stage: Stage, **metadata: Any) -> None:
    """Let a controller create the ConfigMap ``b`` right before the first apply of it."""

    def before(seen: Exchange) -> None:
        path = stage.path()
        if seen.method == "PATCH" and seen.path == f"{path}/b" and not api.exists(seen.path):
            body = config_map("b", **metadata) | {"data": {"theirs": "1"}}
            assert api("POST", path, body, headers=CONTROLLER)[0] == 201

    proxy.before_forward = before


def _path(stage: Stage) -> str:
    return stage.path("b")


def test_object_that_a_controller_has_created_is_adopted_in_the_same_run(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Like any existing object: its other fields stay, and it is not deleted later."""
    _create_before(proxy, api, spoiled)
    story = spoiled.run(config_map("a"), config_map("b"))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.UPDATED)
    live = api.get(_path(spoiled))
    assert live["data"] == {"key": "v", "theirs": "1"}
    assert OWNED_BY not in (live["metadata"].get("annotations") or {})
    assert set(spoiled.run(config_map("a"), config_map("b")).outcomes.values()) == {
        Outcome.UNCHANGED
    }
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.ORPHANED


@pytest.mark.parametrize(
    "refusal",
    ["none", "other set", pytest.param("reviewed", marks=pytest.mark.holds("reviewed-create"))],
)
def test_rules_of_adoption_hold_for_an_object_found_at_its_create(
    spoiled: Stage, proxy: FaultProxy, api: Api, refusal: str
) -> None:
    """And an approved plan creates it: nobody has approved to adopt it. It gets no entry."""
    labels = {PART_OF: "applyset-other-v1"} if refusal == "other set" else {}
    options: dict[str, Any] = {"adopt": Adopt.NONE} if refusal == "none" else {}
    if refusal == "reviewed":
        options = {"approval": Approval.ALWAYS}
        digest = spoiled.run(config_map("b"), dry_run=DryRun.SERVER, **options).plan.digest
        options["approved_plan"] = digest
    _create_before(proxy, api, spoiled, labels=labels)
    story = spoiled.run(config_map("b"), **options)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/b": Outcome.FAILED})
    words = {
        "none": "already exists and belongs to no set",
        "other set": "belongs to another set",
        "reviewed": "was created by somebody else during this run",
    }
    assert words[refusal] in story.problem("configmap/b")
    live = api.get(_path(spoiled))
    assert live["data"] == {"theirs": "1"}
    assert live["metadata"].get("labels", {}) == labels
    if refusal != "reviewed":
        assert not spoiled.listed()


@pytest.mark.holds("found-recorded")
def test_adoption_at_the_create_is_recorded_before_its_apply(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """A run that dies right after the apply must not look as if it had created the object."""
    _create_before(proxy, api, spoiled)
    created: list[str] = []
    before = proxy.before_forward

    def look(seen: Exchange) -> None:
        if before is not None:
            before(seen)
        if seen.method == "PATCH" and seen.path == _path(stage):
            entry = next(one for one in stage.inventory().entries.values() if one.ref.name == "b")
            created.append(f"{entry.ownership} {entry.uid_before_apply is not None}")

    proxy.before_forward = look
    spoiled.run(config_map("b"))
    assert created == ["owned False", "adopted True"]


def test_object_to_create_once_is_left_to_the_controller_that_was_first(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """It is not adopted, and not listed."""
    _create_before(proxy, api, spoiled)
    once = config_map("b", annotations={"applyprune.dev/apply": "once"})
    story = spoiled.run(config_map("a"), once)
    assert story.exit_code == 0, story.events
    assert story.outcomes["configmap/b"] is Outcome.SKIPPED
    live = api.get(_path(spoiled))
    assert live["data"] == {"theirs": "1"}
    assert PART_OF not in (live["metadata"].get("labels") or {})
    assert spoiled.listed() == {"configmap/a"}


def test_object_of_another_tool_that_was_first_is_not_adopted(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """As if it had existed before."""
    _create_before(proxy, api, spoiled, annotations={"meta.helm.sh/release-name": "web"})
    story = spoiled.run(config_map("a"), config_map("b"))
    assert "belongs to the Helm release web" in story.problem("configmap/b")
    assert api.get(_path(spoiled))["data"] == {"theirs": "1"}
    assert spoiled.listed() == {"configmap/a"}

"""Objects that a controller creates while the run is about to create them."""

from __future__ import annotations

from collections.abc import Mapping
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


def _create_before(proxy: FaultProxy, api: Api, stage: Stage, **bodies: Mapping[str, Any]) -> None:
    """Let a controller create each ConfigMap, with this metadata, right before its first apply."""
    paths = {stage.path(name): name for name in bodies}

    def before(seen: Exchange) -> None:
        name = paths.get(seen.path, "")
        if seen.method == "PATCH" and name and not api.exists(seen.path):
            body = config_map(name, **bodies[name]) | {"data": {"theirs": "1"}}
            assert api("POST", stage.path(), body, headers=CONTROLLER)[0] == 201

    proxy.before_forward = before


def test_object_found_at_its_create_is_judged_like_any_that_exists(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Its other fields stay, and it is not deleted later; what is not adopted gets no entry."""
    other = {"labels": {PART_OF: "applyset-other-v1"}}
    helm = {"annotations": {"meta.helm.sh/release-name": "web"}}
    _create_before(proxy, api, spoiled, b={}, other=other, helm=helm, once={})
    once = config_map("once", annotations={"applyprune.dev/apply": "once"})
    story = spoiled.run(config_map("a"), *map(config_map, ("b", "other", "helm")), once)
    assert story.outcomes == {
        "configmap/a": Outcome.CREATED,
        "configmap/b": Outcome.UPDATED,
        "configmap/other": Outcome.FAILED,
        "configmap/helm": Outcome.FAILED,
        "configmap/once": Outcome.SKIPPED,
    }
    assert "belongs to another set" in story.problem("configmap/other")
    assert "belongs to the Helm release web" in story.problem("configmap/helm")
    for name, labels in (("other", other["labels"]), ("helm", {}), ("once", {})):
        live = api.get(spoiled.path(name))
        assert (live["data"], live["metadata"].get("labels", {})) == ({"theirs": "1"}, labels)
    assert spoiled.listed() == {"configmap/a", "configmap/b"}
    live = api.get(spoiled.path("b"))
    assert live["data"] == {"key": "v", "theirs": "1"}
    assert OWNED_BY not in (live["metadata"].get("annotations") or {})
    again = spoiled.run(config_map("a"), config_map("b"))
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.ORPHANED


@pytest.mark.parametrize(
    "refusal", ["none", pytest.param("reviewed", marks=pytest.mark.holds("reviewed-create"))]
)
def test_object_found_at_its_create_is_adopted_only_if_that_is_allowed(
    spoiled: Stage, proxy: FaultProxy, api: Api, refusal: str
) -> None:
    """An approved plan creates it: nobody has approved to adopt it."""
    options: dict[str, Any] = {"adopt": Adopt.NONE}
    if refusal == "reviewed":
        options = {"approval": Approval.ALWAYS}
        digest = spoiled.run(config_map("b"), dry_run=DryRun.SERVER, **options).plan.digest
        options["approved_plan"] = digest
    _create_before(proxy, api, spoiled, b={})
    story = spoiled.run(config_map("b"), **options)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/b": Outcome.FAILED})
    words = {
        "none": "already exists and belongs to no set",
        "reviewed": "was created by somebody else during this run",
    }
    assert words[refusal] in story.problem("configmap/b")
    live = api.get(spoiled.path("b"))
    assert (live["data"], live["metadata"].get("labels")) == ({"theirs": "1"}, None)
    if refusal != "reviewed":
        assert not spoiled.listed()


@pytest.mark.holds("found-recorded")
def test_adoption_at_the_create_is_recorded_before_its_apply(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """A run that dies right after the apply must not look as if it had created the object."""
    _create_before(proxy, api, spoiled, b={})
    created: list[str] = []
    before = proxy.before_forward

    def look(seen: Exchange) -> None:
        if before is not None:
            before(seen)
        if seen.method == "PATCH" and seen.path == stage.path("b"):
            entry = next(one for one in stage.inventory().entries.values() if one.ref.name == "b")
            created.append(f"{entry.ownership} {entry.uid_before_apply is not None}")

    proxy.before_forward = look
    spoiled.run(config_map("b"))
    assert created == ["owned False", "adopted True"]

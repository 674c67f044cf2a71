"""Objects that appear or go between the plan and the apply: adopted, refused, or created again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from applyprune.model.events import Planned
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import AdoptFrom
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import config_map, manifest, of_kind
from tests.support.stage import Stage, on

GIVEN: dict[str, Any] = {"adopt": AdoptFrom("other")}
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


def test_objects_of_a_new_namespace_are_planned_as_adopted(
    stage: Stage, api: Api, home: str
) -> None:
    """Whoever creates them first, so a plan file fits; a delete keeps them, as without the set."""
    bodies = _namespace_set(home)
    with stage.connection() as cluster:
        applyset = stage.applyset(cluster)
        manifests = [manifest(body) for body in bodies]
        plan = applyset.plan(manifests).plan
        assert plan is not None
        report = applyset.apply_plan(manifests, applyset.plan_file(plan))
        assert report.exit_code == 0, report
    path = f"/api/v1/namespaces/{home}/serviceaccounts/default"
    account = api.get(path)
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    assert account["metadata"]["labels"][PART_OF] == stage.target.id
    assert OWNED_BY not in (account["metadata"].get("annotations") or {})
    ownership = {one.ref.short: one.ownership for one in stage.inventory().entries.values()}
    adopted = ("serviceaccount/default", "configmap/kube-root-ca.crt")
    assert {ownership[name] for name in adopted} == {Ownership.ADOPTED}
    assert ownership["configmap/a"] is Ownership.OWNED
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    without = stage.run(bodies[0], bodies[3])
    assert without.outcomes["serviceaccount/default"] is Outcome.ORPHANED
    assert api.exists(path)


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


# What was to be adopted, and is gone since the plan.


@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
def test_gone_object_is_created_as_owned(stage: Stage, api: Api, check: bool) -> None:
    """Whichever of its requests says so: a patch of its label, or the apply itself."""
    names = ("x", "nobodys")
    Stage(stage.kubeconfig, stage.namespace, name="other").run(config_map("x"))
    api.create(stage.path(), config_map("nobodys"))
    stage.seen = on(Planned, lambda: [api("DELETE", stage.path(name)) for name in names])
    story = stage.run(*map(config_map, names), check=check, **GIVEN)
    stage.seen = lambda _: None
    assert story.exit_code == 0, story.events
    assert set(story.outcomes.values()) == {Outcome.CREATED}
    for ref, entry in stage.inventory().entries.items():
        assert entry.ownership is Ownership.OWNED
        assert entry.uid == api.get(stage.path(ref.name))["metadata"]["uid"]
    stage.run(config_map("own"), max_prune=Stage.most(2))
    assert not any(api.exists(stage.path(name)) for name in names)

"""Objects that stay are not deleted by the garbage collector, and keep what they need."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from applyprune.model.events import Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, Mode, Propagation, PruneAlso
from tests.support.api import Api
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage, on
from tests.support.waiting import eventually

Body = dict[str, Any]
REST = tuple(config_map(f"rest-{number}") for number in range(4))
LEFT_ALONE = "applyprune.dev/apply"
INGRESS: Body = of_kind(
    "Ingress",
    "entry",
    {"finalizers": ["lb.example.com/cleanup"]},
    spec={"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
)
ACCOUNT: Body = of_kind("ServiceAccount", "operator")


def _owned(stage: Stage, api: Api, name: str, *owners: str) -> Body:
    body = config_map(name)
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": api.get(stage.path(owner))["metadata"]["uid"],
        }
        for owner in owners
    ]
    return body


def _mark(api: Api, path: str, value: str | None = "disabled", mark: str = LEFT_ALONE) -> None:
    api.patch(path, {"metadata": {"annotations": {mark: value}}})


def _mounting(name: str) -> Body:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "configMap": {"name": name}}]
    return body


def test_owner_of_an_object_that_stays_is_not_pruned(stage: Stage, api: Api) -> None:
    """It is left alone; with the printed option it goes, without the mark too."""
    stage.run(config_map("a"), *REST)
    marked = _owned(stage, api, "b", "a")
    stage.run(config_map("a"), marked, *REST)
    _mark(api, stage.path("b"))
    story = stage.run(*REST)
    assert story.exit_code == 6, story.events
    told = f"cascade-delete 1 object that must stay\n    {stage.namespace}/configmap/b: "
    assert told in story.problem("configmap/a")
    assert story.refusal.endswith("To allow this: --allow-cascade configmap/a")
    assert api.exists(stage.path("a"))
    # In the input it must stay as well, and no option lifts that.
    _mark(api, stage.path("b"), None)
    story = stage.run(marked, *REST, allow_cascade=frozenset({"configmap/a"}))
    assert "cascade-delete objects of the input" in story.problem("configmap/a")
    # What is pruned in the same run counts for nothing.
    story = stage.run(*REST)
    assert story.exit_code == 0, story.events
    assert story.outcomes["configmap/a"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


@pytest.mark.holds("owned-and-listed")
def test_owner_of_an_object_that_is_not_selected_is_not_deleted(stage: Stage, api: Api) -> None:
    """Only the deletion of its last owner collects it, and none that orphans it."""
    stage.run(config_map("a"), config_map("c"))
    stage.run(config_map("a"), config_map("c"), _owned(stage, api, "b", "a", "c"))
    assert stage.run(mode=Mode.DELETE, select=frozenset({"cm/a"})).exit_code == 0
    story = stage.run(mode=Mode.DELETE, select=frozenset({"cm/c"}))
    assert story.exit_code == 6, story.events
    assert f"must stay\n    {stage.namespace}/configmap/b: it stays in" in story.problem(
        "configmap/c"
    )
    assert api.exists(stage.path("c"))
    assert stage.listed() == {"configmap/b", "configmap/c"}
    allowed = frozenset({"configmap/c"})
    story = stage.run(mode=Mode.DELETE, select=frozenset({"cm/c"}), propagation=Propagation.ORPHAN)
    assert story.exit_code == 0, story.events
    assert api.exists(stage.path("b"))
    stage.run(config_map("d"), config_map("b"), prune=False, conflicts=Conflicts.FORCE)
    stage.run(_owned(stage, api, "b", "d"), config_map("d"), prune=False)
    allowed = frozenset({"configmap/d"})
    story = stage.run(mode=Mode.DELETE, select=frozenset({"cm/d"}), allow_cascade=allowed)
    assert story.exit_code == 0, story.events
    eventually(lambda: not api.exists(stage.path("b")), lambda: "the garbage collection")


@pytest.mark.holds("listed-stays")
def test_namespace_of_an_object_that_stays_is_not_pruned_though_its_owner_is(
    stage: Stage, api: Api, home: str
) -> None:
    """What the set lists is not taken for something that its owner has made."""
    space, owner = of_kind("Namespace", home), config_map("a", namespace=home)
    path = f"/api/v1/namespaces/{home}/configmaps"
    stage.run(space, owner, *REST)
    uid = api.get(f"{path}/a")["metadata"]["uid"]
    named = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid}]
    owned = config_map("b", namespace=home, ownerReferences=named)
    stage.run(space, owner, owned, *REST)
    _mark(api, f"{path}/b")
    story = stage.run(*REST, allow_kinds=frozenset({"namespace"}))
    assert story.exit_code == 6, story.events
    assert f"must stay\n    {home}/configmap/b: " in story.problem(f"namespace/{home}")
    assert api.exists(f"{path}/a")


@pytest.mark.holds("left-alone-recovered")
def test_object_that_is_left_alone_is_recovered(stage: Stage, api: Api) -> None:
    """After the loss of the inventory it is listed again: as adopted, as all of the set."""
    once = config_map("once", annotations={"applyprune.dev/apply": "once"})
    off = config_map("off", annotations={"applyprune.dev/apply": "disabled"})
    bodies = (once, config_map("marked"), *REST)
    stage.run(config_map("off"), *bodies)
    _mark(api, stage.path("marked"))
    listed = stage.listed()
    api("DELETE", stage.path(stage.target.inventory.name))
    story = stage.run(off, *bodies)
    assert story.exit_code == 0, story.events
    assert stage.listed() == listed
    assert not any("are not in the input" in warning for warning in story.warnings)
    _mark(api, stage.path("marked"), None)
    story = stage.run(*REST, also=frozenset({PruneAlso.ADOPTED}), max_prune=stage.most(3))
    assert story.exit_code == 0, story.events
    assert {story.outcomes[f"configmap/{name}"] for name in ("once", "off", "marked")} == {
        Outcome.PRUNED
    }


@pytest.mark.holds("left-alone-in-part")
def test_marked_object_is_left_alone_if_a_part_is_deleted(stage: Stage, api: Api) -> None:
    """Only the deletion of the whole set orphans it, because no inventory would list it."""
    stage.run(config_map("a"), *REST)
    _mark(api, stage.path("a"))
    story = stage.run(mode=Mode.DELETE, select=frozenset({"cm/a"}))
    assert story.outcomes == {"configmap/a": Outcome.NOT_PRUNED}
    assert "configmap/a" in stage.listed()
    assert stage.run(mode=Mode.DELETE).outcomes["configmap/a"] is Outcome.ORPHANED
    assert api.exists(stage.path("a"))


@pytest.mark.holds("left-alone-needs")
def test_need_of_a_left_alone_object_stays(stage: Stage, api: Api) -> None:
    """Also if it is in the input with other fields; the run succeeds, and what is free goes."""
    stage.run(_mounting("needed"), config_map("needed"), config_map("free"), *REST, wait=False)
    web = stage.path("web", "deployments", "/apis/apps/v1")
    _mark(api, web)
    story = stage.run(_mounting("rest-0"), *REST, wait=False)
    assert story.exit_code == 0, story.events
    assert story.outcomes["configmap/free"] is Outcome.PRUNED
    assert story.outcomes["configmap/needed"] is Outcome.NOT_PRUNED
    told = "deployment.apps/web needs it, and stays"
    assert story.reasons["configmap/needed"] == told
    story = stage.run(*REST, wait=False)
    assert story.exit_code == 0, story.events
    assert story.outcomes["deployment.apps/web"] is Outcome.NOT_PRUNED
    assert story.reasons["configmap/needed"] == told
    assert {"configmap/needed", "deployment.apps/web"} < stage.listed()
    _mark(api, web, None)
    story = stage.run(*REST, wait=False)
    assert story.outcomes["configmap/needed"] is Outcome.PRUNED


@pytest.mark.holds("controller-after-finalizer")
def test_controller_of_a_built_in_object_stays(stage: Stage, api: Api) -> None:
    """Its controller may be in the set, even in the same wave."""
    operator = copy.deepcopy(DEPLOYMENT)
    operator["spec"]["replicas"] = 0
    stage.run(INGRESS, operator, ACCOUNT, wait=False)
    story = stage.run(mode=Mode.DELETE, timeout=1.0)
    assert story.exit_code == 5, story.events
    assert story.outcomes == {
        "ingress.networking.k8s.io/entry": Outcome.FAILED,
        "deployment.apps/web": Outcome.SKIPPED,
        "serviceaccount/operator": Outcome.SKIPPED,
    }
    assert "its controller may need it" in story.problem("deployment.apps/web")
    entry = stage.path("entry", "ingresses", "/apis/networking.k8s.io/v1")
    api.patch(entry, {"metadata": {"finalizers": None}})
    assert stage.run(mode=Mode.DELETE).exit_code == 0


@pytest.mark.holds("kept-since-the-plan", row="applyprune.dev/apply")
@pytest.mark.parametrize("mark", [LEFT_ALONE, "applyprune.dev/prune"])
def test_namespace_of_an_object_that_is_marked_after_the_plan_stays(
    stage: Stage, api: Api, home: str, mark: str
) -> None:
    """While somebody reads the plan: the object stays, so its Namespace must not take it along.

    The plan has announced its deletion, so the run has not done everything.
    """
    path = f"/api/v1/namespaces/{home}"
    stage.run(of_kind("Namespace", home), config_map("a", namespace=home), *REST)
    stage.seen = on(Planned, lambda: _mark(api, f"{path}/configmaps/a", mark=mark))
    story = stage.run(*REST, allow_kinds=frozenset({"namespace"}))
    assert story.outcomes[f"namespace/{home}"] is Outcome.SKIPPED, story.events
    assert "configmap/a is still in it" in story.problem(f"namespace/{home}")
    assert story.exit_code == 3
    assert api.get(path)["status"]["phase"] == "Active"
    assert f"namespace/{home}" in stage.listed()
    # No DELETE was sent, so the inventory does not expect one.
    recorded = stage.inventory().entries
    assert not any(one.deleting for ref, one in recorded.items() if ref.kind == "Namespace")

"""A part of a set, by name or by the labels of live objects: the rest stays, and stays listed."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import InventoryError, PruneRefused, UsageError
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.model.text import parse_selector
from applyprune.planning.applyset import PART_OF
from applyprune.planning.order import DEPENDS_ON
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import SECRET, SERVICE, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage

WEB = parse_selector("app=web")
DELETE: dict[str, Any] = {"mode": Mode.DELETE, "select_labels": WEB}


def labelled(name: str, app: str, value: str = "v", **metadata: Any) -> dict[str, Any]:
    return config_map(name, value, labels={"app": app}, **metadata)


def exist(stage: Stage, api: Api) -> str:
    path = stage.path()
    return "".join(name for name in "abcd" if api.exists(f"{path}/{name}"))


@pytest.mark.holds("part-of-input")
def test_named_objects_are_applied_and_nothing_is_pruned(stage: Stage, api: Api) -> None:
    """By any name that kubectl takes; a name without a match writes nothing."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    given = (config_map("a", "new"), config_map("b", "new"), SERVICE)
    story = stage.run(*given, only=frozenset({"cm/a", "svc/web"}))
    assert story.outcomes == {"configmap/a": Outcome.UPDATED, "service/web": Outcome.CREATED}
    (warning,) = story.warnings
    assert "--only configmap/a --only service/web selects only a part of the set" in warning
    assert "2 other objects in the inventory do not change" in warning
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c", "service/web"}
    path = stage.path()
    assert api.get(f"{path}/b")["data"] == {"key": "v"}
    before = stage.inventory()
    for name, words in {
        "cm/lost": "the input has no configmap/lost",
        "cm/c": "the inventory lists configmap/c",
        "nonsense/a": "no matches for kind nonsense",
    }.items():
        with pytest.raises(UsageError) as caught:
            stage.run(*given, only=frozenset({"cm/a", name}))
        assert words in f"{caught.value.message} {caught.value.reason}"
    assert stage.inventory() == before
    # A full run converges again: what has left is pruned, what was skipped is applied.
    story = stage.run(*given)
    assert story.outcomes["configmap/c"] is Outcome.PRUNED
    assert story.outcomes["configmap/b"] is Outcome.UPDATED


def test_named_object_in_one_of_two_namespaces(stage: Stage, api: Api) -> None:
    """NAMESPACE/KIND/NAME names one of them."""
    there = f"{stage.namespace}-there"
    body = of_kind("Namespace", there)
    api.create("/api/v1/namespaces", body)
    try:
        given = (config_map("a"), config_map("a", namespace=there))
        stage.run(*given, only=frozenset({f"{there}/cm/a"}))
        assert [ref.namespace for ref in stage.inventory().entries] == [there]
        stage.run(*given)
        story = stage.run(mode=Mode.DELETE, select=frozenset({f"{there}/cm/a"}))
        assert story.outcomes == {"configmap/a": Outcome.DELETED}
        assert [ref.namespace for ref in stage.inventory().entries] == [stage.namespace]
    finally:
        api("DELETE", f"/api/v1/namespaces/{there}")


@pytest.mark.holds("whole-set")
def test_part_of_a_set_is_deleted_by_name(stage: Stage, api: Api) -> None:
    """The rest and the inventory stay; the names must be listed."""
    stage.run(*map(config_map, "abcd"))
    story = stage.run(mode=Mode.DELETE, select=frozenset({"cm/a", "configmaps/b"}))
    assert story.outcomes == {"configmap/a": Outcome.DELETED, "configmap/b": Outcome.DELETED}
    (warning,) = story.warnings
    assert warning.startswith("the inventory stays: --only configmap/a --only configmap/b")
    assert "2 other objects in the inventory do not change" in warning
    assert stage.listed() == {"configmap/c", "configmap/d"}
    assert exist(stage, api) == "cd"
    with pytest.raises(UsageError, match="does not list configmap/lost"):
        stage.run(mode=Mode.DELETE, select=frozenset({"cm/lost", "cm/c"}))
    assert exist(stage, api) == "cd"
    # Even if the part is all of it: `delete` without a part removes the inventory.
    stage.run(mode=Mode.DELETE, select=frozenset({"cm/c", "cm/d"}))
    assert stage.inventory().exists
    assert stage.listed() == set()
    stage.run(mode=Mode.DELETE)
    assert not stage.inventory().exists
    with pytest.raises(UsageError, match="there is no set web"):
        stage.run(mode=Mode.DELETE, select=frozenset({"cm/c"}))


def test_part_of_a_set_is_deleted_by_the_labels_of_live_objects(
    stage: Stage, api: Api, kubectl: Kubectl, audit: AuditTrail
) -> None:
    """Not by those of a manifest; what is gone has no labels, and stays listed."""
    stage.run(labelled("a", "web"), labelled("b", "db"), labelled("c", "web"), labelled("d", "web"))
    kubectl("label", "--overwrite", "configmap/c", "-n", stage.namespace, "app=other")
    kubectl("delete", "configmap/d", "-n", stage.namespace)
    audit.restart()
    dry = stage.run(**DELETE, dry_run=DryRun.SERVER)
    assert dry.outcomes == {"configmap/a": Outcome.DELETED}
    assert not writes(audit)
    story = stage.run(**DELETE)
    assert story.outcomes == {"configmap/a": Outcome.DELETED}
    assert any("-l app=web selects only a part of the set" in one for one in story.warnings)
    assert exist(stage, api) == "bc"
    assert stage.listed() == {"configmap/b", "configmap/c", "configmap/d"}
    audit.restart()
    with pytest.raises(UsageError, match="-l app=web matches none of the 3 objects of the set"):
        stage.run(**DELETE)
    assert not writes(audit)


def test_object_that_cannot_be_read_is_not_deleted_by_labels(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """It may match: the run says so, and deletes only what certainly does."""
    service = {**SERVICE, "metadata": {"name": "web", "labels": {"app": "web"}}}
    spoiled.run(service, SECRET)
    broken = faults.status(403, "Forbidden", "secrets is forbidden")

    def is_secret(seen: Exchange) -> bool:
        return "/secrets" in seen.path

    proxy.rule = always(broken, where=is_secret)
    story = spoiled.run(**DELETE)
    assert story.outcomes == {"service/web": Outcome.DELETED, "secret/s": Outcome.FAILED}
    assert "secrets cannot be read" in story.problem("secret/s")
    assert spoiled.listed() == {"secret/s"}
    assert api.exists(f"/api/v1/namespaces/{spoiled.namespace}/secrets/s")


@pytest.mark.holds("selected-labels")
def test_object_that_loses_the_labels_before_its_delete_stays(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The delete is decided again, by the labels that it has then."""
    spoiled.run(labelled("a", "web"), labelled("b", "db"))

    done = proxy.before_first(
        lambda seen: seen.method == "DELETE",
        lambda: kubectl("label", "--overwrite", "configmap/a", "-n", spoiled.namespace, "app=db"),
    )
    story = spoiled.run(**DELETE)
    assert done
    assert story.outcomes == {"configmap/a": Outcome.NOT_PRUNED}
    assert exist(spoiled, api) == "ab"
    assert spoiled.listed() == {"configmap/a", "configmap/b"}


@pytest.mark.holds("part-dependents")
def test_part_that_the_rest_depends_on_is_not_deleted(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """By depends-on; with the dependent object, it is deleted after it."""
    needs = {DEPENDS_ON: f"/namespaces/{stage.namespace}/ConfigMap/a"}
    stage.run(config_map("a"), config_map("b", annotations=needs), config_map("c"))
    audit.restart()
    with pytest.raises(PruneRefused) as caught:
        stage.run(mode=Mode.DELETE, select=frozenset({"cm/a", "cm/c"}))
    assert "configmap/b depends on configmap/a" in caught.value.message
    assert not writes(audit)
    stage.run(mode=Mode.DELETE, select=frozenset({"cm/a", "cm/b"}))
    assert exist(stage, api) == "c"


def test_namespace_of_the_rest_is_not_deleted(stage: Stage, api: Api) -> None:
    """What is not selected counts as contents that must stay."""
    there = f"{stage.namespace}-there"
    body = of_kind("Namespace", there)
    stage.run(body, config_map("a", namespace=there), config_map("b"))
    path = f"/api/v1/namespaces/{there}"
    try:
        story = stage.run(mode=Mode.DELETE, select=frozenset({f"ns/{there}"}))
        assert story.exit_code == 6
        assert f"{there}/configmap/a: it stays in this set" in story.refusal + story.problem(
            f"namespace/{there}"
        )
        assert api.get(path)["status"]["phase"] == "Active"
        story = stage.run(mode=Mode.DELETE, select=frozenset({f"ns/{there}", "cm/a"}))
        assert story.exit_code == 0
        assert stage.listed() == {"configmap/b"}
    finally:
        api("DELETE", path)


@pytest.mark.holds("protected-in-part")
def test_namespace_of_the_inventory_stays_listed_if_only_that_is_deleted(
    stage: Stage, api: Api
) -> None:
    """It is neither deleted nor unlisted, and the exit code says so; to orphan it is possible."""
    home = replace(stage, namespace=f"{stage.namespace}-home")
    path = f"/api/v1/namespaces/{home.namespace}"
    name = f"namespace/{home.namespace}"
    body = of_kind("Namespace", home.namespace)
    options: dict[str, Any] = {"mode": Mode.DELETE, "select": frozenset({name, "cm/b"})}
    try:
        home.run(body, config_map("a"), config_map("b"), create_namespace=True)
        story = home.run(**options)
        assert story.exit_code == 3, story.events
        assert story.outcomes == {name: Outcome.FAILED, "configmap/b": Outcome.DELETED}
        assert "it contains this set's inventory" in story.problem(name)
        assert home.listed() == {name, "configmap/a"}
        assert PART_OF in api.get(path)["metadata"]["labels"]
        story = home.run(**{**options, "select": frozenset({name})}, orphan=frozenset({name}))
        assert story.outcomes == {name: Outcome.ORPHANED}
    finally:
        api("DELETE", path)


def test_delete_of_a_part_says_that_the_inventory_is_lost(stage: Stage, api: Api) -> None:
    """By name as by labels; a set that never was is another error."""
    stage.run(labelled("a", "web"))
    api("DELETE", stage.path("applyprune-web"))
    for options in ({"select": frozenset({"cm/a"})}, {"select_labels": WEB}):
        with pytest.raises(InventoryError, match="has no inventory, but 1 object has its label"):
            stage.run(mode=Mode.DELETE, **options)
    assert exist(stage, api) == "a"
    with pytest.raises(UsageError, match="there is no set never"):
        replace(stage, name="never").run(mode=Mode.DELETE, select=frozenset({"cm/a"}))


def test_apply_of_a_part_finds_what_a_lost_inventory_listed(stage: Stage, api: Api) -> None:
    """Also if no selected object has the kind of those: else nothing would ever prune them."""
    stage.run(config_map("a"), config_map("b"))
    api("DELETE", stage.path("applyprune-web"))
    stage.run(SERVICE, config_map("a"), only=frozenset({"svc/web"}))
    assert stage.listed() == {"service/web", "configmap/a", "configmap/b"}

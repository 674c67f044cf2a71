"""Two witnesses for a delete: the inventory, and the annotation that the create has written."""

from __future__ import annotations

import json

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType, Ownership
from applyprune.model.options import Adopt, Conflicts
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api
from tests.support.forged import forge
from tests.support.objects import SERVICE, config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _witness(api: Api, stage: Stage, name: str) -> str:
    """Return the annotation of ownership of an object; empty if it has none."""
    annotations = api.get(stage.path(name))["metadata"].get("annotations") or {}
    return str(annotations.get(OWNED_BY, ""))


def _adopt(kubectl: Kubectl, stage: Stage) -> None:
    """Adopt the ConfigMap ``theirs`` into a set that creates ``a`` and ``b``."""
    kubectl("create", "configmap", "theirs", "-n", stage.namespace, "--from-literal=key=v")
    assert stage.run(*map(config_map, ("theirs", "a", "b"))).exit_code == 0


def test_only_the_create_writes_the_annotation(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Every later apply keeps it; an adopted object never gets it."""
    _adopt(kubectl, stage)
    for value in "vwx":
        bodies = [config_map(name) | {"data": {"key": value}} for name in ("theirs", "a", "b")]
        assert stage.run(*bodies, conflicts=Conflicts.FORCE).exit_code == 0
        assert _witness(api, stage, "a") == stage.target.id
        assert _witness(api, stage, "theirs") == ""


@pytest.mark.holds("witness")
def test_edited_inventory_deletes_no_adopted_object(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Not in a prune, not with the set, and not by a recreation, over several applies."""
    _adopt(kubectl, stage)
    forge(stage, "theirs", ownership=Ownership.OWNED)
    assert stage.run(*map(config_map, ("theirs", "a", "b")), reapply_all=True).exit_code == 0
    assert _witness(api, stage, "theirs") == ""
    assert stage.check().found == {"configmap/theirs": MismatchType.NO_WITNESS}
    story = stage.run(*map(config_map, "ab"))
    assert story.outcomes["configmap/theirs"] is Outcome.ORPHANED
    assert api.exists(stage.path("theirs"))


@pytest.mark.holds("witness-recreate")
def test_edited_inventory_recreates_no_adopted_object(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """A recreation deletes it first."""
    fixed = {**config_map("theirs"), "immutable": True}
    kubectl("create", "-f", "-", "-n", stage.namespace, stdin=json.dumps(fixed))
    bodies = [fixed, config_map("a")]
    assert stage.run(*bodies).exit_code == 0
    uid = api.get(stage.path("theirs"))["metadata"]["uid"]
    forge(stage, "theirs", ownership=Ownership.OWNED)
    changed = {**fixed, "data": {"key": "w"}}
    story = stage.run(changed, config_map("a"), recreate=True, conflicts=Conflicts.FORCE)
    assert "it was adopted" in story.problem("configmap/theirs")
    assert api.get(stage.path("theirs"))["metadata"]["uid"] == uid


def test_repair_writes_the_annotation_only_if_told(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """``--record-as owned`` is the user's word that the set created all of them."""
    stage.run(*map(config_map, "abc"))
    kubectl("annotate", "configmap/c", "-n", stage.namespace, f"{OWNED_BY}-")
    assert stage.repair(Ownership.OWNED).exit_code == 0
    assert _witness(api, stage, "c") == stage.target.id
    assert stage.check().found == {}
    assert stage.run(*map(config_map, "ab")).outcomes["configmap/c"] is Outcome.PRUNED


def test_repair_records_a_copied_label_as_adopted(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """With our field manager's name, which is free text."""
    stage.run(*map(config_map, "ab"))
    forged = config_map("forged")
    forged["metadata"]["labels"] = {PART_OF: stage.target.id}
    kubectl(
        "apply", "--server-side", f"--field-manager={stage.target.manager}",
        "-n", stage.namespace, "-f", "-", stdin=json.dumps(forged),
    )  # fmt: skip
    assert stage.repair().exit_code == 0
    assert "configmap/forged" in stage.listed()
    story = stage.run(*map(config_map, "ab"))
    assert story.outcomes["configmap/forged"] is Outcome.ORPHANED
    assert api.exists(stage.path("forged"))


def test_lost_inventory_is_rebuilt_with_the_annotation_on_request(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """A Service too; what controllers have made of it keeps no mark."""
    stage.run(SERVICE, *map(config_map, "ab"))
    kubectl("delete", "configmap", stage.target.inventory.name, "-n", stage.namespace)
    assert stage.repair(Ownership.OWNED).exit_code == 0
    assert stage.check().found == {}
    assert stage.run(SERVICE, config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


def test_moved_object_is_owned_by_its_new_set(stage: Stage, api: Api) -> None:
    """The annotation moves together with the label."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(*map(config_map, "abc"))
    assert stage.move(other, "configmap/a", "configmap/b").exit_code == 0
    assert _witness(api, stage, "a") == other.target.id
    assert other.check().found == {}
    assert other.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_object_taken_from_another_set_is_adopted(stage: Stage, api: Api) -> None:
    """Even if the inventory is edited to say that the set created it."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(*map(config_map, "abc"))
    bodies = [*map(config_map, "ax")]
    assert other.run(*bodies, adopt=Adopt.ALL).exit_code == 0
    assert _witness(api, stage, "a") == ""
    forge(other, "a", ownership=Ownership.OWNED)
    assert other.run(config_map("x")).outcomes["configmap/a"] is Outcome.ORPHANED
    assert api.exists(stage.path("a"))


def test_orphan_keeps_no_annotation(stage: Stage, api: Api) -> None:
    """Otherwise it would claim an owner that it no longer has."""
    stage.run(*map(config_map, "ab"))
    assert stage.orphan("configmap/a").exit_code == 0
    assert _witness(api, stage, "a") == ""

"""Two witnesses for a delete: the inventory, and the annotation that the create has written."""

from __future__ import annotations

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Conflicts
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api
from tests.support.forged import forge
from tests.support.objects import config_map
from tests.support.stage import Stage


def _witness(api: Api, stage: Stage, name: str) -> str:
    """Return the annotation of ownership of an object; empty if it has none."""
    annotations = api.get(stage.path(name))["metadata"].get("annotations") or {}
    return str(annotations.get(OWNED_BY, ""))


def _adopt(api: Api, stage: Stage) -> None:
    """Adopt the ConfigMap ``theirs`` into a set that creates ``a`` and ``b``."""
    api.create(stage.path(), config_map("theirs"), by="kubectl-create")
    assert stage.run(*map(config_map, ("theirs", "a", "b"))).exit_code == 0


def test_only_the_create_writes_the_annotation(stage: Stage, api: Api) -> None:
    """Every later apply keeps it; an adopted object never gets it."""
    _adopt(api, stage)
    for value in "vw":
        bodies = [config_map(name) | {"data": {"key": value}} for name in ("theirs", "a", "b")]
        assert stage.run(*bodies, conflicts=Conflicts.FORCE).exit_code == 0
        assert _witness(api, stage, "a") == stage.target.id
        assert _witness(api, stage, "theirs") == ""


def test_repair_writes_the_annotation_only_if_told(stage: Stage, api: Api) -> None:
    """``--record-as owned`` is the user's word that the set created all of them."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("c"), {"metadata": {"annotations": {OWNED_BY: None}}})
    assert stage.repair(Ownership.OWNED).exit_code == 0
    assert _witness(api, stage, "c") == stage.target.id
    assert stage.check().found == {}
    assert stage.run(*map(config_map, "ab")).outcomes["configmap/c"] is Outcome.PRUNED


def test_repair_records_a_copied_label_as_adopted(stage: Stage, api: Api) -> None:
    """With our field manager's name, which is free text."""
    stage.run(*map(config_map, "ab"))
    forged = config_map("forged", labels={PART_OF: stage.target.id})
    api.apply(stage.path("forged"), forged, by=stage.target.manager)
    assert stage.repair().exit_code == 0
    assert "configmap/forged" in stage.listed()
    story = stage.run(*map(config_map, "ab"))
    assert story.outcomes["configmap/forged"] is Outcome.ORPHANED
    assert api.exists(stage.path("forged"))


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

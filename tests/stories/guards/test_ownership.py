"""Whose objects: what a set has created, adopted, given away or shares with others.

The decisions are in tests/decisions/test_owners.py; a second witness of each creation is the
annotation that the create has written."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, AdoptFrom, Conflicts
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.forged import forge
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually


def test_adopted_object_is_orphaned_not_deleted(stage: Stage, api: Api) -> None:
    """Its data stays; our label and our managedFields entry go, and kubectl's stays."""
    api.create(stage.path(), of_kind("ConfigMap", "old", data={"mine": "1"}), by="kubectl-create")
    story = stage.run(config_map("old"), config_map("a"))
    assert story.outcomes["configmap/old"] is Outcome.UPDATED
    assert stage.run(config_map("a")).outcomes["configmap/old"] is Outcome.ORPHANED
    left = api.get(stage.path("old"))
    assert left["data"] == {"key": "v", "mine": "1"}
    assert PART_OF not in (left["metadata"].get("labels") or {})
    assert [one["manager"] for one in left["metadata"]["managedFields"]] == ["kubectl-create"]
    assert stage.listed() == {"configmap/a"}


def test_object_of_another_set_names_that_set_and_what_takes_it(stage: Stage) -> None:
    """The option from the error makes the next run succeed; it comes last."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(config_map("moved"), config_map("a"))
    first, *hints = other.run(config_map("moved")).problem("configmap/moved").splitlines()
    assert f"it belongs to the set web in namespace {stage.namespace}" in first
    assert hints[0].strip() == "Did you mean the set web?"
    given = AdoptFrom.parse(hints[-1].partition("--adopt=")[2].partition(". ")[0])
    assert given == AdoptFrom("web")
    assert other.run(config_map("moved"), adopt=given).exit_code == 0
    assert stage.run(config_map("a")).exit_code == 0
    assert stage.listed() == {"configmap/a"}


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


def test_given_object_is_owned_by_its_new_set(stage: Stage, api: Api) -> None:
    """The annotation moves together with the label."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(*map(config_map, "abc"))
    assert other.run(*map(config_map, "ab"), adopt=AdoptFrom("web")).exit_code == 0
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


RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}


@pytest.mark.holds("mark-of-a-later-tool")
def test_apply_after_the_take_over_does_not_hide_it(stage: Stage, api: Api) -> None:
    """The pipeline still applies the object a few times before it leaves the input."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    changed = config_map("b", "new")
    for body in (changed, config_map("b", "newer", annotations={"note": "x"})):
        assert stage.run(config_map("a"), body, config_map("c")).exit_code == 0
    assert stage.run(*map(config_map, "ac")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


REST = tuple(config_map(f"rest-{number}") for number in range(4))
WHOLE, PART = "configmap/a-whole", "configmap/a-part"


def _give(stage: Stage, api: Api) -> None:
    """Apply both, and let an operator give one to the other."""
    whole, part = (config_map(ref.partition("/")[2]) for ref in (WHOLE, PART))
    assert stage.run(whole, part, *REST).exit_code == 0
    uid = api.get(stage.path("a-whole"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a-whole", "uid": uid}
    change = {"metadata": {"ownerReferences": [owner]}}
    api.patch(stage.path("a-part"), change, by="operator")


def _outcomes(story: Any) -> dict[str, Outcome]:
    return {ref: outcome for ref, outcome in story.outcomes.items() if ref in {WHOLE, PART}}


def test_object_is_deleted_with_its_owner(stage: Stage, api: Api) -> None:
    """Nothing of both is left, whoever is faster: the run, or the garbage collector."""
    _give(stage, api)
    story = stage.run(*REST)
    assert story.exit_code == 0, story.events
    assert _outcomes(story) == {WHOLE: Outcome.PRUNED, PART: Outcome.PRUNED}
    eventually(lambda: not api.exists(stage.path("a-part")))


@pytest.mark.holds("owner-not-gone", "after-its-owner")
def test_object_stays_while_its_owner_is_not_deleted(
    spoiled: Stage, proxy: FaultProxy, stage: Stage, api: Api
) -> None:
    """It is neither deleted nor orphaned: the next run, which can, deletes both."""
    _give(stage, api)

    def deletes_whole(seen: Exchange) -> bool:
        return seen.method == "DELETE" and "/a-whole" in seen.path

    proxy.rule = always(faults.status(403, reason="Forbidden"), where=deletes_whole)
    story = spoiled.run(*REST)
    assert _outcomes(story) == {WHOLE: Outcome.FAILED, PART: Outcome.SKIPPED}, story.events
    assert "configmap/a-whole owns it, and is not gone" in story.problem(PART)
    assert {WHOLE, PART} <= stage.listed()
    assert api.exists(stage.path("a-part"))
    assert _outcomes(stage.run(*REST)) == {WHOLE: Outcome.PRUNED, PART: Outcome.PRUNED}

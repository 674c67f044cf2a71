"""Whose objects: adopted ones are never deleted, another set's never touched."""

from __future__ import annotations

from applyprune.model.fate import Outcome
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage


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


def test_object_of_another_set_names_that_set_and_the_move(stage: Stage) -> None:
    """The command from the error makes the next run succeed; to take it over comes last."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(config_map("moved"), config_map("a"))
    first, *hints = other.run(config_map("moved")).problem("configmap/moved").splitlines()
    assert f"it belongs to the set web in namespace {stage.namespace}" in first
    assert hints[0].strip() == "Did you mean the set web?"
    assert "--adopt=set/web" in hints[-1]
    command = hints[1].partition(": applyprune ")[2]
    assert command == f"inventory move web other configmap/moved -n {stage.namespace}"
    assert applyprune(*command.split(), kubeconfig=stage.kubeconfig).code == 0
    assert other.run(config_map("moved")).exit_code == 0
    assert stage.listed() == {"configmap/a"}

"""The inventory's last run: who ran it, when, in which mode, with which exit code."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime

import pytest

from applyprune import Input
from applyprune.engine.context import RunRequest
from applyprune.engine.run import run
from applyprune.errors import Interrupted
from applyprune.model.events import InventoryWritten
from applyprune.model.fate import Outcome
from applyprune.model.inventory import RunRecord
from applyprune.model.options import Conflicts, Options
from applyprune.values import replace
from tests.support.api import Api, AuditTrail
from tests.support.objects import config_map, manifest, of_kind
from tests.support.renewals import Renewals
from tests.support.stage import Stage, on

WRONG = of_kind("ConfigMap", "wrong", data={"not a key": ""})


def last(stage: Stage) -> RunRecord:
    """Return the last run that the inventory records; it must exist."""
    found = stage.inventory().last
    assert found is not None
    return found


def writes(audit: AuditTrail, stage: Stage) -> list[str]:
    """Return the verbs of all writes to the inventory that are no renewals."""
    name, renewals = stage.target.inventory.name, Renewals()
    return [
        event["verb"]
        for event in audit.events()
        if event.get("objectRef", {}).get("name") == name
        and event["verb"] in {"create", "update", "patch", "delete"}
        and not renewals.is_one(event["requestObject"])
    ]


def test_last_run_records_who_when_and_how(stage: Stage, audit: AuditTrail) -> None:
    """Recorded with the union write and the last one; a run without changes is not recorded."""
    began = datetime.now(UTC).replace(microsecond=0)
    story = stage.run(config_map("a"))
    one = last(stage)
    assert (one.mode, one.exit_code) == ("apply", 0)
    assert one.who == f"{getpass.getuser()}@{os.uname().nodename}"
    assert began <= datetime.fromisoformat(one.at) <= datetime.now(UTC)
    assert [event.run for event in story.events if hasattr(event, "run")] == [one.run]
    assert writes(audit, stage) == ["create", "update"]
    audit.restart()
    assert stage.run(config_map("a")).outcomes == {"configmap/a": Outcome.UNCHANGED}
    assert writes(audit, stage) == []
    assert last(stage) == one


def test_last_run_records_a_failure_with_its_exit_code(stage: Stage) -> None:
    """As in Finished."""
    story = stage.run(config_map("a"), WRONG)
    assert story.exit_code == 3
    assert last(stage).exit_code == 3
    assert stage.run(config_map("a", "other"), config_map("b"), config_map("c")).exit_code == 0
    assert last(stage).exit_code == 0
    refused = stage.run(config_map("a", "new"), max_prune=Stage.most(0), apply_anyway=True)
    assert refused.exit_code == 6
    assert (last(stage).mode, last(stage).exit_code) == ("apply", 6)


def test_last_run_records_an_interruption(stage: Stage) -> None:
    """The signal's exit code; the error says how much is left of what the plan changes."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))

    stage.seen = on(InventoryWritten, lambda: stage.stop.request(15))
    with pytest.raises(Interrupted, match="interrupted: 2 objects are left"):
        stage.run(config_map("a", "other"), config_map("b"))
    assert last(stage).exit_code == 143


def test_last_run_records_each_verb(stage: Stage, api: Api) -> None:
    api.create(stage.path(), config_map("d"))
    stage.run(*map(config_map, "abcd"), conflicts=Conflicts.FORCE)
    stage.orphan("configmap/b")
    assert last(stage).mode == "orphan"
    stage.own("configmap/d")
    assert (last(stage).mode, last(stage).exit_code) == ("repair", 0)


def test_last_run_records_another_user_and_keeps_the_owner(stage: Stage) -> None:
    """A controller runs for its Bundle; its name may differ from the owner's."""
    bundle = replace(stage, owner=f"Bundle {stage.namespace}/web")
    bundle.run(config_map("a"))
    with stage.connection() as cluster:
        request = RunRequest(
            stage.target, Input((manifest(config_map("a", "other")),)), stage.namespace, Options(),
            who="somebody", owner=bundle.owner,
        )  # fmt: skip
        assert list(run(request, cluster.client, stage.applyset(cluster).store(), stage.stop))
    assert last(stage).who == "somebody"
    assert bundle.run(config_map("a", "third")).exit_code == 0
    assert stage.inventory().owner == bundle.owner
    assert last(stage).who != "somebody"


def test_history_keeps_the_last_ten_runs_that_changed_an_object(stage: Stage) -> None:
    """A run that fails over and over does not push them out."""
    stories = [stage.run(config_map("a", str(number))) for number in range(12)]
    ids = [event.run for story in stories for event in story.events if hasattr(event, "run")]
    assert [one.run for one in stage.inventory().history] == ids[:1:-1]
    for _ in range(2):
        assert stage.run(config_map("a", "11"), WRONG).exit_code == 3
    found = stage.inventory()
    assert found.last is not None
    assert (found.last.exit_code, found.last.has_changed) == (3, False)
    assert [one.run for one in found.history] == ids[:1:-1]
    stage.run(config_map("b"))
    newest = stage.inventory().history[0]
    assert (newest.created, newest.changed, newest.pruned) == (1, 0, 1)

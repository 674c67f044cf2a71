"""Orphaned objects: they stay unchanged, but nothing on them belongs to the set any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import UsageError
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.planning.applyset import PART_OF
from tests.decisions.world import OTHER, annotated, created, deleted, deleting, relabelled
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.kill import Moment, kill_at
from tests.support.live import config_maps
from tests.support.objects import SERVICE, config_map
from tests.support.run_rows import RunRow
from tests.support.stage import Stage

A, B = config_map("a"), config_map("b")
HELD, THEIRS = config_map("b", finalizers=["example.com/hold"]), config_map("b", "theirs")
MERGE = "application/merge-patch+json"


def _managers(body: dict[str, Any]) -> set[str]:
    return {entry["manager"] for entry in body["metadata"].get("managedFields") or () if entry}


def _is_free(stage: Stage, body: dict[str, Any]) -> bool:
    """Return whether neither label nor field manager of the set is on an object."""
    labels = body["metadata"].get("labels") or {}
    return PART_OF not in labels and stage.target.manager not in _managers(body)


def test_orphan_releases_one_object(stage: Stage, api: Api) -> None:
    """It keeps its data; the set removes its entry and keeps the others.

    A typing error must not pass for done, not even beside a name that is right.
    """
    stage.run(config_map("a"), config_map("b"), SERVICE)
    before = api.get(stage.path("b"))
    with pytest.raises(UsageError, match="does not list configmap/x, service/b"):
        stage.orphan("configmap/a", "configmap/x", "service/b")
    assert stage.listed() == {"configmap/a", "configmap/b", "service/web"}
    story = stage.orphan(f"{stage.namespace}/ConfigMap/b")
    assert (story.exit_code, story.outcomes) == (0, {"configmap/b": Outcome.ORPHANED})
    left = api.get(stage.path("b"))
    assert (left["metadata"]["uid"], left["data"]) == (before["metadata"]["uid"], before["data"])
    assert _is_free(stage, left)
    assert stage.listed() == {"configmap/a", "service/web"}
    assert not stage.check().found
    assert stage.run(config_map("a"), SERVICE).outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "service/web": Outcome.UNCHANGED,
    }
    assert api.get(stage.path("b")) == left


def test_orphaned_object_is_adopted_from_nobody(stage: Stage) -> None:
    """The field manager that keeps the server from inventing one is not anybody's."""
    stage.run(config_map("a"), config_map("b"))
    stage.orphan("configmap/b")
    story = stage.run(config_map("a"), config_map("b"), dry_run=DryRun.SERVER)
    (step,) = (one for one in story.plan.applies if one.desired.ref.name == "b")
    assert (step.fate, step.taken_from, story.plan.consequences) == (Fate.ADOPT, (), ())


def test_orphan_of_everything_removes_the_set(stage: Stage, api: Api) -> None:
    """The inventory goes, too; the same manifests are a new set, which adopts them."""
    bodies = (config_map("a"), config_map("b"), SERVICE)
    stage.run(*bodies)
    story = stage.orphan()
    assert set(story.outcomes.values()) == {Outcome.ORPHANED}
    assert len(story.outcomes) == 3
    assert not api.exists(stage.path(stage.target.inventory.name))
    assert _is_free(stage, api.get(stage.path("a")))
    stage.run(*bodies)
    story = stage.run(SERVICE)
    assert story.outcomes["configmap/a"] is Outcome.ORPHANED
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    assert stage.run(SERVICE).outcomes == {"service/web": Outcome.UNCHANGED}


def _states(api: Api, stage: Stage) -> dict[str, tuple[str, str]]:
    """Return UID and resourceVersion of every ConfigMap, inventories included."""
    metadata = [item["metadata"] for item in config_maps(api, stage.namespace).values()]
    return {one["name"]: (one["uid"], one["resourceVersion"]) for one in metadata}


def test_orphan_dry_run_changes_nothing(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """It reports what the call itself does."""
    stage.run(config_map("a"), config_map("b"))
    before = _states(api, stage)
    audit.restart()
    story = stage.orphan("configmap/a", dry_run=DryRun.SERVER)
    verbs = {one["verb"] for one in audit.ours()}
    assert verbs <= {"get", "list"}
    assert _states(api, stage) == before
    assert story.outcomes == stage.orphan("configmap/a").outcomes


def test_orphan_leaves_the_fields_of_others(stage: Stage, api: Api) -> None:
    """Labels, data and managers of others stay; our fields have no owner from then on."""
    stage.run(config_map("a"), config_map("b", labels={"team": "x"}))
    api.patch(
        stage.path("b"),
        {"data": {"theirs": "1"}, "metadata": {"labels": {"their": "label"}}},
        by=ALICE,
    )
    before = api.get(stage.path("b"))
    stage.orphan("configmap/b")
    left = api.get(stage.path("b"))
    assert left["data"] == {"key": "v", "theirs": "1"}
    assert left["metadata"]["labels"] == {"team": "x", "their": "label"}
    assert left["metadata"]["managedFields"] == [
        entry for entry in before["metadata"]["managedFields"] if entry["manager"] == ALICE
    ]
    # Our key has no owner any more: another manager takes it without a conflict.
    api.apply(stage.path("b"), config_map("b", "new"), by="kubectl")
    assert api.get(stage.path("b"))["data"] == {"key": "new", "theirs": "1"}


FREED: dict[str, Any] = {"metadata": {"labels": None}}
REST = frozenset({"configmap/a"})
ODD = {
    "of another set": RunRow(
        [], [A, B], [relabelled("configmap/b", OTHER.id)], exit_code=3,
        outcomes={"configmap/b": Outcome.FAILED}, listed=frozenset({"configmap/a", "configmap/b"}),
    ),
    "gone": RunRow(
        [], [A, B], [deleted("configmap/b")], listed=REST, live={"configmap/b": None},
        outcomes={"configmap/b": Outcome.REMOVED_FROM_INVENTORY},
    ),
    "recreated": RunRow(
        [], [A, B], [deleted("configmap/b"), created(THEIRS)], listed=REST,
        outcomes={"configmap/b": Outcome.REMOVED_FROM_INVENTORY}, live={"configmap/b": THEIRS},
    ),
    "without the label": RunRow(
        [], [A, B], [relabelled("configmap/b", None)], listed=REST,
        outcomes={"configmap/b": Outcome.ORPHANED}, live={"configmap/b": FREED},
    ),
    "being deleted": RunRow(
        [], [A, HELD], [deleting("configmap/b")], listed=REST,
        outcomes={"configmap/b": Outcome.ORPHANED}, live={"configmap/b": FREED},
    ),
    "changed before the patch": RunRow(
        [], [A, B], meanwhile=[annotated("configmap/b", {"mine": "1"})], listed=REST,
        outcomes={"configmap/b": Outcome.ORPHANED},
        live={"configmap/b": {"metadata": {"labels": None, "annotations": {"mine": "1"}}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ODD.values(), ids=ODD.keys())
def test_orphan_of_an_object_that_is_not_as_recorded(stage: Stage, api: Api, row: RunRow) -> None:
    """Nothing is made in its place; what has our manager but no label has it no more."""
    orphans = {"mode": Mode.ORPHAN, "select": frozenset({"configmap/b"})}
    replace(row, given=[], options=orphans).holds(api, stage)
    left = api.find(stage.path("b"))
    assert left is None or row.exit_code or stage.target.manager not in _managers(left)
    api("PATCH", stage.path("b"), {"metadata": {"finalizers": None}}, content_type=MERGE)


def _patches(seen: Exchange) -> bool:
    return seen.method == "PATCH"


def test_orphan_recognises_a_lost_reply(spoiled: Stage, proxy: FaultProxy, api: Api) -> None:
    """The patch is sent again and does not fit any more: there is nothing left to take off."""
    spoiled.run(config_map("a"), config_map("b"))
    proxy.rule = first(1, faults.lose_reply(), where=_patches)
    assert spoiled.orphan("configmap/b").exit_code == 0
    assert _is_free(spoiled, api.get(spoiled.path("b")))
    assert spoiled.listed() == {"configmap/a"}


def test_rejected_orphan_stays_listed_and_ours(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Exit code 3; the other one is orphaned, and the next prune of this one is a delete."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    denied = faults.status(403, reason="Forbidden", message="not today")
    proxy.rule = always(denied, where=lambda seen: _patches(seen) and seen.path.endswith("/b"))
    story = spoiled.orphan("configmap/b", "configmap/c")
    assert story.outcomes == {"configmap/b": Outcome.FAILED, "configmap/c": Outcome.ORPHANED}
    assert story.exit_code == 3
    assert "not today" in story.problem("configmap/b")
    assert stage.listed() == {"configmap/a", "configmap/b"}
    assert not _is_free(stage, api.get(stage.path("b")))


@pytest.mark.parametrize("wanted", [False, True])
def test_orphan_killed_before_it_records_the_release_recovers(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path, wanted: bool
) -> None:
    """The next run without it removes its entry; with it, adopts it again; it is never deleted."""
    stage.run(config_map("a"), config_map("b"))
    uid = api.get(stage.path("b"))["metadata"]["uid"]
    command = ["inventory", "orphan", stage.name, "-n", stage.namespace, "configmap/b"]
    # Inventory, discovery 2, list, rights, union, intent, the patch, and the write after it.
    killed = kill_at(proxy, 9, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    assert killed is not None
    assert killed.method == "PUT"
    assert _is_free(stage, api.get(stage.path("b")))
    assert stage.listed() == {"configmap/a", "configmap/b"}

    story = stage.run(config_map("a"), *((config_map("b"),) if wanted else ()))
    assert story.exit_code == 0
    now = api.get(stage.path("b"))
    assert now["metadata"]["uid"] == uid
    assert _is_free(stage, now) is not wanted
    if wanted:
        assert stage.listed() == {"configmap/a", "configmap/b"}
    else:
        assert story.outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
        assert stage.listed() == {"configmap/a"}
    assert not stage.check().found

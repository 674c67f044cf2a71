"""The ConfigMaps that hold a set's inventory: no set takes them in, and none deletes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from applyprune.cluster import inventory_format
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.options import Adopt, Conflicts, Mode, PruneAlso
from applyprune.planning.applyset import PART_OF, SHARD_OF
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

FILLING = 60
"""So many entries that they are kept in shards, where a shard has few."""


def _write(stage: Stage, entries: Mapping[Ref, InventoryEntry]) -> None:
    stage.rewrite(entries={**stage.inventory().entries, **entries})


def _entry(name: str, namespace: str, uid: str) -> InventoryEntry:
    ref = Ref("", "ConfigMap", namespace, name)
    return InventoryEntry(ref, "configmaps", "v1", None, uid=uid)


def _fill(stage: Stage) -> None:
    """Let a set list so much that its inventory is in shards."""
    entries = [_entry(f"c-{number:05}", "a-gone", f"u-{number}") for number in range(FILLING)]
    _write(stage, {one.ref: one for one in entries})


def _kept_in(api: Api, stage: Stage) -> dict[str, str]:
    """Return the UID of each ConfigMap in which a set's inventory is, by name."""
    shards = api.get(f"{stage.path()}?labelSelector={SHARD_OF}={stage.name}")["items"]
    root = api.get(stage.path(stage.target.inventory.name))
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in (root, *shards)}


@pytest.fixture
def other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Another set of the namespace, whose inventory has a root and shards."""
    monkeypatch.setattr(inventory_format, "_PER_SHARD", 8)
    monkeypatch.setattr(inventory_format, "MAX_TEXT", 4 * 1024)
    made = Stage(stage.kubeconfig, stage.namespace, name="other")
    made.run(config_map("theirs"))
    _fill(made)
    return made


def test_inventory_cannot_be_an_object_of_a_set(stage: Stage, other: Stage, api: Api) -> None:
    """Neither its root nor its shards; nothing of them is changed, and nothing of them listed."""
    before = {name: api.get(stage.path(name)) for name in _kept_in(api, other)}
    assert len(before) > 2
    bodies = [config_map(name) for name in before]
    for forced in (False, True):
        story = stage.run(
            config_map("a"),
            *bodies,
            adopt=Adopt.ALL,
            conflicts=Conflicts.FORCE if forced else Conflicts.FAIL,
        )
        assert story.exit_code == 3
        for name in before:
            assert story.outcomes[f"configmap/{name}"] is Outcome.FAILED
            assert "is the inventory of a set" in story.problem(f"configmap/{name}")
    assert {name: api.get(stage.path(name)) for name in before} == before
    assert stage.listed() == set()
    assert len(other.inventory().entries) == FILLING + 1


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_listed_inventory_is_not_deleted(stage: Stage, other: Stage, api: Api, mode: Mode) -> None:
    """Although the entry has its UID, and it has the set's label and its manager's fields."""
    stage.run(config_map("a"))
    there = _kept_in(api, other)
    for name in there:
        body = of_kind("ConfigMap", name, {"labels": {PART_OF: stage.target.id}})
        api.apply(stage.path(name), body, by=stage.target.manager)
    _list(stage, there)
    left: tuple[dict[str, Any], ...] = () if mode is Mode.DELETE else (config_map("a"),)
    story = stage.run(
        *left, mode=mode, also=frozenset({PruneAlso.ADOPTED}), max_prune=stage.most(99)
    )
    for name in there:
        assert story.outcomes[f"configmap/{name}"] is Outcome.ORPHANED, story.events
        assert "deletionTimestamp" not in api.get(stage.path(name))["metadata"]
    assert _kept_in(api, other) == there
    assert len(other.inventory().entries) == FILLING + 1


def _list(stage: Stage, names: Mapping[str, str]) -> None:
    entries = [_entry(name, stage.namespace, uid) for name, uid in names.items()]
    _write(stage, {one.ref: one for one in entries})


def test_set_that_lists_its_own_inventory_does_not_delete_it(stage: Stage, api: Api) -> None:
    """Its label does not name itself either, so it is skipped."""
    stage.run(config_map("a"), config_map("b"))
    (name,) = _kept_in(api, stage)
    uid = _kept_in(api, stage)[name]
    _list(stage, {name: uid})
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes.get(f"configmap/{name}") is not Outcome.PRUNED
    assert _kept_in(api, stage) == {name: uid}
    assert "configmap/a" in stage.listed()

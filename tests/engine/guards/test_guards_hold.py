"""The purpose of each guard: a story fails if that guard is removed (tests/mutations)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from applyprune.errors import InventoryLocked
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, Mode
from tests.support.actors import ALICE
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _is(method: str, path: str) -> Callable[[Exchange], bool]:
    return lambda seen: (seen.method, seen.path) == (method, path)


@pytest.mark.holds("apply-uid")
def test_object_recreated_between_read_and_apply_is_not_written(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """An apply names the UID that was read: what somebody else put there keeps its data."""
    spoiled.run(config_map("a"))

    def recreate() -> None:
        kubectl("delete", "configmap", "a", "-n", spoiled.namespace)
        kubectl("create", "configmap", "a", "-n", spoiled.namespace, "--from-literal=mine=1")

    happened = proxy.before_first(_is("PATCH", spoiled.path("a")), recreate)
    story = spoiled.run(config_map("a", "new"))
    assert happened
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert api.get(spoiled.path("a"))["data"] == {"mine": "1"}


@pytest.mark.holds("forced-apply-version")
def test_forced_apply_does_not_overwrite_a_newer_version(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Force carries the resourceVersion: a change of the last moment is somebody's, and stays."""
    spoiled.run(config_map("a"))

    def change() -> None:
        api.patch(spoiled.path("a"), {"data": {"key": "theirs"}}, by=ALICE)

    happened = proxy.before_first(_is("PATCH", spoiled.path("a")), change)
    story = spoiled.run(config_map("a", "new"), conflicts=Conflicts.FORCE)
    assert happened
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert api.get(spoiled.path("a"))["data"] == {"key": "theirs"}


@pytest.mark.holds("delete-uid")
def test_delete_carries_uid_and_resource_version(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """No resourceVersion is given twice, so that the UID is there too can only be seen."""
    spoiled.run(config_map("a"), config_map("b"))
    there = {name: api.get(spoiled.path(name))["metadata"] for name in ("a", "b")}
    spoiled.run(config_map("a"))
    spoiled.run(mode=Mode.DELETE)
    sent = {
        seen.path: json.loads(seen.body)["preconditions"]
        for seen in proxy.exchanges
        if seen.method == "DELETE"
    }
    assert sent.pop(spoiled.path(spoiled.target.inventory.name)).keys() == {
        "uid",
        "resourceVersion",
    }
    assert sent == {
        spoiled.path(name): {key: metadata[key] for key in ("uid", "resourceVersion")}
        for name, metadata in there.items()
    }


@pytest.mark.holds("delete-confirmed")
def test_entry_stays_until_its_delete_is_confirmed(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """A refused delete has deleted nothing; the next run continues."""
    spoiled.run(config_map("a"), config_map("b"))
    proxy.rule = always(
        faults.status(403, reason="Forbidden"), where=lambda seen: seen.method == "DELETE"
    )
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.FAILED
    assert stage.listed() == {"configmap/a", "configmap/b"}
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))
    assert stage.listed() == {"configmap/a"}


@pytest.mark.holds("inventory-version")
def test_inventory_written_by_another_run_is_read_again(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The objects of the other run are in the inventory, so they are pruned and not leaked."""
    spoiled.run(config_map("a"))
    happened = proxy.before_first(
        _is("PUT", stage.path(stage.target.inventory.name)),
        lambda: stage.run(config_map("a"), config_map("theirs")),
    )
    story = spoiled.run(config_map("a"), config_map("ours"))
    assert happened
    assert not api.exists(stage.path("theirs"))
    assert story.outcomes["configmap/theirs"] is Outcome.PRUNED
    assert stage.listed() == {"configmap/a", "configmap/ours"}


@pytest.mark.holds("inventory-uid")
def test_inventory_write_carries_uid_and_resource_version(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Both its UID and its resourceVersion: a PUT without them takes whatever is there."""
    spoiled.run(config_map("a"))
    spoiled.run(config_map("b"))
    path = spoiled.path(spoiled.target.inventory.name)
    bodies = [
        json.loads(seen.body)["metadata"]
        for seen in proxy.exchanges
        if (seen.method, seen.path) == ("PUT", path)
    ]
    assert bodies
    assert all(metadata.get("uid") for metadata in bodies)
    assert all(metadata.get("resourceVersion") for metadata in bodies)


@pytest.mark.holds("delete-version")
def test_inventory_written_by_another_run_is_not_removed(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """The delete of the set ends as a lost race, and what the other recorded stays."""
    spoiled.run(config_map("a"))
    path = stage.path(stage.target.inventory.name)
    happened = proxy.before_first(_is("DELETE", path), lambda: take_from_elsewhere(stage))
    with pytest.raises(InventoryLocked):
        spoiled.run(mode=Mode.DELETE)
    assert happened
    assert stage.inventory().holder == ELSEWHERE

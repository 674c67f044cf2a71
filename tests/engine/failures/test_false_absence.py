"""A 404 that does not come from the object's absence: nothing is dropped or called gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from applyprune.errors import InventoryError
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, blind_after_delete, faults
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.webhook import Webhook, missing

LISTED = {"configmap/a", "configmap/b", "configmap/c"}
BODIES = [config_map("a"), config_map("b"), config_map("c")]


def _elsewhere(request: dict[str, Any]) -> dict[str, Any]:
    """Return the 404 about an object of the same name that the validator did not find elsewhere."""
    status = missing(request)
    return {**status, "message": f'configmaps "{request["name"]}" not found in namespace "other"'}


@pytest.mark.parametrize(
    "reply", [pytest.param(missing, marks=pytest.mark.holds("absence-confirmed")), _elsewhere]
)
def test_webhook_answers_a_prune_with_404(
    plane: Plane, api: Api, stage: Stage, reply: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """The object exists: it fails, stays in the inventory, and a later run prunes it."""
    stage.run(*BODIES)
    with Webhook(plane, api, stage.namespace, ("DELETE",), reply) as webhook:
        story = stage.run(*BODIES[:2])
    assert webhook.refused == ["DELETE c"]
    assert (story.exit_code, story.outcomes["configmap/c"]) == (3, Outcome.FAILED)
    assert "it still exists: the server answered 404" in story.problem("configmap/c")
    assert "missing.example.com" in story.problem("configmap/c")
    assert api.exists(stage.path("c"))
    assert stage.listed() == LISTED
    again = stage.run(*BODIES[:2])
    assert (again.exit_code, again.outcomes["configmap/c"]) == (0, Outcome.PRUNED)
    assert not api.exists(stage.path("c"))
    assert stage.listed() == LISTED - {"configmap/c"}


def test_webhook_answers_an_orphaning_with_404(plane: Plane, api: Api, stage: Stage) -> None:
    """The object still has the set's label: it stays in the inventory."""
    stage.run(*BODIES)
    with Webhook(plane, api, stage.namespace, ("UPDATE",), _unless_inventory) as webhook:
        story = stage.orphan("ConfigMap/c")
    assert webhook.refused == ["UPDATE c"]
    assert (story.exit_code, story.outcomes["configmap/c"]) == (3, Outcome.FAILED)
    assert stage.listed() == LISTED
    again = stage.orphan("ConfigMap/c")
    assert (again.exit_code, again.outcomes["configmap/c"]) == (0, Outcome.ORPHANED)
    assert stage.listed() == LISTED - {"configmap/c"}


def test_webhook_answers_a_move_with_404(plane: Plane, api: Api, stage: Stage) -> None:
    """The object still belongs to the source: it stays in its inventory."""
    other = replace(stage, name="other")
    stage.run(*BODIES)
    with Webhook(plane, api, stage.namespace, ("UPDATE",), _unless_inventory) as webhook:
        story = stage.move(other, "ConfigMap/c")
    assert webhook.refused == ["UPDATE c"]
    assert (story.exit_code, story.outcomes["configmap/c"]) == (3, Outcome.FAILED)
    assert "still exists" in story.problem("configmap/c")
    assert stage.listed() == LISTED
    again = stage.move(other, "ConfigMap/c")
    assert (again.exit_code, again.outcomes["configmap/c"]) == (0, Outcome.MOVED)
    assert (stage.listed(), other.listed()) == (LISTED - {"configmap/c"}, {"configmap/c"})


def test_webhook_answers_a_recreation_with_404(plane: Plane, api: Api, stage: Stage) -> None:
    """The object exists: the run does not wait for it to go, and recreates nothing."""
    old, new = ({**config_map("a", value), "immutable": True} for value in ("v", "w"))
    stage.run(old)
    uid = api.get(stage.path("a"))["metadata"]["uid"]
    with Webhook(plane, api, stage.namespace, ("DELETE",)) as webhook:
        story = stage.run(new, recreate=True, check=False)
    assert webhook.refused == ["DELETE a"]
    assert (story.exit_code, story.outcomes["configmap/a"]) == (3, Outcome.FAILED)
    assert "still exists" in story.problem("configmap/a")
    assert api.get(stage.path("a"))["metadata"]["uid"] == uid
    assert stage.listed() == {"configmap/a"}


def _about_the_inventory(plane: Plane, api: Api, stage: Stage, operation: str) -> Webhook:
    """Return a webhook that answers one operation on the inventory with a 404."""
    inventory = stage.target.inventory.name

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        return missing(request) if request["name"] == inventory else None

    return Webhook(plane, api, stage.namespace, (operation,), reply)


@pytest.mark.holds("inventory-removed")
def test_webhook_answers_the_deletion_of_the_inventory_with_404(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """The run fails, the inventory stays, and the next run removes it."""
    stage.run(*BODIES)
    inventory = stage.target.inventory.name
    with (
        _about_the_inventory(plane, api, stage, "DELETE"),
        pytest.raises(InventoryError, match="the inventory of the set web was not deleted"),
    ):
        stage.run(mode=Mode.DELETE)
    assert api.exists(stage.path(inventory))
    assert stage.inventory().holder is None
    assert stage.run(mode=Mode.DELETE).exit_code == 0
    assert not api.exists(stage.path(inventory))


@pytest.mark.holds("deletion-names-uid")
def test_success_that_names_no_uid_confirms_no_deletion(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """An aggregated API may send it; only a GET tells whether an object is gone, and no list."""
    spoiled.run(*BODIES)
    success = {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}
    headers = (("Content-Type", "application/json"),)
    fault = faults.answer(200, json.dumps(success).encode(), headers)
    proxy.rule = blind_after_delete("configmaps", fault)
    story = spoiled.run(*BODIES[:1], max_prune=Stage.most(2))
    outcomes = {name: story.outcomes[name] for name in ("configmap/b", "configmap/c")}
    assert (story.exit_code, outcomes) == (3, dict.fromkeys(outcomes, Outcome.FAILED))
    assert api.exists(spoiled.path("c"))
    assert spoiled.listed() == LISTED


def _unless_inventory(request: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse requests about objects, and allow those about inventories."""
    return None if request["name"].startswith("applyprune-") else missing(request)


def test_webhook_answers_a_write_of_the_inventory_with_404(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """No other run has changed it, so the message does not say so; nothing has been applied."""
    stage.run(*BODIES)
    with (
        _about_the_inventory(plane, api, stage, "UPDATE"),
        pytest.raises(InventoryError, match="the inventory of the set web was not written"),
    ):
        stage.run(*BODIES, config_map("d"))
    assert not api.exists(stage.path("d"))
    assert stage.run(*BODIES, config_map("d")).exit_code == 0

"""An operator makes one object of a set the owner of another one: both go, in this order."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import eventually

REST = tuple(config_map(f"rest-{number}") for number in range(4))
WHOLE, PART = "configmap/a-whole", "configmap/a-part"


def _owned(stage: Stage, api: Api) -> None:
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
    _owned(stage, api)
    story = stage.run(*REST)
    assert story.exit_code == 0, story.events
    assert _outcomes(story) == {WHOLE: Outcome.PRUNED, PART: Outcome.PRUNED}
    eventually(lambda: not api.exists(stage.path("a-part")))


@pytest.mark.holds("owner-not-gone", "after-its-owner")
def test_object_stays_while_its_owner_is_not_deleted(
    spoiled: Stage, proxy: FaultProxy, stage: Stage, api: Api
) -> None:
    """It is neither deleted nor orphaned: the next run, which can, deletes both."""
    _owned(stage, api)

    def deletes_whole(seen: Exchange) -> bool:
        return seen.method == "DELETE" and "/a-whole" in seen.path

    proxy.rule = always(faults.status(403, reason="Forbidden"), where=deletes_whole)
    story = spoiled.run(*REST)
    assert _outcomes(story) == {WHOLE: Outcome.FAILED, PART: Outcome.SKIPPED}, story.events
    assert "configmap/a-whole owns it, and is not gone" in story.problem(PART)
    assert {WHOLE, PART} <= stage.listed()
    assert api.exists(stage.path("a-part"))
    assert _outcomes(stage.run(*REST)) == {WHOLE: Outcome.PRUNED, PART: Outcome.PRUNED}

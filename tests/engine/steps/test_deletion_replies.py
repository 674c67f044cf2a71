"""What the reply to a DELETE says of the object: gone, kept by a finalizer, or unknown."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import SERVICE, config_map, of_kind
from tests.support.stage import Stage

ACCOUNT: dict[str, Any] = of_kind("ServiceAccount", "web")
ROLE: dict[str, Any] = of_kind("Role", "web", rules=[])
NAME = "role.rbac.authorization.k8s.io/web"
KEPT = config_map("kept")


def _path(stage: Stage, body: dict[str, Any]) -> str:
    version, plural = body["apiVersion"], f"{body['kind'].lower()}s"
    root = "/apis" if "/" in version else "/api"
    return f"{root}/{version}/namespaces/{stage.namespace}/{plural}/{body['metadata']['name']}"


@pytest.mark.parametrize("body", [SERVICE, ACCOUNT], ids=lambda body: str(body["kind"]))
def test_object_in_the_reply_that_is_not_marked_is_gone(
    spoiled: Stage, proxy: FaultProxy, api: Api, body: dict[str, Any]
) -> None:
    """The server answers with the deleted object, and nothing reads it once more."""
    spoiled.run(KEPT, body)
    path = _path(spoiled, body)
    assert (story := spoiled.run(KEPT)).exit_code == 0, story.events
    assert list(story.outcomes.values()).count(Outcome.PRUNED) == 1
    (sent,) = (one for one in proxy.exchanges if one.method == "DELETE" and one.path == path)
    after = proxy.exchanges[proxy.exchanges.index(sent) + 1 :]
    assert path not in {one.path for one in after}
    assert not api.exists(path)


@pytest.mark.parametrize("body", [SERVICE, ACCOUNT], ids=lambda body: str(body["kind"]))
def test_marked_object_in_the_reply_is_not_gone(
    stage: Stage, api: Api, body: dict[str, Any]
) -> None:
    """A finalizer keeps it: it stays in the inventory until somebody removes that."""
    held = copy.deepcopy(body)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    stage.run(KEPT, held)
    name = f"{body['kind'].lower()}/{body['metadata']['name']}"
    story = stage.run(KEPT, timeout=0.1)
    assert (story.exit_code, story.outcomes[name]) == (5, Outcome.FAILED)
    assert stage.listed() == {"configmap/kept", name}
    free = {"metadata": {"finalizers": None}}
    api.patch(_path(stage, body), free)
    assert stage.run(KEPT).exit_code == 0
    assert stage.listed() == {"configmap/kept"}


def test_unmarked_object_of_another_group_is_looked_for(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Its server may be an aggregated one, which may answer with what it has not deleted yet."""
    spoiled.run(KEPT, ROLE)
    path = _path(spoiled, ROLE)
    answer = faults.answer(
        200, json.dumps(api.get(path)).encode(), (("Content-Type", "application/json"),)
    )
    proxy.rule = always(answer, where=lambda one: one.method == "DELETE")
    story = spoiled.run(KEPT, timeout=0.1)
    assert (story.exit_code, story.outcomes[NAME]) == (5, Outcome.FAILED)
    assert api.exists(path)
    assert spoiled.listed() == {"configmap/kept", NAME}

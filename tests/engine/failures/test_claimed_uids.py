"""A server of one API group says which UID its objects have: it hides objects of its own only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.fault_proxy import Fault, FaultProxy, always
from tests.support.fault_proxy.exchange import ServerReply, Wire
from tests.support.objects import config_map, crd, custom_resource
from tests.support.stage import Stage

GROUP, KIND = "x.example.com", "Claiming"


def claiming(uid: str) -> Fault:
    """Let the server process it, and give each object in its reply this UID."""

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        if reply.status not in {200, 201}:
            wire.reply(reply)
            return
        document = json.loads(reply.body)
        # A list of a kind that was just defined may have `items: null`.
        for one in (document, *(document.get("items") or ())):
            if "uid" in one.get("metadata", {}):
                one["metadata"]["uid"] = uid
        typed = (("Content-Type", "application/json"),)
        wire.reply(ServerReply(reply.status, typed, json.dumps(document).encode()))

    return fault


@pytest.fixture
def claims(running: Plane, crds: Api, crd_stage: Stage, tmp_path: Path) -> Iterator[FaultProxy]:
    """A proxy that can let the objects of the group claim a UID; the set has one of them."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if not crds.exists(f"{path}/claimings.{GROUP}"):
        crds.create(path, crd(KIND))
    with FaultProxy(running) as proxy:
        crd_stage.kubeconfig = proxy.kubeconfig(tmp_path)
        yield proxy


def claim(proxy: FaultProxy, uid: str) -> None:
    proxy.rule = always(
        claiming(uid),
        where=lambda seen: seen.path.startswith(f"/apis/{GROUP}/v1/") and "watch" not in seen.query,
    )


def test_object_is_pruned_though_another_group_claims_its_uid(
    claims: FaultProxy, crd_stage: Stage, crds: Api
) -> None:
    """It would leave the inventory, stay in the cluster, and be listed nowhere."""
    first = crd_stage.run(config_map("a"), config_map("b"))
    assert first.exit_code == 0, first.events
    claim(claims, crds.get(crd_stage.path("a"))["metadata"]["uid"])
    thing = custom_resource("f", KIND)
    story = crd_stage.run(thing, config_map("b"))
    assert story.outcomes["configmap/a"] is Outcome.PRUNED, story.events
    assert not crds.exists(crd_stage.path("a"))
    assert "configmap/a" not in crd_stage.listed()

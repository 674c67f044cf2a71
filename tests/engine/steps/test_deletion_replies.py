"""What the reply to a DELETE says of the object: gone, kept by a finalizer, or unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, blind_after_delete, faults
from tests.support.fault_proxy.exchange import Wire
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


def test_object_in_the_reply_that_is_not_marked_is_gone(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The server answers with the deleted object; one read shows that this is true."""
    spoiled.run(KEPT, SERVICE, ACCOUNT)
    story = spoiled.run(KEPT, max_prune=Stage.most(2))
    assert story.exit_code == 0, story.events
    assert list(story.outcomes.values()).count(Outcome.PRUNED) == 2
    for path in (_path(spoiled, SERVICE), _path(spoiled, ACCOUNT)):
        (sent,) = (one for one in proxy.exchanges if one.method == "DELETE" and one.path == path)
        after = proxy.exchanges[proxy.exchanges.index(sent) + 1 :]
        assert [(one.method, one.status) for one in after if one.path == path] == [("GET", 404)]
        assert not api.exists(path)


def _twice(body: dict[str, Any], **metadata: Any) -> list[dict[str, Any]]:
    """Return two objects: of several, a list is asked for."""
    names = (body["metadata"]["name"], "other")
    return [{**body, "metadata": {"name": name, **metadata}} for name in names]


@pytest.mark.parametrize(
    "body",
    [pytest.param(SERVICE, marks=pytest.mark.holds("deletion-without-mark")), ACCOUNT],
    ids=lambda body: str(body["kind"]),
)
def test_marked_object_in_the_reply_is_not_gone(
    spoiled: Stage, proxy: FaultProxy, api: Api, body: dict[str, Any]
) -> None:
    """A finalizer keeps it, whatever a list says: it stays listed until somebody removes that."""
    held = _twice(body, finalizers=["example.com/hold"])
    spoiled.run(KEPT, *held)
    names = {f"{body['kind'].lower()}/{one['metadata']['name']}" for one in held}
    proxy.rule = blind_after_delete(f"{body['kind'].lower()}s")
    story = spoiled.run(KEPT, timeout=0.1, max_prune=Stage.most(2))
    failed = dict.fromkeys(names, Outcome.FAILED)
    assert (story.exit_code, {name: story.outcomes[name] for name in names}) == (5, failed)
    assert spoiled.listed() == {"configmap/kept", *names}
    proxy.rule = lambda _seen: None
    free = {"metadata": {"finalizers": None}}
    for one in held:
        api.patch(_path(spoiled, one), free)
    assert spoiled.run(KEPT).exit_code == 0
    assert spoiled.listed() == {"configmap/kept"}


@pytest.mark.holds("deletion-by-another-server")
def test_unmarked_object_of_another_group_is_looked_for(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Its server may be an aggregated one, which may answer with what it has not deleted yet."""
    roles = _twice(ROLE)
    spoiled.run(KEPT, *roles)
    there = {_path(spoiled, one): api.get(_path(spoiled, one)) for one in roles}

    def as_it_is(wire: Wire) -> None:
        body = json.dumps(there[wire.exchange.path]).encode()
        faults.answer(200, body, (("Content-Type", "application/json"),))(wire)

    proxy.rule = blind_after_delete("roles", as_it_is)
    story = spoiled.run(KEPT, timeout=0.1, max_prune=Stage.most(2))
    assert (story.exit_code, story.outcomes[NAME]) == (3, Outcome.FAILED)
    assert "was not deleted" in story.problem(NAME)
    assert all(map(api.exists, there))
    assert {"configmap/kept", NAME} < spoiled.listed()

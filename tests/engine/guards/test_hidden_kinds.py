"""Entries were removed by hand, and their kind cannot be searched: nothing removes the inventory.

The annotation ``contains-group-kinds`` is then the only record of the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import InventoryError
from applyprune.model.events import MismatchFound
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType
from applyprune.model.options import Mode
from applyprune.planning.applyset import GROUP_KINDS
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.forged import remove_entries
from tests.support.objects import SERVICE, config_map, crd, custom_resource
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.stage import Story

A = config_map("a")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
HIDDEN = f"{DEFINITIONS}/hiders.x.example.com"
REMOVALS: dict[str, Callable[[Stage], Story]] = {
    "delete": lambda stage: stage.run(mode=Mode.DELETE),
    "orphan all": lambda stage: stage.orphan(),
}


def _inventory(stage: Stage) -> str:
    return f"/api/v1/namespaces/{stage.namespace}/configmaps/{stage.target.inventory.name}"


def _patch(api: Api, path: str, body: dict[str, Any]) -> None:
    kind = "application/merge-patch+json"
    assert api("PATCH", path, body, content_type=kind)[0] == 200


def _serve(api: Api, *, served: bool) -> None:
    """Let the API server serve the kind, or only store its objects."""
    (version,) = crd("Hider")["spec"]["versions"]
    _patch(api, HIDDEN, {"spec": {"versions": [{**version, "served": served}]}})
    _await_served(api, served=served)


def _await_served(api: Api, *, served: bool) -> None:
    def is_so() -> bool:
        listed = api("GET", "/apis", headers={"Accept": DISCOVERY})[1]
        answers = api("GET", "/apis/x.example.com/v1/hiders")[0] == 200
        return ("'hiders'" in str(listed), answers) == (served, served)

    eventually(is_so, lambda: "the kind as wanted")


@pytest.fixture
def hidden(crd_stage: Stage, crds: Api) -> Iterator[Stage]:
    """A set of which somebody has removed the only entry of a kind."""
    assert crds("POST", DEFINITIONS, crd("Hider"))[0] == 201
    _await_served(crds, served=True)
    crd_stage.run(A, custom_resource("h", "Hider"))
    remove_entries(crd_stage, crds, "h")
    yield crd_stage
    crds("DELETE", HIDDEN)
    eventually(lambda: not crds.exists(HIDDEN), lambda: "the CRD gone")


def _messages(story: Story) -> list[str]:
    return [one.mismatch.message for one in story.events if isinstance(one, MismatchFound)]


def _assert_not_removed(stage: Stage, api: Api, reason: str) -> None:
    """Assert that nothing removes the inventory, for a reason that the error names."""
    for remove in REMOVALS.values():
        with pytest.raises(InventoryError, match="the set web was not removed") as caught:
            remove(stage)
        assert reason in caught.value.reason
        assert "inventory repair web" in caught.value.hint
    assert api.exists(_inventory(stage))


def test_kind_that_is_stored_and_not_served(hidden: Stage, crds: Api) -> None:
    """Its object is neither forgotten by a removal nor by a repair; later it is listed again."""
    _serve(crds, served=False)
    _assert_not_removed(hidden, crds, "Hider.x.example.com: the server does not serve its kind")
    for act in (hidden.check, hidden.repair):
        (message,) = _messages(act())
        assert "the CRD hiders.x.example.com defines it, and no version of it is served" in message
    _serve(crds, served=True)
    _assert_not_removed(hidden, crds, "hider.x.example.com/h")
    assert hidden.repair().outcomes == {"hider.x.example.com/h": Outcome.REPAIRED}
    assert hidden.run(mode=Mode.DELETE).exit_code == 0
    assert not crds.exists(_inventory(hidden))


def test_kind_of_a_deleted_crd(hidden: Stage, crds: Api) -> None:
    """Nothing records that a CRD had defined it; a repair says so and removes it."""
    crds("DELETE", HIDDEN)
    eventually(lambda: not crds.exists(HIDDEN), lambda: "the CRD gone")
    _await_served(crds, served=False)
    _assert_not_removed(hidden, crds, "Hider.x.example.com: the server does not serve its kind")
    assert hidden.check().found == {"kind-not-served": MismatchType.KIND_GONE}
    (message,) = _messages(hidden.repair())
    assert message.endswith("; it will be removed from the annotation")
    assert not hidden.check().found
    assert hidden.run(mode=Mode.DELETE).exit_code == 0
    assert not crds.exists(_inventory(hidden))


def test_runs_and_a_move_keep_the_annotation(hidden: Stage, crds: Api) -> None:
    """Each write of the inventory makes it anew."""
    _serve(crds, served=False)
    assert hidden.run(config_map("a", "w")).outcomes == {"configmap/a": Outcome.UPDATED}
    _assert_not_removed(hidden, crds, "Hider.x.example.com")
    other = Stage(hidden.kubeconfig, hidden.namespace, name="other")
    assert hidden.move(other).outcomes == {"configmap/a": Outcome.MOVED}
    _assert_not_removed(hidden, crds, "Hider.x.example.com")
    crds("DELETE", HIDDEN)


def test_annotation_is_kept_while_objects_of_the_kind_are_found(stage: Stage, api: Api) -> None:
    """A changed object of the set does not let the others be forgotten."""
    stage.run(A, SERVICE)
    remove_entries(stage, api, "web")
    stage.run(config_map("a", "w"))
    _assert_not_removed(stage, api, "service/web")
    assert api("DELETE", f"/api/v1/namespaces/{stage.namespace}/services/web")[0] == 200
    stage.run(config_map("a", "x"))
    annotations = api.get(_inventory(stage))["metadata"]["annotations"]
    assert annotations[GROUP_KINDS] == "ConfigMap"
    assert stage.run(mode=Mode.DELETE).exit_code == 0


def test_kind_that_may_not_be_listed(spoiled: Stage, proxy: FaultProxy, api: Api) -> None:
    """A missing right, and a list that fails, prove nothing."""
    spoiled.run(A, SERVICE)
    remove_entries(spoiled, api, "web")
    for fault in (
        faults.status(403, reason="Forbidden", message="no"),
        faults.status(500, message="conversion webhook failed"),
    ):
        proxy.rule = always(fault, where=lambda seen: seen.path.endswith("/services"))
        _assert_not_removed(spoiled, api, "not searched: services: ")
        spoiled.repair()
        _assert_not_removed(spoiled, api, "not searched: services: ")


def test_kind_of_a_built_in_group(stage: Stage, api: Api) -> None:
    """The API server may have switched it off; only --allow-partial takes it for gone."""
    stage.run(A)
    annotations = {GROUP_KINDS: "ConfigMap,Foo.batch"}
    _patch(api, _inventory(stage), {"metadata": {"annotations": annotations}})
    _assert_not_removed(stage, api, "Foo.batch: the server does not serve its kind")
    (message,) = _messages(stage.repair())
    assert "may have switched it off; --allow-partial removes it" in message
    _assert_not_removed(stage, api, "Foo.batch")
    stage.repair(allow_partial=True)
    assert not stage.check().found
    assert stage.run(mode=Mode.DELETE).exit_code == 0

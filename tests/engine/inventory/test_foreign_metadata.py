"""Other tools write to the inventory's metadata too: that is not another run, and it stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from applyprune.errors import InventoryError, InventoryLocked
from applyprune.model.events import Event, InventoryWritten, Phase
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from applyprune.planning.applyset import GROUP_KINDS
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.stage import Stage

MERGE = "application/merge-patch+json"
HOLD = "example.com/hold"


def _path(stage: Stage) -> str:
    return stage.path(f"applyprune-{stage.name}")


@pytest.fixture
def release(stage: Stage, api: Api) -> Iterator[None]:
    """Remove the finalizer at the end, so that the namespace can go."""
    yield
    api("PATCH", _path(stage), {"metadata": {"finalizers": None}}, content_type=MERGE)


@pytest.mark.holds("foreign-metadata-kept")
@pytest.mark.usefixtures("release")
def test_metadata_of_other_tools_stays_and_stops_no_run(stage: Stage, api: Api) -> None:
    """They are added between two writes of the same run, before a run, and before its end."""
    one, two = (config_map(name, namespace=stage.namespace) for name in ("one", "two"))
    assert stage.run(one, two).exit_code == 0
    account = api.get(f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/default")
    owner = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "name": "default",
        "uid": account["metadata"]["uid"],
    }
    api.patch(_path(stage), {"metadata": {"ownerReferences": [owner], "finalizers": [HOLD]}})

    def between(event: Event) -> None:
        if isinstance(event, InventoryWritten) and event.phase is not Phase.FINAL:
            mark = {str(event.phase): "seen"}
            api.patch(_path(stage), {"metadata": {"labels": mark, "annotations": mark}})

    stage.seen = between
    one["data"] = {"key": "other"}
    assert stage.run(one, max_prune=stage.most(1)).exit_code == 0
    assert stage.listed() == {"configmap/one"}
    metadata = api.get(_path(stage))["metadata"]
    added = {"before-apply": "seen", "before-delete": "seen"}
    assert added.items() <= metadata["labels"].items()
    assert added.items() <= metadata["annotations"].items()
    assert metadata["ownerReferences"] == [owner]
    assert metadata["finalizers"] == [HOLD]


@pytest.mark.holds("inventory-own-data")
def test_change_of_applyprunes_own_data_still_ends_the_run(stage: Stage, api: Api) -> None:
    """An annotation that applyprune writes is its own data, and so is a new key in the data."""
    one = config_map("one", namespace=stage.namespace)
    for patch in (
        {"metadata": {"annotations": {GROUP_KINDS: "Secret"}}},
        {"data": {"note": "mine"}},
        {"metadata": {"labels": {"applyset.kubernetes.io/id": None}}},
    ):

        def between(event: Event, patch: dict[str, Any] = patch) -> None:
            if isinstance(event, InventoryWritten) and event.phase is Phase.BEFORE_APPLY:
                api.patch(_path(stage), patch)

        stage.seen = between
        with pytest.raises((InventoryLocked, InventoryError)):
            stage.run(one)
        stage.seen = lambda _: None
        api("DELETE", _path(stage))
        api("DELETE", stage.path("one"))


@pytest.mark.holds("terminating-inventory")
@pytest.mark.usefixtures("release")
def test_finalizer_of_another_tool_holds_the_deleted_inventory(stage: Stage, api: Api) -> None:
    """The delete says so; nothing is recorded there any more, so no run may apply to it."""
    one = config_map("one", namespace=stage.namespace)
    assert stage.run(one).exit_code == 0

    def between(event: Event) -> None:
        if isinstance(event, InventoryWritten) and event.phase is Phase.BEFORE_DELETE:
            api.patch(_path(stage), {"metadata": {"finalizers": [HOLD]}})

    stage.seen = between
    story = stage.run(mode=Mode.DELETE)
    assert story.exit_code == 0
    assert story.outcomes == {"configmap/one": Outcome.DELETED}
    (warning,) = story.warnings
    assert f"other tools hold it by the finalizers: {HOLD}" in warning
    assert "is deleted but not gone yet" in warning
    stage.seen = lambda _: None
    assert stage.listed() == set()
    with pytest.raises(InventoryError, match="is being deleted") as refused:
        stage.run(one)
    assert HOLD in refused.value.reason
    assert api("GET", stage.path("one"))[0] == 404
    api.patch(_path(stage), {"metadata": {"finalizers": None}})
    assert stage.run(one).exit_code == 0

"""What somebody does between the plan of a run and its requests, and what each request says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from applyprune.errors import InventoryLocked
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Conflicts, Mode
from tests.decisions.world import annotated, changed, created, deleted, recorded
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import config_map, of_kind
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.run_rows import RunRow
from tests.support.stage import Stage


def _is(method: str, path: str) -> Callable[[Exchange], bool]:
    return lambda seen: (seen.method, seen.path) == (method, path)


A, B, NEW = config_map("a"), config_map("b"), config_map("b", "new")
THEIRS, HAND = of_kind("ConfigMap", "b", data={"mine": "1"}), {"data": {"key": "hand"}}
UNTOUCHED = {"data": {"mine": "1", "key": None}, "metadata": {"labels": None}}
FIXED, CHANGED = {**B, "immutable": True}, {**NEW, "immutable": True}
AGAIN = (deleted("configmap/b"), created(THEIRS))
FAILED = {"configmap/b": Outcome.FAILED}
FORCE: dict[str, Any] = {"conflicts": Conflicts.FORCE}
RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}
MOMENTS = {
    "created before the create": RunRow(
        given=[B], meanwhile=[created(THEIRS, "kubectl-create")], exit_code=3, outcomes=FAILED,
        live={"configmap/b": UNTOUCHED},
        says={"configmap/b": "created by somebody else"},
    ),
    "recreated before the apply": RunRow(
        [], [B], given=[NEW], meanwhile=AGAIN, exit_code=3, outcomes=FAILED,
        live={"configmap/b": UNTOUCHED},
    ),
    "changed before a forced apply": RunRow(
        [], [B], given=[NEW], options=FORCE, meanwhile=[changed("configmap/b", HAND)],
        exit_code=3, outcomes=FAILED, live={"configmap/b": HAND},
    ),
    "recreated before the delete": RunRow(
        [], [A, B], given=[A], meanwhile=AGAIN,
        outcomes={"configmap/b": Outcome.REMOVED_FROM_INVENTORY}, live={"configmap/b": UNTOUCHED},
    ),
    "marked before the delete": RunRow(
        [], [A, B], given=[A],
        meanwhile=[annotated("configmap/b", {"applyprune.dev/prune": "disabled"})],
        outcomes={"configmap/b": Outcome.ORPHANED}, live={"configmap/b": B},
    ),
    "adopted by another tool before the apply": RunRow(
        [config_map("b", annotations=RELEASE)], given=[B], options={"adopt": Adopt.ALL},
        meanwhile=[annotated("configmap/b", {"meta.helm.sh/release-name": "other"})],
        outcomes={"configmap/b": Outcome.UPDATED},
        live={"configmap/b": {"metadata": {"annotations": {
            "meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": None,
        }}}},
    ),
}  # fmt: skip


@pytest.mark.holds("create-only", "found-from-controller", row="created before the create")
@pytest.mark.holds("apply-uid", row="recreated before the apply")
@pytest.mark.holds("forced-apply-version", row="changed before a forced apply")
@pytest.mark.holds("mark-of-another-owner", row="adopted by another tool before the apply")
@pytest.mark.holds("delete-version", row="marked before the delete")
@pytest.mark.parametrize("row", MOMENTS.values(), ids=MOMENTS.keys())
def test_change_of_the_last_moment_stays(stage: Stage, api: Api, row: RunRow) -> None:
    """Each request demands the object, or the state of it, that the plan has seen."""
    row.holds(api, stage)


# A recreation deletes an object: only one that is the set's alone.

RECREATIONS = {
    "of what another tool runs": RunRow(
        [], [A, FIXED], [changed("configmap/b", {"metadata": {"annotations": RELEASE}}, "helm")],
        [A, CHANGED], {"recreate": True}, exit_code=3, outcomes=FAILED,
        live={"configmap/b": FIXED}, says={"configmap/b": "it now carries Helm's mark"},
    ),
    "of what an edited inventory calls owned": RunRow(
        [FIXED], [A, FIXED], [recorded("configmap/b", ownership=Ownership.OWNED)], [A, CHANGED],
        {"recreate": True, **FORCE}, exit_code=3, outcomes=FAILED, live={"configmap/b": FIXED},
        says={"configmap/b": "it was adopted"},
    ),
}  # fmt: skip


@pytest.mark.holds("other-owner-recreate", row="of what another tool runs")
@pytest.mark.holds("witness-recreate", row="of what an edited inventory calls owned")
@pytest.mark.parametrize("row", RECREATIONS.values(), ids=RECREATIONS.keys())
def test_object_of_others_is_not_recreated(stage: Stage, api: Api, row: RunRow) -> None:
    row.holds(api, stage)


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

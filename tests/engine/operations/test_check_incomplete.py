"""Repair an inventory that is damaged, newer, or lists objects that never existed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InventoryError, InventoryTooNew
from applyprune.model.events import MismatchFound
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType, Ownership, Repair
from applyprune.model.options import Mode, PruneAlso
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage, Story

ACCOUNT: dict[str, Any] = of_kind("ServiceAccount", "account")


def _damage(stage: Stage, api: Api) -> dict[str, Any]:
    """Spoil what the inventory lists, and return its ConfigMap as it is then."""
    path = stage.path(stage.target.inventory.name)
    body: dict[str, Any] = api.get(path)
    body["data"]["entries"] = "broken"
    status, reply = api("PUT", path, body)
    assert status == 200, reply
    stored: dict[str, Any] = reply
    return stored


def _unseen(story: Story) -> list[str]:
    """Return what a check reports as unreadable."""
    findings = [one.mismatch for one in story.of(MismatchFound)]
    return [one.message for one in findings if one.type is MismatchType.UNKNOWN and one.ref is None]


def test_repair_does_not_lose_kinds_it_cannot_list(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """A damaged inventory is not replaced by an incomplete one, unless requested."""
    stage.run(config_map("a"), ACCOUNT)
    damaged = _damage(stage, api)
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="no"),
        where=lambda seen: seen.method == "GET" and seen.path.endswith("/serviceaccounts"),
    )
    (unseen,) = _unseen(spoiled.check())
    assert unseen.startswith("could not be read: serviceaccounts")
    with pytest.raises(InventoryError, match="was not rebuilt") as caught:
        spoiled.repair()
    assert "serviceaccounts" in caught.value.reason
    assert "--allow-partial" in caught.value.hint
    assert api.get(stage.path(stage.target.inventory.name)) == damaged
    assert spoiled.repair(allow_partial=True).exit_code == 0
    assert stage.listed() == {"configmap/a"}
    # What was not seen then is found by its marks when it can be.
    assert stage.check().found == {"serviceaccount/account": MismatchType.UNLISTED}


def test_repair_reports_many_unlistable_kinds_in_one_line(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """Else somebody with few rights reads sixty lines that all say the same."""
    stage.run(config_map("a"))
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="no"),
        where=lambda seen: seen.path.count("/") > 2 and "/configmaps" not in seen.path,
    )
    told = _unseen(spoiled.check())
    assert len(told) == 2, told
    assert told[1].endswith("the list of kinds is not proved: no")
    assert re.search(r"apiservices\S+, \S+, \S+ and \d\d more kinds: no$", told[0]), told


def test_repair_of_a_complete_inventory_works_with_partial_sight(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, kubectl: Kubectl
) -> None:
    """Only a rebuild from labels needs to see all kinds."""
    stage.run(config_map("a"), config_map("b"), ACCOUNT)
    kubectl("label", "configmap/b", "-n", stage.namespace, f"{PART_OF}-")
    proxy.rule = always(
        faults.status(403, reason="Forbidden"),
        where=lambda seen: seen.method == "GET" and seen.path.endswith("/serviceaccounts"),
    )
    assert spoiled.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert stage.listed() == {"configmap/a", "configmap/b", "serviceaccount/account"}
    assert not stage.check().found


def test_newer_format_is_not_overwritten(stage: Stage, api: Api) -> None:
    """Neither by a repair, partial or not, nor by any run; it is not taken for damage."""
    stage.run(config_map("a"), config_map("b"))
    path = stage.path(stage.target.inventory.name)
    body = api.get(path)
    header = json.loads(body["data"]["header"])
    body["data"]["header"] = json.dumps({**header, "schema": 3})
    status, newer = api("PUT", path, body)
    assert status == 200, newer
    for ownership in Ownership:
        for partly in (False, True):
            with pytest.raises(InventoryTooNew, match="has format 3"):
                stage.repair(ownership=ownership, allow_partial=partly)
    with pytest.raises(InventoryTooNew):
        stage.check()
    for mode, bodies in (
        (Mode.APPLY, (config_map("a"),)),
        (Mode.PRUNE, (config_map("a"),)),
        (Mode.DELETE, ()),
        (Mode.ORPHAN, ()),
    ):
        with pytest.raises(InventoryTooNew):
            stage.run(*bodies, mode=mode)
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    other.run(config_map("c"))
    for source, to in ((stage, other), (other, stage)):
        with pytest.raises(InventoryTooNew):
            source.move(to)
    assert api.get(path) == newer
    assert api.exists(stage.path("b"))


def test_inventory_of_a_development_version_is_refused_until_rebuilt(
    stage: Stage, api: Api
) -> None:
    """Its keys are the old ones; the command that the error names makes a new one of the labels."""
    bodies = config_map("a"), config_map("b")
    stage.run(*bodies)
    path = stage.path(stage.target.inventory.name)
    body = api.get(path)
    header = json.loads(body["data"]["header"]) | {"schema": 1}
    entries = body["data"]["entries"].replace('"ownership":"owned"', '"made":"created"')
    body["data"] = {"header": json.dumps(header), "entries": entries}
    status, old = api("PUT", path, body)
    assert status == 200, old
    for mode, given in ((Mode.APPLY, bodies), (Mode.DELETE, ())):
        with pytest.raises(InventoryError, match="a development version") as caught:
            stage.run(*given, mode=mode)
        assert f"applyprune inventory repair {stage.target.arguments}" in caught.value.hint
    assert api.get(path) == old
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    assert stage.listed() == {"configmap/a", "configmap/b"}
    story = stage.run(config_map("a"))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.PRUNED)


def _unfinished_adoption(
    stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, tmp_path: Path
) -> Any:
    """Kill a run before it adopts the ConfigMap ``b``; return the ConfigMap as it was."""
    kubectl("create", "configmap", "b", "-n", stage.namespace, "--from-literal=mine=1")
    before = api.get(stage.path("b"))
    source = write_input(tmp_path / "b.json", [config_map("b")])
    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", source, "--no-check"]

    def applies(seen: Exchange) -> bool:
        return seen.method == "PATCH" and seen.path.endswith("/configmaps/b")

    kill_at_first(proxy, applies, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    return before


def test_unfinished_adoption_is_removed_from_the_inventory(
    stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, tmp_path: Path
) -> None:
    """The run was killed between the union write and the apply; the object is unchanged."""
    before = _unfinished_adoption(stage, proxy, api, kubectl, tmp_path)
    assert stage.listed() == {"configmap/b"}
    checked = stage.check()
    (finding,) = [one.mismatch for one in checked.of(MismatchFound)]
    assert (finding.type, finding.repair) == (MismatchType.UNLABELLED, Repair.UNLIST)
    assert "its adoption did not happen" in finding.message
    assert stage.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert stage.listed() == set()
    assert api.get(stage.path("b")) == before
    assert not stage.check().found


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_unfinished_adoption_deletes_nothing(
    stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, tmp_path: Path, mode: Mode
) -> None:
    """Not even where adopted objects are to be deleted: the set never had it."""
    before = _unfinished_adoption(stage, proxy, api, kubectl, tmp_path)
    bodies = (config_map("a"),) if mode is Mode.APPLY else ()
    story = stage.run(*bodies, mode=mode, also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    assert api.get(stage.path("b")) == before

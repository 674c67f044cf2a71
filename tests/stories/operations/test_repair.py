"""An inventory that does not fit the cluster, or cannot be read: what is found, and mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InventoryError, InventoryTooNew
from applyprune.model.events import MismatchFound
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType, Ownership, Repair
from applyprune.model.options import DryRun, Mode, PruneAlso
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage, Story


def _drop(stage: Stage, name: str) -> None:
    """Take one object off the list, as a bug or an old backup would."""
    listed = stage.inventory().entries
    stage.rewrite(entries={ref: one for ref, one in listed.items() if ref.name != name})


def _create_again(api: Api, path: str, body: dict[str, Any]) -> None:
    """Restore an object as by hand: it gets another UID, and the server's record of that."""
    metadata = body["metadata"]
    assert api("DELETE", f"{path}/{metadata['name']}")[0] == 200
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        metadata.pop(key, None)
    api.create(path, body)


def test_labelled_but_unlisted_object_is_found(stage: Stage, api: Api) -> None:
    """Every run reports them, a repair lists them; objects with only the label do not count."""
    stage.run(config_map("a"), config_map("b"))
    before = stage.inventory()
    assert stage.repair().exit_code == 0
    assert stage.inventory() == before, "a healthy set needs no repair"
    api.create(stage.path(), config_map("copied", labels={PART_OF: stage.target.id}))
    _drop(stage, "b")
    (warning,) = stage.run(config_map("a")).warnings
    assert "configmap/b" in warning
    assert stage.check().found == {"configmap/b": MismatchType.UNLISTED}
    assert stage.listed() == {"configmap/a"}
    story = stage.repair()
    assert story.outcomes == {"configmap/b": Outcome.REPAIRED}
    assert {entry.ref.name: entry.ownership for entry in stage.inventory().entries.values()} == {
        "a": Ownership.OWNED,
        "b": Ownership.ADOPTED,
    }
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


def test_listed_but_unlabelled_object_is_found(stage: Stage, api: Api) -> None:
    """The label comes back, and our Apply entry, for the label was all that it owned."""
    body = of_kind("ConfigMap", "b")
    stage.run(config_map("a"), body)
    api.patch(stage.path("b"), {"metadata": {"labels": {PART_OF: None}}})
    assert stage.check().found == {"configmap/b": MismatchType.UNLABELLED}
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.FAILED
    assert stage.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.holds("restored-stays-listed")
def test_restored_object_stays_listed(stage: Stage, api: Api) -> None:
    """One of several, with the set's label: it is not ours by its UID, nor nobody's."""
    stage.run(*map(config_map, "abc"))
    _create_again(api, stage.path(), api.get(stage.path("b")))
    api.patch(stage.path("b"), {"metadata": {"managedFields": [{}]}})
    refused = stage.run(config_map("a"), config_map("c"))
    assert (refused.exit_code, refused.outcomes["configmap/b"]) == (3, Outcome.FAILED)
    assert "was recreated with this set's label" in refused.problem("configmap/b")
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}
    assert stage.check().found == {"configmap/b": MismatchType.OTHER_UID}
    assert stage.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert not stage.check().found
    story = stage.run(config_map("a"), config_map("c"))
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED


def test_missing_inventory_is_rebuilt(stage: Stage, api: Api) -> None:
    """It is rebuilt from the labels; the user says how the objects are recorded."""
    stage.run(config_map("a"), config_map("b"))
    api("DELETE", stage.path("applyprune-web"))
    assert stage.check().found == {
        str(MismatchType.LOST): MismatchType.LOST,
        "configmap/a": MismatchType.UNLISTED,
        "configmap/b": MismatchType.UNLISTED,
    }
    assert not stage.inventory().exists
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.parametrize("how", ["no header", "half"])
def test_unreadable_inventory_is_an_error_until_it_is_rebuilt(
    stage: Stage, api: Api, how: str
) -> None:
    """Nothing is applied or pruned, the inventory is untouched; the marks say what it listed."""
    stage.run(config_map("a"), config_map("b"))
    body = api.get(stage.path("applyprune-web"))
    if how == "no header":
        del body["data"]["header"]
    else:
        body["data"]["entries"] = body["data"]["entries"][:99]
    status, before = api("PUT", stage.path("applyprune-web"), body)
    assert status == 200
    for mode, given in ((Mode.APPLY, [config_map("c")]), (Mode.DELETE, [])):
        with pytest.raises(InventoryError, match="cannot be read") as caught:
            stage.run(*given, mode=mode)
        assert "applyprune inventory repair web" in caught.value.hint
    assert api.get(stage.path("applyprune-web")) == before
    assert not api.exists(stage.path("c"))
    assert stage.check().found == {
        str(MismatchType.DAMAGED): MismatchType.DAMAGED,
        "configmap/a": MismatchType.UNLISTED,
        "configmap/b": MismatchType.UNLISTED,
    }
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_copied_inventory_is_repaired_where_its_objects_match(stage: Stage, api: Api) -> None:
    """The ConfigMap was restored, the objects were never gone: one repair, then prunes work."""
    stage.run(config_map("a"), config_map("b"))
    _create_again(api, stage.path(), api.get(stage.path("applyprune-web")))
    refused = stage.run(config_map("a"))
    assert (refused.exit_code, refused.outcomes["configmap/b"]) == (6, Outcome.NOT_PRUNED)
    assert stage.check().found == {str(MismatchType.COPIED): MismatchType.COPIED}
    assert stage.repair().exit_code == 0
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.parametrize(
    "restored",
    [pytest.param("by hand", marks=pytest.mark.holds("first-write-copied")), "with an old record"],
)
def test_copy_of_the_first_write_is_recognized(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path, restored: str
) -> None:
    """The first run was killed, so no later write has recorded the UID of the ConfigMap."""
    source = write_input(tmp_path / "two.json", [config_map("a"), config_map("b")])
    command = ("apply", stage.name, "-n", stage.namespace, "-f", source, "--no-check")
    kill_at_first(proxy, _is_patch, Moment.AFTER, command, proxy.kubeconfig(tmp_path))
    assert stage.inventory().generation == 1
    assert not stage.inventory().copied
    body = api.get(stage.path("applyprune-web"))
    record = body["metadata"]["managedFields"]
    _create_again(api, stage.path(), body)
    if restored == "with an old record":
        # A backup tool puts the record back after its create.
        old = [{**entry, "time": "2026-01-01T00:00:00Z"} for entry in record]
        patch = [{"op": "replace", "path": "/metadata/managedFields", "value": old}]
        api.patch(stage.path("applyprune-web"), patch)
        assert api.get(stage.path("applyprune-web"))["metadata"]["managedFields"] == old
    assert stage.inventory().copied
    story = stage.run(config_map("c"), max_prune=stage.most(2))
    assert Outcome.PRUNED not in story.outcomes.values()
    assert story.exit_code == 6


def _is_patch(exchange: Exchange) -> bool:
    return exchange.method == "PATCH"


def test_repair_dry_run_writes_nothing(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """It reports what it would do about each."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    _drop(stage, "b")
    api.patch(stage.path("c"), {"metadata": {"labels": {PART_OF: None}}})
    audit.restart()
    story = stage.repair(dry_run=DryRun.SERVER)
    assert story.found == {
        "configmap/b": MismatchType.UNLISTED,
        "configmap/c": MismatchType.UNLABELLED,
    }
    verbs = {event["verb"] for event in audit.ours()}
    assert verbs == {"get", "list"}


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


def test_repair_of_a_complete_inventory_works_with_partial_sight(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Only a rebuild from labels needs to see all kinds."""
    stage.run(config_map("a"), config_map("b"), ACCOUNT)
    api.patch(stage.path("b"), {"metadata": {"labels": {PART_OF: None}}})
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
    for partly in (False, True):
        with pytest.raises(InventoryTooNew, match="has format 3"):
            stage.repair(allow_partial=partly)
    with pytest.raises(InventoryTooNew):
        stage.check()
    for mode, bodies in (
        (Mode.APPLY, (config_map("a"),)),
        (Mode.DELETE, ()),
        (Mode.ORPHAN, ()),
    ):
        with pytest.raises(InventoryTooNew):
            stage.run(*bodies, mode=mode)
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


def _unfinished_adoption(stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path) -> Any:
    """Kill a run before it adopts the ConfigMap ``b``; return the ConfigMap as it was."""
    before = api.create(stage.path(), of_kind("ConfigMap", "b", data={"mine": "1"}))
    source = write_input(tmp_path / "b.json", [config_map("b")])
    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", source, "--no-check"]

    def applies(seen: Exchange) -> bool:
        return seen.method == "PATCH" and seen.path.endswith("/configmaps/b")

    kill_at_first(proxy, applies, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    return before


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_unfinished_adoption_deletes_nothing(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path, mode: Mode
) -> None:
    """Killed between the union write and the apply: a check says so, and the object is unchanged.

    Not even where adopted objects are to be deleted does it go: the set never had it.
    """
    before = _unfinished_adoption(stage, proxy, api, tmp_path)
    (finding,) = [one.mismatch for one in stage.check().of(MismatchFound)]
    assert (finding.type, finding.repair) == (MismatchType.UNLABELLED, Repair.UNLIST)
    assert "its adoption did not happen" in finding.message
    bodies = (config_map("a"),) if mode is Mode.APPLY else ()
    story = stage.run(*bodies, mode=mode, also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    assert api.get(stage.path("b")) == before

"""An inventory that does not fit the cluster: what a check finds, and what a repair mends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from applyprune.errors import InventoryError, InventoryLocked, UsageError
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.inventory import LockHolder, MismatchType, Ownership
from applyprune.model.options import DryRun
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, crd, custom_resource
from tests.support.plane import Kubectl
from tests.support.stage import Stage

JSON_PATCH = "application/json-patch+json"


def _drop(stage: Stage, name: str) -> None:
    """Take one object off the list, as a bug or an old backup would."""
    listed = stage.inventory().entries
    stage.rewrite(entries={ref: one for ref, one in listed.items() if ref.name != name})


def test_check_finds_nothing_in_a_healthy_set(stage: Stage) -> None:
    """Right after an apply, and if the set does not exist at all."""
    with pytest.raises(UsageError, match="there is no set web in namespace"):
        stage.check()
    stage.run(config_map("a"), config_map("b"))
    assert not stage.check().found
    before = stage.inventory()
    assert stage.repair().exit_code == 0
    assert stage.inventory() == before


def test_labelled_but_unlisted_object_is_found(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Every run reports them, a repair lists them; objects with only the label do not count."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("create", "configmap", "copied", "-n", stage.namespace)
    kubectl("label", "configmap/copied", "-n", stage.namespace, f"{PART_OF}={stage.target.id}")
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


@pytest.mark.parametrize("bare", [False, True])
def test_listed_but_unlabelled_object_is_found(stage: Stage, kubectl: Kubectl, bare: bool) -> None:
    """The label comes back, and our Apply entry where the label was all that it owned."""
    body = config_map("b")
    if bare:
        del body["data"]
    stage.run(config_map("a"), body)
    kubectl("label", "configmap/b", "-n", stage.namespace, f"{PART_OF}-")
    assert stage.check().found == {"configmap/b": MismatchType.UNLABELLED}
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.FAILED
    assert stage.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.holds("restored-stays-listed", row="adopted")
@pytest.mark.parametrize("ownership", Ownership)
def test_restored_object_stays_listed(
    stage: Stage, api: Api, kubectl: Kubectl, ownership: Ownership
) -> None:
    """One of several, with the set's label: it is not ours by its UID, nor nobody's."""
    stage.run(*map(config_map, "abc"))
    restored = api.get(stage.path("b"))
    kubectl("delete", "configmap/b", "-n", stage.namespace)
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        del restored["metadata"][key]
    kubectl("create", "-n", stage.namespace, "-f", "-", stdin=json.dumps(restored))
    api.patch(stage.path("b"), {"metadata": {"managedFields": [{}]}})
    refused = stage.run(config_map("a"), config_map("c"))
    assert (refused.exit_code, refused.outcomes["configmap/b"]) == (3, Outcome.FAILED)
    assert "was recreated with this set's label" in refused.problem("configmap/b")
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}
    assert stage.check().found == {"configmap/b": MismatchType.OTHER_UID}
    assert stage.repair(ownership).outcomes == {"configmap/b": Outcome.REPAIRED}
    assert not stage.check().found
    story = stage.run(config_map("a"), config_map("c"))
    owned = ownership is Ownership.OWNED
    assert story.outcomes["configmap/b"] is (Outcome.PRUNED if owned else Outcome.ORPHANED)


def test_entries_of_a_deleted_kind_are_found(
    running: Plane, crd_stage: Stage, kubectl: Kubectl
) -> None:
    """The CRD is gone, and all its objects: their entries are removed."""
    owner = Stage(crd_stage.kubeconfig, crd_stage.namespace, name="owner")
    owner.run(crd("Gone"))
    crd_stage.run(custom_resource("f", "Gone"), config_map("a"))
    named = "customresourcedefinition/gones.x.example.com"
    kubectl("delete", named, "--wait", "--timeout=300s", plane=running)
    assert crd_stage.check().found == {"gone.x.example.com/f": MismatchType.KIND_GONE}
    assert crd_stage.repair().exit_code == 0
    assert crd_stage.listed() == {"configmap/a"}


def test_object_with_two_owners_is_found(stage: Stage, api: Api) -> None:
    """The label decides: the set whose label is gone takes it off its list, the other keeps it."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(config_map("a"), config_map("shared"))
    other.run(config_map("b"))
    both = {**other.inventory().entries, **stage.inventory().entries}
    del both[next(ref for ref in both if ref.name == "a")]
    other.rewrite(entries=both)
    assert other.check().found == {"configmap/shared": MismatchType.TWO_OWNERS}
    assert not stage.check().found
    assert other.repair().outcomes == {"configmap/shared": Outcome.REPAIRED}
    assert other.listed() == {"configmap/b"}
    assert api.exists(stage.path("shared"))


def test_missing_inventory_is_rebuilt(stage: Stage, kubectl: Kubectl) -> None:
    """It is rebuilt from the labels; the user says how the objects are recorded."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    assert stage.check().found == {
        str(MismatchType.LOST): MismatchType.LOST,
        "configmap/a": MismatchType.UNLISTED,
        "configmap/b": MismatchType.UNLISTED,
    }
    assert not stage.inventory().exists
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.parametrize("how", ["garbage", "no header", "half"])
def test_unreadable_inventory_is_rebuilt(stage: Stage, api: Api, how: str) -> None:
    """What it listed comes back from the marks."""
    stage.run(config_map("a"), config_map("b"))
    body = api.get(stage.path("applyprune-web"))
    if how == "no header":
        del body["data"]["header"]
    else:
        body["data"]["entries"] = "?" if how == "garbage" else body["data"]["entries"][:99]
    assert api("PUT", stage.path("applyprune-web"), body)[0] == 200
    with pytest.raises(InventoryError, match="cannot be read") as caught:
        stage.run(config_map("a"))
    assert "applyprune inventory repair web" in caught.value.hint
    assert stage.check().found == {
        str(MismatchType.DAMAGED): MismatchType.DAMAGED,
        "configmap/a": MismatchType.UNLISTED,
        "configmap/b": MismatchType.UNLISTED,
    }
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_copied_inventory_is_repaired_where_its_objects_match(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """The ConfigMap was restored, the objects were never gone: one repair, then prunes work."""
    stage.run(config_map("a"), config_map("b"))
    body = api.get(stage.path("applyprune-web"))
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        del body["metadata"][key]
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    refused = stage.run(config_map("a"))
    assert (refused.exit_code, refused.outcomes["configmap/b"]) == (6, Outcome.NOT_PRUNED)
    assert stage.check().found == {str(MismatchType.COPIED): MismatchType.COPIED}
    assert stage.repair().exit_code == 0
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.parametrize(
    "restored",
    [
        pytest.param("by hand", marks=pytest.mark.holds("first-write-copied")),
        "with its record",
        "with an old record",
    ],
)
def test_copy_of_the_first_write_is_recognized(
    stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, tmp_path: Path, restored: str
) -> None:
    """The first run was killed, so no later write has recorded the UID of the ConfigMap."""
    source = write_input(tmp_path / "two.json", [config_map("a"), config_map("b")])
    command = ("apply", stage.name, "-n", stage.namespace, "-f", source, "--no-check")
    kill_at_first(proxy, _is_patch, Moment.AFTER, command, proxy.kubeconfig(tmp_path))
    assert stage.inventory().generation == 1
    assert not stage.inventory().copied
    body = api.get(stage.path("applyprune-web"))
    record = body["metadata"]["managedFields"]
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        del body["metadata"][key]
    if restored == "by hand":
        del body["metadata"]["managedFields"]
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    if restored == "with an old record":
        # A backup tool puts the record back after its create.
        old = [{**entry, "time": "2026-01-01T00:00:00Z"} for entry in record]
        patch = [{"op": "replace", "path": "/metadata/managedFields", "value": old}]
        api("PATCH", stage.path("applyprune-web"), patch, content_type=JSON_PATCH)
        assert api.get(stage.path("applyprune-web"))["metadata"]["managedFields"] == old
    assert stage.inventory().copied
    story = stage.run(config_map("c"), max_prune=stage.most(2))
    assert Outcome.PRUNED not in story.outcomes.values()
    assert story.exit_code == 6


def _is_patch(exchange: Exchange) -> bool:
    return exchange.method == "PATCH"


def test_repair_dry_run_writes_nothing(stage: Stage, audit: AuditTrail, kubectl: Kubectl) -> None:
    """It reports what it would do about each."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    _drop(stage, "b")
    kubectl("label", "configmap/c", "-n", stage.namespace, f"{PART_OF}-")
    audit.restart()
    story = stage.repair(dry_run=DryRun.SERVER)
    assert story.found == {
        "configmap/b": MismatchType.UNLISTED,
        "configmap/c": MismatchType.UNLABELLED,
    }
    verbs = {event["verb"] for event in audit.ours()}
    assert verbs == {"get", "list"}


def test_repair_waits_for_the_run_with_the_lock(stage: Stage) -> None:
    """And touches nothing while it lives."""
    stage.run(config_map("a"), config_map("b"))
    _drop(stage, "b")
    stage.rewrite(holder=LockHolder("r", "ci@elsewhere", lease=30.0))
    with pytest.raises(InventoryLocked, match="ci@elsewhere"):
        stage.repair(lock_timeout=1.0)
    assert stage.listed() == {"configmap/a"}

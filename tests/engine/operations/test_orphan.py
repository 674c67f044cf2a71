"""Orphaned objects: they stay unchanged, but nothing on them belongs to the set any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InventoryLocked, UsageError
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, DryRun
from applyprune.planning.applyset import PART_OF
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.kill import Moment, kill_at, kill_at_patch
from tests.support.live import config_maps
from tests.support.objects import SERVICE, config_map
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _managers(body: dict[str, Any]) -> set[str]:
    return {entry["manager"] for entry in body["metadata"].get("managedFields") or () if entry}


def _is_free(stage: Stage, body: dict[str, Any]) -> bool:
    """Return whether neither label nor field manager of the set is on an object."""
    labels = body["metadata"].get("labels") or {}
    return PART_OF not in labels and stage.target.manager not in _managers(body)


def test_orphan_releases_one_object(stage: Stage, api: Api) -> None:
    """It keeps its data; the set removes its entry and keeps the others."""
    stage.run(config_map("a"), config_map("b"), SERVICE)
    before = api.get(stage.path("b"))
    story = stage.orphan("configmap/b")
    assert (story.exit_code, story.outcomes) == (0, {"configmap/b": Outcome.ORPHANED})
    left = api.get(stage.path("b"))
    assert (left["metadata"]["uid"], left["data"]) == (before["metadata"]["uid"], before["data"])
    assert _is_free(stage, left)
    assert stage.listed() == {"configmap/a", "service/web"}
    assert not stage.check().found
    assert stage.run(config_map("a"), SERVICE).outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "service/web": Outcome.UNCHANGED,
    }
    assert api.get(stage.path("b")) == left


def test_orphaned_object_is_adopted_from_nobody(stage: Stage) -> None:
    """The field manager that keeps the server from inventing one is not anybody's."""
    stage.run(config_map("a"), config_map("b"))
    stage.orphan("configmap/b")
    story = stage.run(config_map("a"), config_map("b"), dry_run=DryRun.SERVER)
    (step,) = (one for one in story.plan.applies if one.desired.ref.name == "b")
    assert (step.fate, step.taken_from, story.plan.consequences) == (Fate.ADOPT, (), ())


def test_orphan_releases_several_objects(stage: Stage, api: Api) -> None:
    """Of whatever kind, by group and namespace too."""
    stage.run(config_map("a"), config_map("b"), SERVICE)
    story = stage.orphan(f"{stage.namespace}/configmap/b", "Service/web")
    assert story.outcomes == dict.fromkeys(("configmap/b", "service/web"), Outcome.ORPHANED)
    assert _is_free(stage, api.get(stage.path("b")))
    assert _is_free(stage, api.get(stage.path("web", "services")))
    assert stage.listed() == {"configmap/a"}


def test_orphan_of_everything_removes_the_set(stage: Stage, api: Api) -> None:
    """The inventory goes, too; the same manifests are a new set, which adopts them."""
    bodies = (config_map("a"), config_map("b"), SERVICE)
    stage.run(*bodies)
    story = stage.orphan()
    assert set(story.outcomes.values()) == {Outcome.ORPHANED}
    assert len(story.outcomes) == 3
    assert not api.exists(stage.path(stage.target.inventory.name))
    assert _is_free(stage, api.get(stage.path("a")))
    stage.run(*bodies)
    story = stage.run(SERVICE)
    assert story.outcomes["configmap/a"] is Outcome.ORPHANED
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    assert stage.run(SERVICE).outcomes == {"service/web": Outcome.UNCHANGED}


def test_orphan_of_unlisted_names_does_nothing(stage: Stage, api: Api) -> None:
    """A typing error must not pass for done, not even beside a name that is right."""
    stage.run(config_map("a"), config_map("b"))
    before = _states(api, stage)
    with pytest.raises(UsageError, match="does not list configmap/x, service/b"):
        stage.orphan("configmap/a", "configmap/x", "service/b")
    assert _states(api, stage) == before


def _states(api: Api, stage: Stage) -> dict[str, tuple[str, str]]:
    """Return UID and resourceVersion of every ConfigMap, inventories included."""
    metadata = [item["metadata"] for item in config_maps(api, stage.namespace).values()]
    return {one["name"]: (one["uid"], one["resourceVersion"]) for one in metadata}


@pytest.mark.parametrize("where", [DryRun.SERVER, DryRun.CLIENT])
@pytest.mark.parametrize("names", [(), ("configmap/a",)])
def test_orphan_dry_run_changes_nothing(
    stage: Stage, api: Api, audit: AuditTrail, where: DryRun, names: tuple[str, ...]
) -> None:
    """It reports what the call itself does."""
    stage.run(config_map("a"), config_map("b"))
    before = _states(api, stage)
    audit.restart()
    story = stage.orphan(*names, dry_run=where)
    verbs = {one["verb"] for one in audit.ours()}
    assert verbs <= {"get", "list"}
    assert _states(api, stage) == before
    assert story.outcomes == stage.orphan(*names).outcomes


def test_orphan_leaves_the_fields_of_others(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Labels, data and managers of others stay; our fields have no owner from then on."""
    stage.run(config_map("a"), config_map("b", labels={"team": "x"}))
    api.patch(
        stage.path("b"),
        {"data": {"theirs": "1"}, "metadata": {"labels": {"their": "label"}}},
        by=ALICE,
    )
    before = api.get(stage.path("b"))
    stage.orphan("configmap/b")
    left = api.get(stage.path("b"))
    assert left["data"] == {"key": "v", "theirs": "1"}
    assert left["metadata"]["labels"] == {"team": "x", "their": "label"}
    assert left["metadata"]["managedFields"] == [
        entry for entry in before["metadata"]["managedFields"] if entry["manager"] == ALICE
    ]
    # Our key has no owner any more: another manager takes it without a conflict.
    taken = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"key":"new"}}'
    kubectl("apply", "--server-side", "-n", stage.namespace, "-f", "-", stdin=taken)
    assert api.get(stage.path("b"))["data"] == {"key": "new", "theirs": "1"}


def test_orphan_leaves_an_object_of_another_set_alone(stage: Stage, api: Api) -> None:
    """Its inventory lists the object."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(config_map("a"), config_map("b"))
    other.run(config_map("b"), adopt=Adopt.ALL)
    before = api.get(stage.path("b"))
    story = stage.orphan("configmap/b")
    assert (story.exit_code, story.outcomes) == (0, {"configmap/b": Outcome.REMOVED_FROM_INVENTORY})
    assert api.get(stage.path("b")) == before
    assert stage.listed() == {"configmap/a"}


def test_orphan_removes_the_entry_of_a_missing_object(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """And nothing is made in its place."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("delete", "configmap/b", "-n", stage.namespace)
    story = stage.orphan("configmap/b")
    assert (story.exit_code, story.outcomes) == (0, {"configmap/b": Outcome.REMOVED_FROM_INVENTORY})
    assert not api.exists(stage.path("b"))
    assert stage.listed() == {"configmap/a"}


def test_orphan_leaves_a_recreated_object_alone(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Re-created under the same name: it has no label or manager of the set to remove."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("delete", "configmap/b", "-n", stage.namespace)
    kubectl("create", "configmap", "b", "-n", stage.namespace, "--from-literal=mine=1")
    before = api.get(stage.path("b"))
    assert stage.orphan("configmap/b").outcomes == {"configmap/b": Outcome.REMOVED_FROM_INVENTORY}
    assert api.get(stage.path("b")) == before


def test_orphan_removes_our_manager_even_without_the_label(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Every later run would name it: its label is gone and our Apply entry is not."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("label", "configmap/b", "-n", stage.namespace, f"{PART_OF}-")
    assert stage.orphan("configmap/b").outcomes == {"configmap/b": Outcome.ORPHANED}
    left = api.get(stage.path("b"))
    assert _is_free(stage, left)
    assert left["data"] == {"key": "v"}
    assert stage.run(config_map("a")).exit_code == 0


def test_orphan_releases_an_object_that_is_being_deleted(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Its finalizer holds it; the set does not wait for that."""
    stage.run(config_map("a"), config_map("b", finalizers=["example.com/hold"]))
    kubectl("delete", "configmap/b", "-n", stage.namespace, "--wait=false")
    story = stage.orphan("configmap/b")
    assert (story.exit_code, story.outcomes) == (0, {"configmap/b": Outcome.ORPHANED})
    left = api.get(stage.path("b"))
    assert _is_free(stage, left)
    assert left["metadata"]["finalizers"] == ["example.com/hold"]
    assert stage.listed() == {"configmap/a"}
    release = '{"metadata":{"finalizers":null}}'
    kubectl("patch", "configmap/b", "-n", stage.namespace, "--type=merge", "-p", release)


def _patches(seen: Exchange) -> bool:
    return seen.method == "PATCH"


def test_orphan_reads_an_object_again_that_changed_meanwhile(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The change stays."""
    spoiled.run(config_map("a"), config_map("b"))
    sent: list[int] = []

    def before(seen: Exchange) -> None:
        if _patches(seen):
            sent.append(seen.number)
            if len(sent) == 1:
                kubectl("annotate", "configmap/b", "-n", spoiled.namespace, "mine=1")

    proxy.before_forward = before
    assert spoiled.orphan("configmap/b").outcomes == {"configmap/b": Outcome.ORPHANED}
    assert len(sent) == 2
    left = api.get(spoiled.path("b"))
    assert _is_free(spoiled, left)
    assert left["metadata"]["annotations"] == {"mine": "1"}


def test_orphan_recognises_a_lost_reply(spoiled: Stage, proxy: FaultProxy, api: Api) -> None:
    """The patch is sent again and does not fit any more: there is nothing left to take off."""
    spoiled.run(config_map("a"), config_map("b"))
    proxy.rule = first(1, faults.lose_reply(), where=_patches)
    assert spoiled.orphan("configmap/b").exit_code == 0
    assert _is_free(spoiled, api.get(spoiled.path("b")))
    assert spoiled.listed() == {"configmap/a"}


def test_rejected_orphan_stays_listed_and_ours(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Exit code 3; the other one is orphaned, and the next prune of this one is a delete."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    denied = faults.status(403, reason="Forbidden", message="not today")
    proxy.rule = always(denied, where=lambda seen: _patches(seen) and seen.path.endswith("/b"))
    story = spoiled.orphan("configmap/b", "configmap/c")
    assert story.outcomes == {"configmap/b": Outcome.FAILED, "configmap/c": Outcome.ORPHANED}
    assert story.exit_code == 3
    assert "not today" in story.problem("configmap/b")
    assert stage.listed() == {"configmap/a", "configmap/b"}
    assert not _is_free(stage, api.get(stage.path("b")))


def test_orphan_waits_for_the_run_with_the_lock(stage: Stage, api: Api) -> None:
    """And touches nothing while that lives."""
    stage.run(config_map("a"), config_map("b"))
    take_from_elsewhere(stage)
    with pytest.raises(InventoryLocked) as caught:
        stage.orphan("configmap/b", lock_timeout=1.0)
    assert ELSEWHERE.who in str(caught.value.reason)
    assert not _is_free(stage, api.get(stage.path("b")))


@pytest.mark.parametrize("wanted", [False, True])
def test_orphan_killed_before_it_records_the_release_recovers(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path, wanted: bool
) -> None:
    """The next run without it removes its entry; with it, adopts it again; it is never deleted."""
    stage.run(config_map("a"), config_map("b"))
    uid = api.get(stage.path("b"))["metadata"]["uid"]
    command = ["inventory", "orphan", stage.name, "-n", stage.namespace, "configmap/b"]
    # Inventory, discovery 2, list, rights, union, intent, the patch, and the write after it.
    killed = kill_at(proxy, 9, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    assert killed is not None
    assert killed.method == "PUT"
    assert _is_free(stage, api.get(stage.path("b")))
    assert stage.listed() == {"configmap/a", "configmap/b"}

    story = stage.run(config_map("a"), *((config_map("b"),) if wanted else ()))
    assert story.exit_code == 0
    now = api.get(stage.path("b"))
    assert now["metadata"]["uid"] == uid
    assert _is_free(stage, now) is not wanted
    if wanted:
        assert stage.listed() == {"configmap/a", "configmap/b"}
    else:
        assert story.outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
        assert stage.listed() == {"configmap/a"}
    assert not stage.check().found


@pytest.mark.sweep
def test_orphan_killed_before_its_patch_is_finished_by_the_next_run(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """The intent is recorded, the label is still on: the next prune orphans it."""
    stage.run(config_map("a"), config_map("b"))
    command: list[str | Path] = ["inventory", "orphan", "web", "configmap/b"]
    kill_at_patch(proxy, [*command, "-n", stage.namespace], proxy.kubeconfig(tmp_path))
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))

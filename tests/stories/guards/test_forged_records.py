"""What anybody may write proves nothing: another set's label, and what an inventory says.

A live object with our manager's Apply entry never leaves the inventory without a line about it. No
set takes in the ConfigMaps of another set's inventory, and none deletes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from applyprune.cluster import inventory_format
from applyprune.errors import InventoryError
from applyprune.model.events import ObjectDone, ObjectStatus, Planned
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, MismatchType, Ownership
from applyprune.model.options import Adopt, Conflicts, DryRun, Mode, PruneAlso
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, SHARD_OF
from tests.support.actors import ALICE
from tests.support.api import Api, temporary_namespace
from tests.support.command import Ended, applyprune
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.forged import edit_entry, remove_entries
from tests.support.objects import SERVICE, config_map, of_kind, text
from tests.support.plane import Kubectl
from tests.support.stage import Stage, Story, on

A, B = config_map("a"), config_map("b")
ROOTS = "/api/v1/configmaps"
VERBS: dict[str, dict[str, Any]] = {
    "apply": {},
    "prune": {"mode": Mode.PRUNE},
    "delete": {"mode": Mode.DELETE},
    "orphan": {"mode": Mode.ORPHAN, "select": frozenset({"configmap/b"})},
    "plan": {"dry_run": DryRun.SERVER},
}


def _other(stage: Stage, namespace: str = "") -> Stage:
    return Stage(stage.kubeconfig, namespace or stage.namespace, name="other")


def _relabel(api: Api, stage: Stage, label: str | None) -> None:
    api.patch(stage.path("b"), {"metadata": {"labels": {PART_OF: label}}})


def _recreate(api: Api, stage: Stage) -> None:
    api("DELETE", stage.path("b"))
    api.create(stage.path(), of_kind("ConfigMap", "b"))


def _run(stage: Stage, verb: str) -> Story:
    bodies = () if verb in {"delete", "orphan"} else (A,)
    return stage.run(*bodies, **VERBS[verb])


def _searches(proxy: FaultProxy) -> int:
    """Return how many requests have searched for inventories."""
    return sum(SET_ID in one.query.get("labelSelector", "") for one in proxy.exchanges)


@pytest.mark.holds("listed-elsewhere", row="nobody's-apply")
@pytest.mark.parametrize(
    ("whose", "verb"),
    [
        ("nobody's", "apply"),
        ("a set that does not list it", "delete"),
        ("a set that does not list it", "orphan"),
    ],
)
def test_foreign_label_does_not_let_an_object_escape(
    stage: Stage, api: Api, kubectl: Kubectl, verb: str, whose: str
) -> None:
    """It stays listed, with the label and the fix in the output; the fix helps."""
    stage.run(A, B)
    other = _other(stage)
    other.run(config_map("theirs"))
    label = other.target.id if whose != "nobody's" else "applyset-x-v1"
    _relabel(api, stage, label)
    story = _run(stage, verb)
    assert (story.exit_code, story.outcomes["configmap/b"]) == (3, Outcome.FAILED)
    assert "configmap/b" in stage.listed()
    problem = story.problem("configmap/b")
    assert f"its label {PART_OF} is {label}, and " in problem
    named = f"the inventory of other in namespace {stage.namespace} does not list its UID"
    assert (named if whose != "nobody's" else "there is no inventory with this id") in problem
    kubectl(*problem[problem.index("kubectl label") :].split()[1:])
    end = Outcome.ORPHANED if verb == "orphan" else Outcome.PRUNED
    assert _run(stage, "orphan" if verb == "orphan" else "apply").outcomes["configmap/b"] is end


def test_foreign_label_is_reported_by_every_verb(stage: Stage, api: Api) -> None:
    """Of an object in the input too; a repair sets the label back."""
    stage.run(A, B)
    _relabel(api, stage, "applyset-x-v1")
    refused = stage.run(A, B)
    assert refused.outcomes == {"configmap/b": Outcome.FAILED}
    assert "is applyset-x-v1, and there is no inventory" in refused.problem("configmap/b")
    (warning,) = stage.status().warnings
    assert "configmap/b" in warning
    assert "is applyset-x-v1" in warning
    reasons = stage.explain("configmap/b").explanation.reasons
    assert any("is applyset-x-v1" in reason for reason in reasons)
    assert stage.check().found == {"configmap/b": MismatchType.TWO_OWNERS}
    assert stage.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert not stage.check().found
    assert stage.run(A, B).exit_code == 0


@pytest.mark.parametrize("verb", ["apply", "delete"])
def test_object_that_the_other_set_lists_is_handed_over(
    spoiled: Stage, proxy: FaultProxy, verb: str
) -> None:
    """One search for its inventory by each run that meets it, and none if nothing has its label."""
    spoiled.run(A, B)
    assert _run(spoiled, "plan").outcomes["configmap/b"] is Outcome.PRUNED
    assert _searches(proxy) == 0
    taken = _other(spoiled).run(B, adopt=Adopt.ALL)
    assert (taken.exit_code, _searches(proxy)) == (0, 1)
    story = _run(spoiled, verb)
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.REMOVED_FROM_INVENTORY)
    assert _searches(proxy) == 2


@pytest.mark.parametrize("how", ["forbidden", "copied"])
def test_unreadable_inventory_proves_nothing(
    spoiled: Stage, proxy: FaultProxy, api: Api, how: str
) -> None:
    """The entry stays until the inventory of the other set can be read."""
    with temporary_namespace(api) as place:
        other = _other(spoiled, place)
        spoiled.run(A, B)
        there = {**B, "metadata": {"name": "b", "namespace": spoiled.namespace}}
        assert other.run(there, adopt=Adopt.ALL).exit_code == 0
        root = f"/api/v1/namespaces/{place}/configmaps/{other.target.inventory.name}"
        before = api.get(root)
        if how == "forbidden":
            proxy.rule = always(faults.status(403), where=_is_search)
        else:
            uid = before["metadata"]["uid"]
            header = before["data"]["header"].replace(uid, uid[::-1])
            data = {**before["data"], "header": header}
            assert api("PUT", root, {**before, "data": data})[0] == 200
        story = spoiled.run(A)
        assert (story.exit_code, story.outcomes["configmap/b"]) == (3, Outcome.FAILED)
        assert "could not be read, or is a copy" in story.problem("configmap/b")
        assert spoiled.check().found == {"configmap/b": MismatchType.TWO_OWNERS}
        assert spoiled.repair().outcomes == {}
        assert "configmap/b" in spoiled.listed()
        proxy.rule = lambda _: None
        del before["metadata"]["resourceVersion"]
        assert api("PUT", root, before)[0] == 200
        assert spoiled.run(A).outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY


def _is_search(seen: Exchange) -> bool:
    return seen.path == ROOTS and SET_ID in seen.query.get("labelSelector", "")


@pytest.mark.holds("unlisted-at-delete")
def test_entries_removed_by_hand_are_reported(stage: Stage, api: Api) -> None:
    """While another object of the kind is listed; the set is not removed."""
    stage.run(A, B)
    remove_entries(stage, api, "b")
    for story in (stage.run(A), stage.run(A, dry_run=DryRun.SERVER), stage.status()):
        (warning,) = story.warnings
        assert "1 object has the label and field manager of the set web" in warning
        assert "configmap/b" in warning
    assert stage.check().found == {"configmap/b": MismatchType.UNLISTED}
    for verb in ("delete", "orphan all"):
        options = VERBS.get(verb, {"mode": Mode.ORPHAN})
        with pytest.raises(InventoryError, match="the set web was not removed") as caught:
            stage.run(**options)
        assert "inventory repair web" in caught.value.hint
    assert api.exists(stage.path("a"))
    assert stage.repair().outcomes == {"configmap/b": Outcome.REPAIRED}
    assert stage.run(mode=Mode.DELETE).exit_code == 0


def test_removed_entries_of_a_whole_kind_are_found_by_a_check_alone(stage: Stage, api: Api) -> None:
    """A run does not search other kinds than those of its entries: a delete leaves the object."""
    stage.run(A, SERVICE)
    remove_entries(stage, api, "web")
    assert not stage.run(A).warnings
    assert stage.check().found == {"service/web": MismatchType.UNLISTED}
    path = f"/api/v1/namespaces/{stage.namespace}/services/web"
    assert stage.run(mode=Mode.DELETE).outcomes == {"configmap/a": Outcome.DELETED}
    assert api.get(path)["metadata"]["labels"][PART_OF] == stage.target.id


def test_mark_that_only_the_inventory_has_is_reported(stage: Stage, api: Api) -> None:
    """An apply with the object in the input removes the mark, though nothing else has changed."""
    stage.run(A, B)
    edit_entry(stage, api, "b", orphanReason="inventory orphan")
    for story in (stage.run(A, dry_run=DryRun.SERVER), stage.status()):
        (warning,) = story.warnings
        assert "1 object is to be orphaned, and nothing on the objects says so" in warning
        assert "configmap/b" in warning
    assert stage.check().found == {"configmap/b": MismatchType.TO_ORPHAN}
    assert not stage.run(A, B).warnings
    assert not stage.check().found
    assert stage.run(A).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.holds("unmarked-stays-unmarked")
def test_repair_marks_nothing_that_only_the_inventory_names(stage: Stage, api: Api) -> None:
    """Otherwise a forged entry would make the object deletable, with ``--record-as owned``."""
    stage.run(A, B)
    _recreate(api, stage)
    edit_entry(stage, api, "b", uid=api.get(stage.path("b"))["metadata"]["uid"])
    assert stage.check().found == {"configmap/b": MismatchType.UNLABELLED}
    before = api.get(stage.path("b"))["metadata"]
    for ownership in Ownership:
        assert stage.repair(ownership).outcomes == {}
    assert api.get(stage.path("b"))["metadata"] == before
    story = stage.run(A)
    assert story.outcomes["configmap/b"] is Outcome.FAILED
    assert "was not applied by this set" in story.problem("configmap/b")


@pytest.mark.holds("record-adopts-nothing")
def test_forged_entry_adopts_nothing(stage: Stage, api: Api) -> None:
    """With ``--adopt=none``, an entry with the right UID is not enough."""
    stage.run(A, B)
    _recreate(api, stage)
    edit_entry(stage, api, "b", uid=api.get(stage.path("b"))["metadata"]["uid"])
    story = stage.run(A, B, adopt=Adopt.NONE)
    assert story.outcomes["configmap/b"] is Outcome.FAILED
    assert "already exists and belongs to no set" in story.problem("configmap/b")
    adopted = stage.run(A, B)
    assert adopted.exit_code == 0
    reasons = [one.reason for one in adopted.of(ObjectDone)]
    assert "adopted: it existed and belonged to no set" in reasons
    assert stage.run(A).outcomes["configmap/b"] is Outcome.ORPHANED


@pytest.mark.holds("own-apply-entry")
def test_forged_resource_version_hides_no_drift(stage: Stage, api: Api) -> None:
    """Somebody has taken a field and written the new resourceVersion into the inventory."""
    stage.run(A, B)
    api.patch(stage.path("b"), {"data": {"key": "theirs"}}, by=ALICE)
    version = api.get(stage.path("b"))["metadata"]["resourceVersion"]
    edit_entry(stage, api, "b", fingerprint={"resourceVersion": version})
    drifted = {one.ref.short: one.drifted for one in stage.status(drift=True).of(ObjectStatus)}
    assert drifted == {"configmap/a": False, "configmap/b": True}
    story = stage.run(A, B)
    assert (story.exit_code, story.outcomes) == (4, {"configmap/b": Outcome.FAILED})


@pytest.mark.holds("status-values", "diff-values")
def test_values_are_compared_without_any_record(stage: Stage, api: Api) -> None:
    """Another value was applied under the set's own manager, and the record was made to fit."""
    stage.run(A, B)
    forged = of_kind(
        "ConfigMap",
        "b",
        {"labels": {PART_OF: stage.target.id}, "annotations": {OWNED_BY: stage.target.id}},
        data={"key": "theirs"},
    )
    reply = api.apply(stage.path("b"), forged, by=stage.target.manager, force=True)
    (entry,) = reply["metadata"]["managedFields"]
    version = reply["metadata"]["resourceVersion"]
    edit_entry(stage, api, "b", fingerprint={"resourceVersion": version, "time": entry["time"]})

    def diff(*options: str) -> Ended:
        arguments = ("diff", "web", "-f", "-", "-n", stage.namespace, *options)
        return applyprune(*arguments, kubeconfig=stage.kubeconfig, stdin=text(A, B))

    assert (diff().code, stage.status(drift=True).warnings) == (0, [])
    warnings = stage.status(drift=True, values=True).warnings
    assert len(warnings) == 1
    assert "1 object may not have the values that the set has applied: configmap/b" in warnings[0]
    ended = diff("--reapply-all")
    assert ended.code == 1
    assert "theirs" in ended.out


def test_removed_entries_are_found_where_the_cluster_may_not_be_listed(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """In the namespaces that the annotation still names."""
    with temporary_namespace(api) as place:
        there = {"namespace": place}
        spoiled.run(A, config_map("b", **there))
        remove_entries(spoiled, api, "b")
        proxy.rule = always(
            faults.status(403), where=lambda seen: seen.path == ROOTS and seen.method == "GET"
        )
        (warning,) = spoiled.run(A).warnings
        assert "configmap/b" in warning


def test_object_taken_during_the_prune_is_handed_over(stage: Stage) -> None:
    """The delete fails, and the decision that follows reads the other inventory."""
    stage.run(A, B)

    stage.seen = on(Planned, lambda: _other(stage).run(B, adopt=Adopt.ALL))
    story = stage.run(A)
    assert story.plan.removals[0].request is not None
    assert story.outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY


def test_inventory_beside_ours_is_found_without_rights_elsewhere(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Where the whole cluster may not be listed."""
    spoiled.run(A, B)
    assert _other(spoiled).run(B, adopt=Adopt.ALL).exit_code == 0
    proxy.rule = always(faults.status(403), where=_is_search)
    assert spoiled.run(A).outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY


FILLING = 60
"""So many entries that they are kept in shards, where a shard has few."""


def _write(stage: Stage, entries: Mapping[Ref, InventoryEntry]) -> None:
    stage.rewrite(entries={**stage.inventory().entries, **entries})


def _entry(name: str, namespace: str, uid: str) -> InventoryEntry:
    ref = Ref("", "ConfigMap", namespace, name)
    return InventoryEntry(ref, "configmaps", "v1", None, uid=uid)


def _fill(stage: Stage) -> None:
    """Let a set list so much that its inventory is in shards."""
    entries = [_entry(f"c-{number:05}", "a-gone", f"u-{number}") for number in range(FILLING)]
    _write(stage, {one.ref: one for one in entries})


def _kept_in(api: Api, stage: Stage) -> dict[str, str]:
    """Return the UID of each ConfigMap in which a set's inventory is, by name."""
    shards = api.get(f"{stage.path()}?labelSelector={SHARD_OF}={stage.name}")["items"]
    root = api.get(stage.path(stage.target.inventory.name))
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in (root, *shards)}


@pytest.fixture
def other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Another set of the namespace, whose inventory has a root and shards."""
    monkeypatch.setattr(inventory_format, "_PER_SHARD", 8)
    monkeypatch.setattr(inventory_format, "MAX_TEXT", 4 * 1024)
    made = Stage(stage.kubeconfig, stage.namespace, name="other")
    made.run(config_map("theirs"))
    _fill(made)
    return made


def test_inventory_cannot_be_an_object_of_a_set(stage: Stage, other: Stage, api: Api) -> None:
    """Neither its root nor its shards; nothing of them is changed, and nothing of them listed."""
    before = {name: api.get(stage.path(name)) for name in _kept_in(api, other)}
    assert len(before) > 2
    bodies = [config_map(name) for name in before]
    for forced in (False, True):
        story = stage.run(
            config_map("a"),
            *bodies,
            adopt=Adopt.ALL,
            conflicts=Conflicts.FORCE if forced else Conflicts.FAIL,
        )
        assert story.exit_code == 3
        for name in before:
            assert story.outcomes[f"configmap/{name}"] is Outcome.FAILED
            assert "is the inventory of a set" in story.problem(f"configmap/{name}")
    assert {name: api.get(stage.path(name)) for name in before} == before
    assert stage.listed() == set()
    assert len(other.inventory().entries) == FILLING + 1


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_listed_inventory_is_not_deleted(stage: Stage, other: Stage, api: Api, mode: Mode) -> None:
    """Although the entry has its UID, and it has the set's label and its manager's fields."""
    stage.run(config_map("a"))
    there = _kept_in(api, other)
    for name in there:
        body = of_kind("ConfigMap", name, {"labels": {PART_OF: stage.target.id}})
        api.apply(stage.path(name), body, by=stage.target.manager)
    _list(stage, there)
    left: tuple[dict[str, Any], ...] = () if mode is Mode.DELETE else (config_map("a"),)
    story = stage.run(
        *left, mode=mode, also=frozenset({PruneAlso.ADOPTED}), max_prune=stage.most(99)
    )
    for name in there:
        assert story.outcomes[f"configmap/{name}"] is Outcome.ORPHANED, story.events
        assert "deletionTimestamp" not in api.get(stage.path(name))["metadata"]
    assert _kept_in(api, other) == there
    assert len(other.inventory().entries) == FILLING + 1


def _list(stage: Stage, names: Mapping[str, str]) -> None:
    entries = [_entry(name, stage.namespace, uid) for name, uid in names.items()]
    _write(stage, {one.ref: one for one in entries})


def test_set_that_lists_its_own_inventory_does_not_delete_it(stage: Stage, api: Api) -> None:
    """Its label does not name itself either, so it is skipped."""
    stage.run(config_map("a"), config_map("b"))
    (name,) = _kept_in(api, stage)
    uid = _kept_in(api, stage)[name]
    _list(stage, {name: uid})
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes.get(f"configmap/{name}") is not Outcome.PRUNED
    assert _kept_in(api, stage) == {name: uid}
    assert "configmap/a" in stage.listed()

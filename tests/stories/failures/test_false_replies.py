"""A law: whatever the reply to a write says, nothing is reported as done that is not done.

Each write of a run gets the reply to its dry run, its own reply without one field of ``metadata``,
or the reply to another request. A run that ends with 0 has done everything, what another one calls
done is done, and it deletes nothing after an apply that failed. The same run again ends like one
without a fault.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from applyprune.errors import ApplypruneError, InventoryError
from applyprune.localplane import Plane
from applyprune.model.events import Event, ObjectDone
from applyprune.model.fate import Outcome
from applyprune.planning.applyset import PART_OF, SET_ID, TOOLING
from tests.support.api import Api, temporary_namespace
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults, first
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.renewals import Renewals
from tests.support.stage import Stage, Story
from tests.support.steps import SCENARIOS, Step
from tests.support.webhook import Webhook
from tests.sweeps.false_404 import is_write

Body: TypeAlias = dict[str, Any]
DRY, ANOTHER, EARLIER = "of its dry run", "of another object", "of an earlier request"
FIELDS = (
    "resourceVersion",
    "managedFields",
    "labels",
    "annotations",
    "uid",
    "creationTimestamp",
    "name",
    "generation",
    "namespace",
)
SPOILS = (DRY, ANOTHER, EARLIER, *FIELDS)
BIG = ("create", "recreate", "prune", "orphan")
"""What the short form takes: each kind of write of a run."""
ENDS_OTHERWISE = {"adopt-what-another-set-gives"}
"""What a second run does not end: between the gift and its apply, an object is only adopted."""
DELETED = {Outcome.PRUNED, Outcome.DELETED}
NOT_DONE = {Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_PRUNED}


@pytest.mark.holds("transfer-is-stored", row="orphan")
@pytest.mark.holds("gone-is-seen", row="prune")
@pytest.mark.holds("inventory-reply", row="create")
@pytest.mark.parametrize("name", BIG)
def test_reply_of_a_dry_run_is_not_success(
    plane: Plane, api: Api, proxy: FaultProxy, tmp_path: Any, name: str
) -> None:
    """To any write of a run.

    Slow: each write is spoiled in a new namespace.
    """
    law = Law(plane, api, proxy, proxy.kubeconfig(tmp_path), SCENARIOS[name])
    for number in range(law.writes()):
        law.holds(number, DRY)


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ENDS_OTHERWISE])
def test_no_reply_is_believed_that_does_not_prove_the_write(
    plane: Plane, api: Api, proxy: FaultProxy, tmp_path: Any, name: str
) -> None:
    """The long form: each write of each scenario, and each reply."""
    law = Law(plane, api, proxy, proxy.kubeconfig(tmp_path), SCENARIOS[name])
    for number, spoil in itertools.product(range(law.writes()), SPOILS):
        law.holds(number, spoil)


@pytest.mark.holds("apply-is-stored")
def test_gateway_in_a_read_only_mode_prunes_nothing(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """It answers each PATCH with the reply of a dry run; a DELETE would be real."""
    spoiled.run(config_map("a"), config_map("gone"))
    proxy.rule = always(faults.dry_run(), where=lambda one: one.method == "PATCH")
    bodies = config_map("a", "changed"), config_map("new")
    story = spoiled.run(*bodies, max_prune=Stage.most(1))
    assert story.exit_code == 3
    failed = dict.fromkeys(("configmap/a", "configmap/new"), Outcome.FAILED)
    assert story.outcomes == {**failed, "configmap/gone": Outcome.NOT_PRUNED}
    for name in failed:
        assert f"{name} in namespace {stage.namespace}: it was not written" in story.problem(name)
        assert "the reply of a dry run" in story.problem(name)
    assert api.exists(stage.path("gone"))
    assert stage.listed() == {"configmap/a", "configmap/new", "configmap/gone"}
    proxy.rule = lambda _seen: None
    again = spoiled.run(*bodies, max_prune=Stage.most(1))
    assert again.exit_code == 0
    assert again.outcomes["configmap/gone"] is Outcome.PRUNED
    assert stage.listed() == {"configmap/a", "configmap/new"}


@pytest.mark.parametrize(
    "is_stored", [True, pytest.param(False, marks=pytest.mark.holds("others-in-the-reply"))]
)
def test_object_that_somebody_writes_meanwhile_is_read(
    spoiled: Stage, proxy: FaultProxy, api: Api, *, is_stored: bool
) -> None:
    """Then even the reply of a dry run has another resourceVersion than the object had."""
    spoiled.run(config_map("a"))

    def write() -> None:
        note = {"metadata": {"annotations": {"theirs": "x"}}}
        api.patch(spoiled.path("a"), note, by="theirs")

    fault = faults.forwarded() if is_stored else faults.dry_run()
    proxy.rule = first(1, faults.calling(write, fault), where=lambda one: one.method == "PATCH")
    story = spoiled.run(config_map("a", "changed"))
    expected = (0, Outcome.UPDATED) if is_stored else (3, Outcome.FAILED)
    assert (story.exit_code, story.outcomes["configmap/a"]) == expected
    assert (api.get(spoiled.path("a"))["data"]["key"] == "changed") is is_stored


@pytest.mark.holds("repeated-reply")
def test_reply_to_an_earlier_apply_is_not_believed(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """It shows the object as it is: the apply is sent again, and that tells."""
    spoiled.run(config_map("a"))
    old = _last_reply(proxy)
    proxy.rule = first(1, old, where=lambda one: one.method == "PATCH")
    assert spoiled.run(config_map("a", "changed")).outcomes == {"configmap/a": Outcome.UPDATED}
    assert api.get(spoiled.path("a"))["data"] == {"key": "changed"}


@pytest.mark.holds("reply-of-the-deleted")
def test_reply_to_the_create_of_the_deleted_object_is_not_believed(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Its UID is that of the object which this run has deleted to create it again."""
    spoiled.run({**config_map("a"), "immutable": True})
    old = _last_reply(proxy)
    creates = b'"resourceVersion":"1"'
    proxy.rule = first(1, old, where=lambda one: is_write(one) and creates in one.body)
    changed = {**config_map("a", "changed"), "immutable": True}
    story = spoiled.run(changed, recreate=True)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/a": Outcome.FAILED})
    assert spoiled.run(changed, recreate=True).outcomes == {"configmap/a": Outcome.CREATED}
    assert api.get(spoiled.path("a"))["data"] == {"key": "changed"}


def _last_reply(proxy: FaultProxy) -> Fault:
    """Return the fault that answers as the last apply was answered."""
    applies = [one for one in proxy.exchanges if one.method == "PATCH"]
    return faults.answer(201, applies[-1].reply, (("Content-Type", "application/json"),))


@pytest.mark.holds("orphan-keeps-label")
def test_orphan_that_keeps_the_label_stays_listed(plane: Plane, api: Api, stage: Stage) -> None:
    """A webhook that puts it back: the object would belong to a set that does not list it."""
    stage.run(config_map("a"), config_map("b"))
    label = {"op": "add", "path": "/metadata/labels", "value": {PART_OF: stage.target.id}}

    def keeps(request: dict[str, Any]) -> list[dict[str, Any]]:
        is_orphan = request["name"] == "b" and not request["object"]["metadata"].get("labels")
        return [label] if is_orphan else []

    with Webhook(plane, api, stage.namespace, ("UPDATE",), change=keeps):
        story = stage.orphan("ConfigMap/b")
    assert (story.exit_code, story.outcomes) == (3, {"configmap/b": Outcome.FAILED})
    assert "it was stored with the set's label" in story.problem("configmap/b")
    assert stage.listed() == {"configmap/a", "configmap/b"}


@pytest.mark.holds("marks-of-the-inventory")
def test_marks_that_a_webhook_removes_end_the_run(plane: Plane, api: Api, stage: Stage) -> None:
    """Before the first apply; a repair sets them again when the webhook lets them."""

    def strips(request: dict[str, Any]) -> list[dict[str, Any]]:
        if not request["name"].startswith("applyprune-"):
            return []
        return [{"op": "remove", "path": f"/metadata/{part}"} for part in ("labels", "annotations")]

    with Webhook(plane, api, stage.namespace, ("CREATE", "UPDATE"), change=strips):
        with pytest.raises(InventoryError, match="was not stored as it was sent") as error:
            stage.run(config_map("a"))
        assert f"{SET_ID}; it has no annotation {TOOLING}" in error.value.reason
        assert f"inventory repair web -n {stage.namespace}" in error.value.hint
        assert not api.exists(stage.path("a"))
        with pytest.raises(InventoryError, match="is not a valid ApplySet parent"):
            stage.run(config_map("a"))
        with pytest.raises(InventoryError, match="was not stored as it was sent"):
            stage.repair()
    assert stage.repair().exit_code == 0
    assert stage.run(config_map("a")).outcomes == {"configmap/a": Outcome.CREATED}


@dataclass(slots=True)
class Law:
    """The last step of a scenario, again and again, each time in a new namespace."""

    plane: Plane
    api: Api
    proxy: FaultProxy
    kubeconfig: Any
    steps: tuple[Step, ...]
    wanted: Mapping[str, Any] | None = None
    """What is there after the scenario without a fault."""

    def writes(self) -> int:
        """Run the scenario without a fault; return how many writes its last step makes."""
        with temporary_namespace(self.api) as namespace:
            stage = self._prepared(namespace)
            start = len(self.proxy.exchanges)
            assert self._end(stage) == 0
            self.wanted = self._state(stage)
            renewals = Renewals()
            sent = self.proxy.exchanges[start:]
            return len([one for one in sent if is_write(one) and not renewals.is_sent(one)])

    def holds(self, number: int, spoil: str) -> None:
        """Spoil the reply to a write; check what the run says, and what the next one leaves."""
        with temporary_namespace(self.api) as namespace:
            stage = self._prepared(namespace)
            events: list[Event] = []
            stage.seen = events.append
            spoiled = self._spoil(namespace, number, spoil)
            code = self._end(stage)
            self.proxy.rule = lambda _seen: None
            where = f"reply {spoil} to {spoiled}: {code} {events}"
            after = self._state(stage)
            if code == 0:
                assert after == self.wanted, where
                return
            self._check_reports(events, after, where)
            assert self._end(stage) == 0, where
            assert self._state(stage) == self.wanted, where

    def _check_reports(self, events: list[Event], after: Mapping[str, Any], where: str) -> None:
        done = [one for one in events if isinstance(one, ObjectDone)]
        assert self.wanted is not None
        for one in done:
            if one.outcome not in NOT_DONE:
                name = one.ref.short
                assert after.get(name) == self.wanted.get(name), (name, where)
        is_failed = False
        for one in done:
            assert not (is_failed and one.outcome in DELETED), where
            is_failed |= one.outcome is Outcome.FAILED and one.origin is not None

    def _prepared(self, namespace: str) -> Stage:
        stage = Stage(self.kubeconfig, namespace)
        for step in self.steps[:-1]:
            step(stage, self.api)
        return stage

    def _end(self, stage: Stage) -> int:
        """Take the last step; return its exit code. A bug is raised."""
        try:
            story = self.steps[-1](stage, self.api)
        except ApplypruneError as error:
            return error.exit_code
        assert isinstance(story, Story)
        return story.exit_code

    def _spoil(self, namespace: str, number: int, spoil: str) -> list[Exchange]:
        """Spoil the reply to the write of that number, counted from now on; return that write."""
        found: list[Exchange] = []
        renewals, numbers = Renewals(), itertools.count()
        earlier = {(one.method, one.path): one for one in self.proxy.exchanges if one.reply}

        def rule(seen: Exchange) -> Fault | None:
            if not is_write(seen) or renewals.is_sent(seen) or next(numbers) != number:
                return None
            found.append(seen)
            if spoil in FIELDS:
                return faults.without_metadata(spoil)
            if spoil == DRY:
                return faults.dry_run()
            old = earlier.get((seen.method, seen.path)) if spoil == EARLIER else None
            text = old.reply if old is not None else json.dumps(_another(namespace)).encode()
            return faults.answer(200, text, (("Content-Type", "application/json"),))

        self.proxy.rule = rule
        return found

    def _state(self, stage: Stage) -> Mapping[str, Any]:
        """Return every object by ``kind/name``, and each entry of the two inventories."""
        found: dict[str, Any] = {}
        cron = f"/apis/batch/v1/namespaces/{stage.namespace}/cronjobs"
        uids: dict[str, str] = {}
        for item in self.api.get(cron)["items"]:
            found[f"cronjob.batch/{item['metadata']['name']}"] = _told(item, stage)
            uids[f"cronjob.batch/{item['metadata']['name']}"] = item["metadata"]["uid"]
        for name, item in config_maps(self.api, stage.namespace).items():
            if not name.startswith("applyprune-"):
                found[f"configmap/{name}"] = _told(item, stage)
                uids[f"configmap/{name}"] = item["metadata"]["uid"]
        for one in (stage, Stage(stage.kubeconfig, stage.namespace, name="other")):
            inventory = one.inventory()
            found[f"lock of {one.name}"] = inventory.holder is None
            found[f"inventory {one.name}"] = (
                {
                    ref.short: (entry.ownership, entry.uid == uids.get(ref.short), entry.deleting)
                    for ref, entry in inventory.entries.items()
                }
                if inventory.exists
                else None
            )
        return found


def _another(namespace: str) -> Body:
    """Return an object that nobody has asked for."""
    return config_map("another", namespace=namespace, uid="another", resourceVersion="1")


def _told(item: Body, stage: Stage) -> Any:
    """Return an object without what differs between two runs."""
    metadata = item["metadata"]
    managers = []
    for one in metadata.get("managedFields", ()):
        # What a patch leaves to its own manager, a second one settles, or the next apply.
        if one["manager"] == "applyprune":
            continue
        fields = json.loads(json.dumps(one.get("fieldsV1", {})))
        fields.get("f:metadata", {}).get("f:labels", {}).pop(f"f:{PART_OF}", None)
        metadata_fields = fields.get("f:metadata", {})
        if not metadata_fields.get("f:labels"):
            metadata_fields.pop("f:labels", None)
        managers.append((one["manager"], one["operation"], json.dumps(fields, sort_keys=True)))
    told = {
        "values": {key: item[key] for key in ("data", "spec", "immutable") if key in item},
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "managers": sorted(managers),
    }
    text = json.dumps(told, sort_keys=True).replace(stage.namespace, "home")
    for name in ("web", "other"):
        set_id = Stage(stage.kubeconfig, stage.namespace, name=name).target.id
        text = text.replace(set_id, name)
    return json.loads(text)

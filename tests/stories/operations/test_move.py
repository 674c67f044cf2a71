"""Objects that change sets: none is deleted or created again, and every field is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InventoryLocked, UsageError
from applyprune.model.events import ObjectDone, Waiting
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.values import replace
from tests.decisions.world import SET, Change, Site, changed, created, deleted, deleting, relabelled
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.kill import kill_at_patch
from tests.support.objects import SECRET, SERVICE, config_map, of_kind
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.stage import Stage, Story
from tests.support.waiting import HANG

JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
PLURALS = {"configmap": "configmaps", "service": "services", "secret": "secrets"}


@pytest.fixture
def shop(stage: Stage) -> Stage:
    """Another set in the same namespace."""
    return Stage(stage.kubeconfig, stage.namespace, name="shop")


@pytest.fixture
def abroad(stage: Stage, api: Api) -> Iterator[Stage]:
    """A set whose inventory is in another namespace."""
    name = f"{stage.namespace}-b"
    body = of_kind("Namespace", name)
    api.create("/api/v1/namespaces", body)
    yield Stage(stage.kubeconfig, name, name="shop")
    api("DELETE", f"/api/v1/namespaces/{name}")


def _path(stage: Stage, name: str) -> str:
    kind, _, name = name.rpartition("/")
    return f"/api/v1/namespaces/{stage.namespace}/{PLURALS[kind or 'configmap']}/{name}"


def _metadata(api: Api, stage: Stage, name: str) -> dict[str, Any]:
    return dict(api.get(_path(stage, name))["metadata"])


def _everything(api: Api, *stages: Stage) -> dict[str, tuple[str, str]]:
    """Return UID and resourceVersion of all that is in the namespaces, inventories included.

    But for the ConfigMap that every namespace is given some time after it is made.
    """
    return {
        f"{plural}/{item['metadata']['name']} in {stage.namespace}": (
            item["metadata"]["uid"],
            item["metadata"]["resourceVersion"],
        )
        for stage in stages
        for plural in PLURALS.values()
        for item in api.get(f"/api/v1/namespaces/{stage.namespace}/{plural}")["items"]
        if item["metadata"]["name"] != "kube-root-ca.crt"
    }


def _appliers(api: Api, stage: Stage, name: str) -> list[str]:
    """Return the manager of each Apply entry of an object."""
    entries = _metadata(api, stage, name)["managedFields"]
    return [entry["manager"] for entry in entries if entry["operation"] == "Apply"]


def _belongs(api: Api, home: Stage, name: str, owner: Stage) -> None:
    """Assert that an object has the label and field manager of one set, and of no other."""
    assert _metadata(api, home, name)["labels"][PART_OF] == owner.target.id
    assert _appliers(api, home, name) == [owner.target.manager]


def test_move_says_what_the_next_apply_of_the_other_set_does(
    stage: Stage, shop: Stage, api: Api
) -> None:
    """Unless somebody moves the manifests too; an adopted object is not deleted."""
    api.create(stage.path(), of_kind("ConfigMap", "there"))
    stage.run(config_map("a"), config_map("there"), config_map("b"))
    shop.run(config_map("s"), config_map("t"))
    names = ("configmap/a", "configmap/there")
    told = (
        "the next apply of the set shop prunes or orphans configmap/a, configmap/there, unless its "
        "input has them\n  Move their manifests from the input of web to that of shop."
    )
    assert stage.move(shop, *names, dry_run=DryRun.SERVER).warnings == [told]
    assert stage.move(shop, *names).warnings == [told]
    assert stage.move(shop, *names).warnings == []
    story = shop.run(config_map("s"), config_map("t"))
    assert story.outcomes["configmap/a"] is Outcome.PRUNED
    assert story.outcomes["configmap/there"] is Outcome.ORPHANED


def test_move_transfers_some_objects(stage: Stage, shop: Stage, api: Api) -> None:
    """The same objects, with the other set's label and manager; each set lists its own."""
    stage.run(config_map("a"), config_map("b"), SERVICE, SECRET)
    shop.run(config_map("s"))
    names = ("configmap/b", "service/web", "secret/s")
    before = {name: api.get(_path(stage, name)) for name in names}
    story = stage.move(shop, *names)
    assert story.outcomes == dict.fromkeys(names, Outcome.MOVED)
    assert story.exit_code == 0
    assert stage.listed() == {"configmap/a"}
    assert shop.listed() == {"configmap/s", *names}
    for name in names:
        now = api.get(_path(stage, name))
        assert now["metadata"]["uid"] == before[name]["metadata"]["uid"]
        assert now.get("data") == before[name].get("data")
        assert now.get("spec") == before[name].get("spec")
        _belongs(api, stage, name, shop)
    assert not stage.check().found
    assert not shop.check().found


def test_move_of_everything_removes_the_inventory(stage: Stage, shop: Stage, api: Api) -> None:
    """The set that is left has nothing to keep one for; the other one need not have been there."""
    stage.run(config_map("a"), config_map("b"))
    assert stage.move(shop).outcomes == {"configmap/a": Outcome.MOVED, "configmap/b": Outcome.MOVED}
    assert not api.exists(_path(stage, stage.target.inventory.name))
    assert shop.listed() == {"configmap/a", "configmap/b"}
    assert shop.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


# What happened to it, the outcome, the reason, whether the source still lists it.
AGAIN = (deleted("configmap/b"), created(config_map("b", labels={PART_OF: SET.id})))
HELD = changed("configmap/b", {"metadata": {"finalizers": ["example.com/hold"]}})
TAKEN = Outcome.REMOVED_FROM_INVENTORY
ODD: dict[str, tuple[Sequence[Change], Outcome, str, bool]] = {
    "gone": ([deleted("configmap/b")], TAKEN, "it is gone", False),
    "recreated": (AGAIN, Outcome.FAILED, "it is not the listed object", True),
    "being deleted": (
        [HELD, deleting("configmap/b")], Outcome.FAILED, "it is being deleted", True,
    ),
    "without its label": (
        [relabelled("configmap/b", None)], Outcome.FAILED, "or has lost its label", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_move_reports_an_object_that_cannot_be_transferred(
    stage: Stage, shop: Stage, api: Api, name: str
) -> None:
    """Why, with exit code 3 for a failure; it is left as it is, and the others are moved."""
    changes, outcome, why, stays = ODD[name]
    stage.run(config_map("a"), config_map("b"))
    for change in changes:
        assert change.there is not None
        change.there(Site(api, stage, stage.path("b")))
    before = api.find(stage.path("b"))
    names = ("configmap/a", "configmap/b")
    planned = stage.move(shop, *names, dry_run=DryRun.SERVER)
    story = stage.move(shop, *names)
    assert story.outcomes == {"configmap/a": Outcome.MOVED, "configmap/b": outcome}
    assert planned.outcomes == story.outcomes
    assert story.exit_code == (3 if outcome is Outcome.FAILED else 0)
    assert why in _told(story, "configmap/b")
    assert api.find(stage.path("b")) == before
    assert stage.listed() == ({"configmap/b"} if stays else set())
    assert shop.listed() == {"configmap/a"}
    _belongs(api, stage, "a", shop)
    api("PATCH", stage.path("b"), {"metadata": {"finalizers": None}}, content_type=MERGE)


def test_move_that_cannot_begin_writes_nothing(stage: Stage, shop: Stage, api: Api) -> None:
    """A typing error must not look like success; no inventory is made for another set either."""
    with pytest.raises(UsageError, match="there is no set web"):
        stage.move(shop)
    assert not shop.inventory().exists
    stage.run(config_map("a"), config_map("b"))
    before = _everything(api, stage)
    nowhere = Stage(stage.kubeconfig, f"{stage.namespace}-none", name="shop")
    for to, names, words in (
        (replace(stage), ("configmap/a",), "into itself"),
        (nowhere, ("configmap/a",), f"the namespace {nowhere.namespace} does not exist"),
        (shop, ("configmap/a", "configmap/x", "service/a"), "not list configmap/x, service/a"),
    ):
        with pytest.raises(UsageError, match=words):
            stage.move(to, *names)
    assert _everything(api, stage) == before


def _told(story: Story, name: str) -> str:
    """Return the reason or problem that was reported for an object."""
    (done,) = (one for one in story.of(ObjectDone) if one.ref.short == name)
    return str(done.problem) if done.problem else done.reason


@pytest.mark.parametrize("names", [(), ("configmap/a", "service/web")])
def test_move_dry_run_changes_nothing(
    stage: Stage, abroad: Stage, api: Api, names: tuple[str, ...]
) -> None:
    """Compare the UID and resourceVersion of everything; it reports what the move itself does."""
    stage.run(config_map("a"), config_map("b"), SERVICE)
    before = _everything(api, stage, abroad)
    story = stage.move(abroad, *names, dry_run=DryRun.SERVER)
    assert _everything(api, stage, abroad) == before
    assert story.outcomes == stage.move(abroad, *names).outcomes


WIDE = {**config_map("b", labels={"team": "x"}), "data": {"key": "v", "more": "w"}}
NARROW = config_map("b")


def test_moved_object_is_unchanged_by_the_new_sets_next_apply(
    stage: Stage, shop: Stage, api: Api, audit: AuditTrail
) -> None:
    """Nothing but its own inventory is written; by the apply after that, nothing at all."""
    bodies = (WIDE, SERVICE, SECRET)
    stage.run(config_map("a"), *bodies)
    stage.move(shop, "configmap/b", "service/web", "secret/s")
    record = f"configmaps/{shop.target.inventory.name} in {stage.namespace}"
    before = _everything(api, stage)
    assert set(shop.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    now = _everything(api, stage)
    assert {name for name, state in now.items() if state != before[name]} == {record}
    audit.restart()
    assert set(shop.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    assert {one["verb"] for one in audit.ours()} <= {"get", "list"}


def _has_narrowed(api: Api, stage: Stage, shop: Stage) -> None:
    """Assert that what only the first manifest had is gone, and that the object is the shop's."""
    assert api.get(_path(stage, "b"))["data"] == {"key": "v"}
    assert "team" not in _metadata(api, stage, "b")["labels"]
    _belongs(api, stage, "b", shop)


def test_move_keeps_ownership_as_it_was(stage: Stage, shop: Stage, api: Api) -> None:
    """Whether the new set has applied them meanwhile or not."""
    # Under a manager of its own: what kubectl's has would become ours at the adoption.
    api.create(stage.path(), of_kind("ConfigMap", "old", data={"mine": "1"}), by=ALICE)
    stage.run(config_map("old"), config_map("new"))
    shop.run(config_map("s"))
    stage.move(shop)
    made = {ref.name: entry.ownership for ref, entry in shop.inventory().entries.items()}
    assert made == {"old": Ownership.ADOPTED, "new": Ownership.OWNED, "s": Ownership.OWNED}
    shop.run(config_map("old"), config_map("new"), config_map("s"))
    assert shop.run(config_map("s")).outcomes == {
        "configmap/s": Outcome.UNCHANGED,
        "configmap/old": Outcome.ORPHANED,
        "configmap/new": Outcome.PRUNED,
    }
    assert api.get(_path(stage, "old"))["data"] == {"mine": "1", "key": "v"}


def _patches(seen: Exchange) -> bool:
    return seen.method == "PATCH" and seen.header("Content-Type") == JSON_PATCH


@pytest.mark.parametrize("which", [1, 2])
def test_move_reads_an_object_again_that_changed_meanwhile(
    spoiled: Stage, shop: Stage, proxy: FaultProxy, api: Api, which: int
) -> None:
    """Between the read and the patch, and between the two patches: the change stays."""
    spoiled.run(WIDE, config_map("a"))
    uid = _metadata(api, spoiled, "b")["uid"]
    sent: list[int] = []

    def before(seen: Exchange) -> None:
        if _patches(seen):
            sent.append(seen.number)
            if len(sent) == which:
                api.patch(spoiled.path("b"), {"metadata": {"annotations": {"mine": "1"}}})

    proxy.before_forward = before
    assert spoiled.move(shop, "configmap/b").outcomes == {"configmap/b": Outcome.MOVED}
    assert len(sent) >= 2
    now = _metadata(api, spoiled, "b")
    assert (now["uid"], now["annotations"]) == (uid, {"mine": "1", OWNED_BY: shop.target.id})
    assert shop.check().found == {}
    assert shop.run(NARROW).exit_code == 0
    _has_narrowed(api, spoiled, shop)
    assert spoiled.listed() == {"configmap/a"}


@pytest.mark.parametrize("count", [1, 9])
def test_move_recognises_a_lost_reply(
    spoiled: Stage, shop: Stage, proxy: FaultProxy, api: Api, count: int
) -> None:
    """By the new set's label on the very object; lost once, and every time."""
    spoiled.run(WIDE, config_map("a"))
    spoiled.budget = 0.5
    proxy.rule = first(count, faults.lose_reply(), where=_patches)
    assert spoiled.move(shop, "configmap/b").outcomes == {"configmap/b": Outcome.MOVED}
    assert shop.listed() == {"configmap/b"}
    assert shop.run(NARROW).exit_code == 0
    _has_narrowed(api, spoiled, shop)


def test_rejected_move_leaves_the_object_in_the_old_set(
    spoiled: Stage, shop: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The destination's next run removes its entry; so does the same move again."""
    spoiled.run(config_map("a"), config_map("b"), config_map("c"))
    denied = faults.status(403, reason="Forbidden", message="not today")
    proxy.rule = always(denied, where=lambda seen: _patches(seen) and seen.path.endswith("/b"))
    story = spoiled.move(shop, "configmap/b", "configmap/c")
    assert story.outcomes == {"configmap/b": Outcome.FAILED, "configmap/c": Outcome.MOVED}
    assert story.exit_code == 3
    assert "not today" in story.problem("configmap/b")
    _belongs(api, spoiled, "b", spoiled)
    assert spoiled.listed() == {"configmap/a", "configmap/b"}
    assert shop.run(config_map("c")).outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    proxy.rule = lambda _seen: None
    assert spoiled.move(shop, "configmap/b", "configmap/c").exit_code == 0
    assert shop.listed() == {"configmap/b", "configmap/c"}


def test_opposite_moves_take_turns(
    stage: Stage, shop: Stage, spoiled: Stage, proxy: FaultProxy
) -> None:
    """The second waits for the first, which holds both sets, and then has its way."""
    stage.run(config_map("a"), config_map("b"))
    shop.run(config_map("c"), config_map("d"))
    pause, waits = faults.Pause(), threading.Event()
    proxy.rule = first(1, pause, where=_patches)
    shop.seen = lambda event: waits.set() if isinstance(event, Waiting) else None
    with ThreadPoolExecutor(2) as pool:
        there = pool.submit(spoiled.move, shop, "configmap/b")
        assert pause.reached.wait(HANG)
        back = pool.submit(shop.move, stage, "configmap/c", lock_timeout=300.0)
        assert waits.wait(HANG)
        pause.go_on.set()
        assert there.result(HANG).outcomes == {"configmap/b": Outcome.MOVED}
        assert back.result(HANG).outcomes == {"configmap/c": Outcome.MOVED}
    assert stage.listed() == {"configmap/a", "configmap/c"}
    assert shop.listed() == {"configmap/b", "configmap/d"}


def test_move_waits_for_the_run_with_either_lock(stage: Stage, shop: Stage) -> None:
    """It names the holder at the timeout; nothing has been transferred then."""
    stage.run(config_map("a"), config_map("b"))
    shop.run(config_map("s"))
    for held in (stage, shop):
        take_from_elsewhere(held)
        with pytest.raises(
            InventoryLocked, match=f"the set {held.name} is locked by another run"
        ) as caught:
            stage.move(shop, "configmap/b", lock_timeout=1.0)
        assert ELSEWHERE.who in str(caught.value.reason)
        assert stage.listed() == {"configmap/a", "configmap/b"}
        assert shop.listed() == {"configmap/s"}


def test_move_killed_before_the_transfer_deletes_nothing(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Both sets list it, but its label is still the source's: the source's prune releases it."""
    to = Stage(stage.kubeconfig, stage.namespace, name="to")
    stage.run(config_map("a"), config_map("b"))
    to.run(config_map("c"))
    path = stage.path("b")
    uid = api.get(path)["metadata"]["uid"]
    command: list[str | Path] = ["inventory", "move", "web", "to", "configmap/b"]
    kill_at_patch(proxy, [*command, "-n", stage.namespace], proxy.kubeconfig(tmp_path))
    story = stage.run(config_map("a"))
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    assert to.run(config_map("b"), config_map("c")).exit_code == 0
    assert api.get(path)["metadata"]["uid"] == uid
    assert to.listed() == {"configmap/b", "configmap/c"}


@pytest.mark.holds("resumed-move-stays-owned")
def test_resumed_move_leaves_the_objects_owned(
    stage: Stage, shop: Stage, api: Api, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The mark that kept them in the old set is not the new set's."""
    assert stage.run(*map(config_map, "abc")).exit_code == 0
    command: list[str | Path] = ["inventory", "move", "web", "shop", "--all"]
    kill_at_patch(proxy, [*command, "-n", stage.namespace], proxy.kubeconfig(tmp_path))
    assert stage.move(shop, lock_timeout=300.0).exit_code == 0
    story = shop.run(*map(config_map, "ab"))
    assert (story.outcomes["configmap/c"], story.warnings) == (Outcome.PRUNED, [])
    assert not api.exists(_path(stage, "c"))

"""What leaves a set is offered while a sibling may take it: one owner at each moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.cluster import inventory_format
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Approval, Mode
from applyprune.planning.applyset import PART_OF
from applyprune.planning.world import Siblings
from applyprune.values import replace
from tests.support.objects import DEPLOYMENT, config_map
from tests.support.stage import Stage, Story

if TYPE_CHECKING:
    from tests.support.api import Api

KEY = "source and account"
APPS = "/apis/apps/v1"
STATEFUL_SET = {**DEPLOYMENT, "kind": "StatefulSet", "metadata": {"name": "db"}}
WAITS = Siblings(KEY, ("the Bundle b",))
DECIDED = Siblings(KEY)
OFFERED = "offered to the Bundle b"


@pytest.fixture
def giver(stage: Stage) -> Stage:
    """The set of the Bundle a, with x and stays."""
    made = Stage(stage.kubeconfig, stage.namespace, name="a", owner=f"Bundle {stage.namespace}/a")
    made.run(config_map("x"), config_map("stays"))
    return made


@pytest.fixture
def taker(stage: Stage) -> Stage:
    """The set of the Bundle b."""
    return Stage(stage.kubeconfig, stage.namespace, name="b", owner=f"Bundle {stage.namespace}/b")


def uid_of(stage: Stage, api: Api) -> str:
    return str(api.get(stage.path("x"))["metadata"]["uid"])


def offers(stage: Stage) -> dict[str, str]:
    return {ref.name: one.offered for ref, one in stage.inventory().entries.items() if one.offered}


def is_refused(story: Story) -> bool:
    return story.exit_code == 3 and "belongs to the set" in story.problem("configmap/x")


@pytest.mark.holds("offered-to-siblings")
def test_offered_object_is_taken_as_owned(giver: Stage, taker: Stage, api: Api) -> None:
    """Each run does one step; the UID stays, and a later prune of the taker deletes it."""
    uid = uid_of(giver, api)
    assert is_refused(taker.run(config_map("x"), config_map("own"), siblings=DECIDED))
    offered = giver.run(config_map("stays"), siblings=WAITS)
    assert offered.exit_code == 0
    assert offered.outcomes["configmap/x"] is Outcome.NOT_PRUNED
    assert offered.reasons["configmap/x"] == OFFERED
    assert offers(giver) == {"x": KEY}
    assert is_refused(taker.run(config_map("x"), config_map("own"), siblings=Siblings("other")))
    assert is_refused(taker.run(config_map("x"), config_map("own")))
    taken = taker.run(config_map("x"), config_map("own"), siblings=DECIDED)
    assert taken.exit_code == 0
    assert {one.ownership for one in taker.inventory().entries.values()} == {Ownership.OWNED}
    done = giver.run(config_map("stays"), siblings=DECIDED)
    assert done.outcomes["configmap/x"] is Outcome.REMOVED_FROM_INVENTORY
    assert uid_of(giver, api) == uid
    taker.run(config_map("own"), siblings=DECIDED)
    assert not api.exists(taker.path("x"))


def test_offer_that_nobody_takes_ends_with_a_prune(giver: Stage, api: Api) -> None:
    """As long as a sibling is undecided nothing goes, and a run without news writes nothing."""
    giver.run(config_map("stays"), siblings=WAITS)
    before = api.get(giver.path("applyprune-a"))["metadata"]["resourceVersion"]
    again = giver.run(config_map("stays"), siblings=WAITS)
    assert again.reasons["configmap/x"] == OFFERED
    assert api.get(giver.path("applyprune-a"))["metadata"]["resourceVersion"] == before
    assert giver.run(config_map("stays"), siblings=DECIDED).outcomes["configmap/x"] is (
        Outcome.PRUNED
    )
    assert not api.exists(giver.path("x"))


def test_object_that_comes_back_is_not_offered(giver: Stage, taker: Stage) -> None:
    giver.run(config_map("stays"), siblings=WAITS)
    giver.run(config_map("x"), config_map("stays"), siblings=WAITS)
    assert offers(giver) == {}
    assert is_refused(taker.run(config_map("x"), config_map("own"), siblings=DECIDED))


def test_sets_swap_objects_although_both_are_refused(giver: Stage, taker: Stage, api: Api) -> None:
    """Each wants what the other one has: the offers are written by refused runs."""
    taker.run(config_map("y"), config_map("own"))
    uids = {name: api.get(giver.path(name))["metadata"]["uid"] for name in ("x", "y")}
    swapped = config_map("y"), config_map("stays")
    first = giver.run(*swapped, siblings=WAITS)
    assert first.exit_code == 3
    assert offers(giver) == {"x": KEY}
    second = taker.run(config_map("x"), config_map("own"), siblings=Siblings(KEY, ("a",)))
    assert second.exit_code == 0
    assert offers(taker) == {"y": KEY}
    assert giver.run(*swapped, siblings=DECIDED).exit_code == 0
    assert taker.run(config_map("x"), config_map("own"), siblings=DECIDED).exit_code == 0
    assert giver.listed() == {"configmap/y", "configmap/stays"}
    assert taker.listed() == {"configmap/x", "configmap/own"}
    assert {name: api.get(giver.path(name))["metadata"]["uid"] for name in uids} == uids


@pytest.mark.holds("approval-before-offer", row="Prune")
@pytest.mark.parametrize("approval", [Approval.PRUNE, Approval.ALWAYS], ids=str)
def test_unapproved_deletion_is_not_offered(giver: Stage, approval: Approval) -> None:
    """Whoever approves decides that the object leaves the set."""
    giver.run(config_map("stays"), siblings=WAITS, approval=approval)
    assert offers(giver) == {}


def test_approved_deletion_is_offered(giver: Stage) -> None:
    planned = giver.run(config_map("stays"), siblings=WAITS, approval=Approval.PRUNE)
    options = {"approval": Approval.PRUNE, "approved": planned.deletions}
    assert giver.run(config_map("stays"), siblings=WAITS, **options).exit_code == 0
    assert offers(giver) == {"x": KEY}
    done = giver.run(config_map("stays"), siblings=DECIDED, **options)
    assert done.outcomes["configmap/x"] is Outcome.PRUNED


@pytest.mark.parametrize("kind", ["ConfigMap", "StatefulSet"])
def test_guard_judges_only_what_nobody_takes(
    giver: Stage, taker: Stage, api: Api, kind: str
) -> None:
    """A set is split: more leaves it, or another kind, than a run may prune by itself."""
    moved = config_map("x") if kind == "ConfigMap" else STATEFUL_SET
    giver.run(moved, config_map("stays"), siblings=DECIDED)
    limit = {"max_prune": Stage.most(0)} if kind == "ConfigMap" else {}
    path = giver.path("x") if kind == "ConfigMap" else giver.path("db", "statefulsets", APPS)
    uid = api.get(path)["metadata"]["uid"]
    assert giver.run(config_map("stays"), siblings=WAITS, **limit).exit_code == 0
    assert giver.run(config_map("stays"), siblings=DECIDED, **limit).exit_code == 6
    assert taker.run(moved, config_map("own"), siblings=DECIDED).exit_code == 0
    assert giver.run(config_map("stays"), siblings=DECIDED, **limit).exit_code == 0
    assert api.get(path)["metadata"]["uid"] == uid


def test_other_fault_of_the_input_offers_nothing(giver: Stage) -> None:
    """The input may be half of what was meant."""
    broken = {**config_map("stays"), "data": {"key": "v"}, "immutable": True}
    giver.run(config_map("x"), broken)
    changed = {**broken, "data": {"key": "w"}}
    story = giver.run(changed, check=True, siblings=WAITS)
    assert story.exit_code == 3
    assert offers(giver) == {}


def test_sibling_with_approvals_takes_nothing(giver: Stage, taker: Stage) -> None:
    giver.run(config_map("stays"), siblings=WAITS)
    passive = Siblings(KEY, takes=False)
    assert is_refused(taker.run(config_map("x"), config_map("own"), siblings=passive))


def test_deleted_set_offers_all_that_it_owns(giver: Stage, taker: Stage, api: Api) -> None:
    """A renamed Bundle: the inventory stays until each sibling has decided."""
    uid = uid_of(giver, api)
    first = giver.run(mode=Mode.DELETE, siblings=WAITS)
    assert first.outcomes == dict.fromkeys(("configmap/x", "configmap/stays"), Outcome.NOT_PRUNED)
    assert taker.run(config_map("x"), siblings=DECIDED).exit_code == 0
    last = giver.run(mode=Mode.DELETE, siblings=DECIDED)
    assert last.outcomes["configmap/x"] is Outcome.REMOVED_FROM_INVENTORY
    assert last.outcomes["configmap/stays"] is Outcome.DELETED
    assert not api.exists(giver.path("applyprune-a"))
    assert uid_of(giver, api) == uid


@pytest.mark.holds("offer-before-deletion")
def test_object_that_is_being_deleted_is_no_longer_offered(giver: Stage, taker: Stage) -> None:
    """A run that was killed right before its DELETE has decided."""
    giver.run(config_map("stays"), siblings=WAITS)
    entries = {
        ref: replace(entry, deleting=True) if entry.offered else entry
        for ref, entry in giver.inventory().entries.items()
    }
    giver.rewrite(entries=entries)
    assert is_refused(taker.run(config_map("x"), config_map("own"), siblings=DECIDED))


def test_object_that_two_sets_want_has_one_owner(giver: Stage, taker: Stage, api: Api) -> None:
    """The second one is refused until the first one gives it."""
    third = Stage(giver.kubeconfig, giver.namespace, name="c", owner=f"Bundle {giver.namespace}/c")
    uid = uid_of(giver, api)
    giver.run(config_map("stays"), siblings=WAITS)
    wants = config_map("x"), config_map("of-c")
    assert taker.run(config_map("x"), config_map("own"), siblings=DECIDED).exit_code == 0
    assert is_refused(third.run(*wants, siblings=DECIDED))
    giver.run(config_map("stays"), siblings=DECIDED)
    taker.run(config_map("own"), siblings=Siblings(KEY, ("the Bundle c",)))
    assert third.run(*wants, siblings=DECIDED).exit_code == 0
    done = taker.run(config_map("own"), siblings=DECIDED)
    assert done.outcomes["configmap/x"] is Outcome.REMOVED_FROM_INVENTORY
    assert uid_of(giver, api) == uid


def forge(stage: Stage, offered: str) -> None:
    """Write into each entry of a set that it is offered, or that it is not."""
    entries = {
        ref: replace(entry, offered=offered) for ref, entry in stage.inventory().entries.items()
    }
    stage.rewrite(entries=entries)


@pytest.mark.parametrize("adopted", [False, True])
def test_forged_offer_gives_no_more_than_an_offer(
    giver: Stage, taker: Stage, api: Api, *, adopted: bool
) -> None:
    """Who may edit inventories has it: a sibling takes it as it was, and its set goes on alone."""
    if adopted:
        assert api("POST", giver.path(), config_map("found"))[0] == 201
        found = config_map("x"), config_map("stays"), config_map("found")
        assert giver.run(*found, adopt=Adopt.UNOWNED).exit_code == 0
    name = "found" if adopted else "x"
    uid = api.get(giver.path(name))["metadata"]["uid"]
    forge(giver, KEY)
    wants = config_map(name), config_map("own")
    assert taker.run(*wants, siblings=Siblings("other")).exit_code == 3
    assert taker.run(*wants, siblings=DECIDED).exit_code == 0
    has = {ref.name: entry.ownership for ref, entry in taker.inventory().entries.items()}
    assert has == {"own": Ownership.OWNED, name: Ownership.ADOPTED if adopted else Ownership.OWNED}
    still = giver.run(config_map("x"), config_map("stays"), siblings=DECIDED)
    assert still.exit_code == (0 if adopted else 3)
    giver.run(config_map("stays"), siblings=DECIDED, max_prune=Stage.most(2))
    assert f"configmap/{name}" not in giver.listed()
    assert api.get(giver.path(name))["metadata"]["uid"] == uid


def test_offer_that_an_older_version_drops_is_made_again(
    giver: Stage, taker: Stage, api: Api
) -> None:
    """One that does not know offers has led meanwhile, and has written the inventory."""
    uid = uid_of(giver, api)
    giver.run(config_map("stays"), siblings=WAITS)
    forge(giver, "")
    wants = config_map("x"), config_map("own")
    assert is_refused(taker.run(*wants, siblings=DECIDED))
    assert giver.run(config_map("stays"), siblings=WAITS).reasons["configmap/x"] == OFFERED
    assert taker.run(*wants, siblings=DECIDED).exit_code == 0
    assert uid_of(giver, api) == uid


def test_label_by_hand_moves_nothing(giver: Stage, taker: Stage, api: Api) -> None:
    """It has the label of the taker, which does not list it: no set deletes it."""
    uid = uid_of(giver, api)
    labels = {"metadata": {"labels": {PART_OF: taker.target.id}}}
    kind = "application/merge-patch+json"
    assert api("PATCH", giver.path("x"), labels, content_type=kind)[0] == 200
    giver.run(config_map("stays"), siblings=WAITS)
    assert offers(giver) == {}
    giver.run(config_map("stays"), siblings=DECIDED)
    taker.run(config_map("own"), siblings=DECIDED)
    assert uid_of(giver, api) == uid


def test_inventory_of_several_shards_offers_and_takes(
    giver: Stage, taker: Stage, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of more than a megabyte."""
    monkeypatch.setattr(inventory_format, "_PER_SHARD", 8)
    monkeypatch.setattr(inventory_format, "MAX_TEXT", 4 * 1024)
    moved = [config_map(f"m-{number:02}") for number in range(40)]
    stays = [config_map(f"s-{number:02}") for number in range(40)]
    assert giver.run(*moved, *stays, siblings=DECIDED, max_prune=Stage.most(2)).exit_code == 0

    def found() -> list[str]:
        return [api.get(giver.path(one["metadata"]["name"]))["metadata"]["uid"] for one in moved]

    before = found()
    assert giver.run(*stays, siblings=WAITS).exit_code == 0
    assert len(offers(giver)) == len(moved)
    assert taker.run(*moved, config_map("own"), siblings=DECIDED).exit_code == 0
    assert giver.run(*stays, siblings=DECIDED).exit_code == 0
    assert giver.listed() == {f"configmap/{one['metadata']['name']}" for one in stays}
    assert len(taker.inventory().entries) == len(moved) + 1
    names = [one["metadata"]["name"] for one in api.get(taker.path())["items"]]
    assert len([name for name in names if name.startswith("applyprune-b.")]) > 1
    assert found() == before

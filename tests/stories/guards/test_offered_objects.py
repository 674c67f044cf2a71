"""What one set gives to another: taken with ``--adopt set/NAME``, or offered to a sibling."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, AdoptFrom, Approval, Conflicts, DryRun, Mode
from applyprune.planning.applyset import PART_OF
from applyprune.planning.world import Siblings
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage, Story

GIVEN = AdoptFrom("other")


@pytest.fixture
def other(stage: Stage) -> Stage:
    """Another set of the namespace."""
    return Stage(stage.kubeconfig, stage.namespace, name="other")


def ownership_of(stage: Stage) -> dict[str, Ownership]:
    return {ref.name: one.ownership for ref, one in stage.inventory().entries.items()}


def test_object_moves_without_a_deletion(stage: Stage, other: Stage, api: Api) -> None:
    """The taker runs first; the giver's next run says who has it, and a delete takes it along."""
    other.run(config_map("x"), config_map("stays"))
    uid = api.get(other.path("x"))["metadata"]["uid"]
    planned = stage.run(config_map("x"), config_map("own"), adopt=GIVEN, dry_run=DryRun.SERVER)
    assert planned.outcomes["configmap/x"] is Outcome.UPDATED
    (step,) = (one for one in planned.plan.applies if one.desired.ref.name == "x")
    assert step.taken_from == (f"the set other in namespace {stage.namespace}",)
    taken = stage.run(config_map("x"), config_map("own"), adopt=GIVEN)
    assert taken.exit_code == 0
    assert ownership_of(stage) == {"x": Ownership.OWNED, "own": Ownership.OWNED}
    given = other.run(config_map("stays"))
    assert given.outcomes["configmap/x"] is Outcome.REMOVED_FROM_INVENTORY
    named = f"the set {stage.name} in namespace {stage.namespace}"
    assert given.reasons["configmap/x"] == f"it belongs to {named} now"
    assert other.listed() == {"configmap/stays"}
    assert api.get(other.path("x"))["metadata"]["uid"] == uid
    again = stage.run(config_map("x"), config_map("own"), adopt=GIVEN)
    assert again.outcomes["configmap/x"] is Outcome.UNCHANGED
    stage.run(config_map("own"))
    assert not api.exists(other.path("x"))


def test_set_is_renamed_without_a_deletion(stage: Stage, other: Stage, api: Api) -> None:
    """The delete of the old one takes only what the new one has not taken, and its record."""
    assert other.run(*map(config_map, "xy"), config_map("left")).exit_code == 0
    uids = {name: api.get(other.path(name))["metadata"]["uid"] for name in "xy"}
    assert stage.run(*map(config_map, "xy"), adopt=GIVEN).exit_code == 0
    gone = other.run(mode=Mode.DELETE)
    taken = dict.fromkeys(("configmap/x", "configmap/y"), Outcome.REMOVED_FROM_INVENTORY)
    assert gone.outcomes == {**taken, "configmap/left": Outcome.DELETED}
    assert not other.inventory().exists
    assert {name: api.get(other.path(name))["metadata"]["uid"] for name in "xy"} == uids
    assert set(stage.run(*map(config_map, "xy")).outcomes.values()) == {Outcome.UNCHANGED}
    assert stage.run(config_map("x")).outcomes["configmap/y"] is Outcome.PRUNED


def test_adopted_object_stays_adopted(stage: Stage, other: Stage, api: Api) -> None:
    """Whoever has it: neither set has created it, so neither deletes it."""
    api.create(stage.path(), config_map("theirs"))
    other.run(config_map("theirs"), config_map("stays"), conflicts=Conflicts.FORCE)
    stage.run(config_map("theirs"), config_map("own"), adopt=GIVEN)
    assert ownership_of(stage)["theirs"] is Ownership.ADOPTED
    gone = stage.run(config_map("own"))
    assert gone.outcomes["configmap/theirs"] is Outcome.ORPHANED
    assert api.exists(stage.path("theirs"))


def test_other_sets_and_labels_by_hand_give_nothing(stage: Stage, other: Stage, api: Api) -> None:
    third = Stage(stage.kubeconfig, stage.namespace, name="third")
    third.run(config_map("of-third"))
    other.run(config_map("stays"))
    api.create(stage.path(), config_map("by-hand", labels={PART_OF: other.target.id}))
    story = stage.run(config_map("of-third"), config_map("by-hand"), adopt=GIVEN)
    assert story.exit_code == 3
    assert "it belongs to the set third" in story.problem("configmap/of-third")
    assert "does not list its UID" in story.problem("configmap/by-hand")
    assert "configmap/of-third" in third.listed()


def test_fields_of_the_giver_leave_with_its_manifest(stage: Stage, other: Stage, api: Api) -> None:
    """A field that the taker's manifest lacks is removed, as it would be in one set."""
    first = of_kind("ConfigMap", "x", data={"a": "1", "b": "2"})
    other.run(first)
    stage.run(of_kind("ConfigMap", "x", data={"a": "3"}), adopt=GIVEN)
    assert api.get(stage.path("x"))["data"] == {"a": "3"}


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("number", range(4, 24))
@pytest.mark.sweep
def test_killed_taker_is_run_again(
    stage: Stage,
    other: Stage,
    api: Api,
    proxy: FaultProxy,
    tmp_path: Path,
    number: int,
    moment: Moment,
) -> None:
    """At each request: one set lists it, its UID stays, and the giver's prune deletes nothing."""
    other.run(config_map("x"), config_map("stays"))
    uid = api.get(other.path("x"))["metadata"]["uid"]
    files = write_input(tmp_path / "x.yaml", [config_map("x")])
    command = ["apply", stage.name, "-n", stage.namespace, "-f", str(files), "--adopt=set/other"]
    kill_at(proxy, number, moment, command, proxy.kubeconfig(tmp_path))
    assert stage.run(config_map("x"), adopt=GIVEN).exit_code == 0
    other.run(config_map("stays"))
    assert api.get(other.path("x"))["metadata"]["uid"] == uid
    assert (stage.listed(), other.listed()) == ({"configmap/x"}, {"configmap/stays"})
    assert ownership_of(stage) == {"x": Ownership.OWNED}


def test_workload_moves_without_a_rollout(stage: Stage, other: Stage, api: Api) -> None:
    """Its annotations alone change, for which its kind counts generations too."""
    other.run(DEPLOYMENT)
    path = stage.path(DEPLOYMENT["metadata"]["name"], "deployments", "/apis/apps/v1")
    before = api.get(path)
    stage.run(DEPLOYMENT, adopt=GIVEN)
    after = api.get(path)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


KEY = "source and account"
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


@pytest.mark.holds("approval-before-offer")
def test_unapproved_deletion_is_not_offered(giver: Stage) -> None:
    """Whoever approves decides that the object leaves the set."""
    planned = giver.run(config_map("stays"), siblings=WAITS, approval=Approval.PRUNE)
    assert offers(giver) == {}
    options = {"approval": Approval.PRUNE, "approved": planned.deletions}
    assert giver.run(config_map("stays"), siblings=WAITS, **options).exit_code == 0
    assert offers(giver) == {"x": KEY}


def test_guard_judges_only_what_nobody_takes(giver: Stage, taker: Stage, api: Api) -> None:
    """A set is split: more leaves it than a run may prune by itself."""
    uid, limit = uid_of(giver, api), {"max_prune": Stage.most(0)}
    assert giver.run(config_map("stays"), siblings=WAITS, **limit).exit_code == 0
    assert giver.run(config_map("stays"), siblings=DECIDED, **limit).exit_code == 6
    assert taker.run(config_map("x"), config_map("own"), siblings=DECIDED).exit_code == 0
    assert giver.run(config_map("stays"), siblings=DECIDED, **limit).exit_code == 0
    assert uid_of(giver, api) == uid


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


def forge(stage: Stage, offered: str) -> None:
    """Write into each entry of a set that it is offered, or that it is not."""
    entries = {
        ref: replace(entry, offered=offered) for ref, entry in stage.inventory().entries.items()
    }
    stage.rewrite(entries=entries)


def test_forged_offer_gives_no_more_than_an_offer(giver: Stage, taker: Stage, api: Api) -> None:
    """Who may edit inventories has it: a sibling takes it as it was, and its set goes on alone."""
    api.create(giver.path(), config_map("found"))
    found = config_map("x"), config_map("stays"), config_map("found")
    assert giver.run(*found, adopt=Adopt.UNOWNED).exit_code == 0
    forge(giver, KEY)
    wants = config_map("found"), config_map("own")
    assert taker.run(*wants, siblings=Siblings("other")).exit_code == 3
    assert taker.run(*wants, siblings=DECIDED).exit_code == 0
    has = {ref.name: entry.ownership for ref, entry in taker.inventory().entries.items()}
    assert has == {"own": Ownership.OWNED, "found": Ownership.ADOPTED}
    assert giver.run(config_map("x"), config_map("stays"), siblings=DECIDED).exit_code == 0
    assert "configmap/found" not in giver.listed()
    assert api.exists(giver.path("found"))

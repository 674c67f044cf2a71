"""An object that moves between two sets of a command keeps its UID; nobody prunes or orphans it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from applyprune.model.events import Event, InventoryWritten, ObjectDone, Planned
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, SECRET, config_map, of_kind
from tests.support.repository import Repository
from tests.support.set_folders import SetFolders

X, Y, Z = (config_map(name) for name in "xyz")
STAYS = {name: config_map(f"of-{name}") for name in "abc"}
"""What each set keeps."""


def write(sets: SetFolders, layout: Mapping[str, list[dict[str, Any]]], **keys: Any) -> None:
    """Write sets with these objects beside what they keep; ``keys`` are those of each file."""
    for name, bodies in layout.items():
        sets.write(name, STAYS[name], *bodies, **keys.get(name, {}))


def uids(api: Api, sets: SetFolders, *names: str) -> dict[str, str]:
    """Return the UIDs of ConfigMaps."""
    found = {name: api.get(sets.stage("a").path(name)) for name in names}
    return {name: one["metadata"]["uid"] for name, one in found.items()}


def has(sets: SetFolders, api: Api, layout: Mapping[str, str]) -> None:
    """Fail unless each set lists exactly these objects, as owned, and they have its label."""
    for name, moved in layout.items():
        stage = sets.stage(name)
        entries = stage.inventory().entries
        assert {ref.name for ref in entries} == {f"of-{name}", *moved}
        assert {one.ownership for one in entries.values()} == {Ownership.OWNED}
        for one in moved:
            labels = api.get(stage.path(one))["metadata"]["labels"]
            assert labels[PART_OF] == stage.target.id


NEEDS = {
    "without an order": {},
    "the giver first": {"b": {"dependsOn": ["a"]}},
    "the taker first": {"a": {"dependsOn": ["b"]}},
}
WAYS: dict[str, tuple[dict[str, list[Any]], dict[str, list[Any]]]] = {
    "from a to b": ({"a": [X], "b": []}, {"a": [], "b": [X]}),
    "from b to a": ({"a": [], "b": [X]}, {"a": [X], "b": []}),
    "a swap": ({"a": [X], "b": [Y]}, {"a": [Y], "b": [X]}),
    "a chain": ({"a": [X], "b": [Y], "c": []}, {"a": [], "b": [X], "c": [Y]}),
    "a ring": ({"a": [X], "b": [Y], "c": [Z]}, {"a": [Z], "b": [X], "c": [Y]}),
}


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_object_moves_in_one_command(
    sets: SetFolders, api: Api, audit: AuditTrail, way: Any, needs: Any
) -> None:
    """Whatever the sets are called, and whichever waits for the other; nothing is deleted."""
    before, after = way
    write(sets, before, **needs)
    assert sets.apply().end.exit_code == 0
    moved = sorted(body["metadata"]["name"] for bodies in before.values() for body in bodies)
    known = uids(api, sets, *moved)
    write(sets, after, **needs)
    audit.restart()
    planned = sets.plan()
    assert planned.end.exit_code == 0
    assert writes(audit) == []
    story = sets.apply()
    assert story.end.exit_code == 0, story.events
    assert story.outcomes == planned.outcomes
    assert not [one for one in writes(audit) if one.startswith("delete")]
    assert uids(api, sets, *moved) == known
    has(sets, api, {name: {one["metadata"]["name"] for one in now} for name, now in after.items()})
    again = sets.apply()
    assert set(again.outcomes.values()) == {"unchanged"}


def test_objects_of_other_kinds_and_scopes_move(sets: SetFolders, api: Api) -> None:
    """A ClusterRole; a Secret, whose values nobody sees; a Deployment, without a rollout."""
    role = of_kind("ClusterRole", f"moves-{sets.namespace}", rules=[])
    bodies = [role, SECRET, DEPLOYMENT]
    write(sets, {"a": bodies, "b": []})
    assert sets.apply("--wait").end.exit_code == 0
    stage = sets.stage("a")
    paths = [
        f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role['metadata']['name']}",
        stage.path("s", "secrets"),
        stage.path("web", "deployments", "/apis/apps/v1"),
    ]
    before = [api.get(path) for path in paths]
    pods = {one["metadata"]["uid"] for one in api.get(stage.path("", "pods"))["items"]}
    write(sets, {"a": [], "b": bodies})
    story = sets.apply("--wait")
    assert story.end.exit_code == 0, story.events
    after = [api.get(path) for path in paths]
    assert [one["metadata"]["uid"] for one in after] == [one["metadata"]["uid"] for one in before]
    assert after[2]["spec"] == before[2]["spec"]
    assert {one["metadata"]["uid"] for one in api.get(stage.path("", "pods"))["items"]} == pods
    assert sets.listed("a", "b") == {"a": {"of-a"}, "b": {"of-b", role["metadata"]["name"], "s", "web"}}
    write(sets, {"a": [], "b": []})
    assert sets.apply("--max-prune", "3").end.exit_code == 0
    assert not any(map(api.exists, paths))


def test_adopted_object_stays_adopted(sets: SetFolders, api: Api) -> None:
    """No set has created it, so none deletes it: also after it has moved."""
    api.create(sets.stage("a").path(), X)
    write(sets, {"a": [X], "b": []})
    assert sets.apply("--force-conflicts").end.exit_code == 0
    write(sets, {"a": [], "b": [X]})
    assert sets.apply().end.exit_code == 0
    entries = sets.stage("b").inventory().entries
    assert [one.ownership for ref, one in entries.items() if ref.name == "x"] == [Ownership.ADOPTED]
    write(sets, {"a": [], "b": []})
    assert sets.apply().outcomes["b/x"] == "orphaned"
    assert api.exists(sets.stage("a").path("x"))


# The taker fails.


def other_manager(api: Api, sets: SetFolders) -> None:
    """Let somebody else own the field that the taker wants to change."""
    api.apply(sets.stage("a").path("x"), config_map("x", "theirs"), by="them", force=True)


@pytest.mark.parametrize("fault", ["conflict", "refused prune", "not run"])
@pytest.mark.holds("claimed-stays")
def test_object_of_a_taker_that_fails_stays_with_its_giver(
    sets: SetFolders, api: Api, fault: str
) -> None:
    """It is neither pruned nor orphaned, and the next command mends it."""
    write(sets, {"a": [X], "b": [Y] * 1, "c": []})
    sets.write("b", STAYS["b"], *(config_map(f"old-{number}") for number in range(6)))
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x")
    write(sets, {"a": []})
    if fault == "conflict":
        other_manager(api, sets)
    if fault == "not run":
        api.create(sets.stage("a").path(), config_map("theirs"))
        sets.write("c", config_map("theirs"), adopt="none")
    olds = [] if fault == "refused prune" else [config_map(f"old-{one}") for one in range(6)]
    needs = ["c"] if fault == "not run" else []
    sets.write("b", STAYS["b"], config_map("x", "new"), *olds, dependsOn=needs)
    story = sets.apply()
    assert story.exit_codes["b"] > 1
    assert story.end.exit_code > 1
    assert story.outcomes["a/x"] == "left", story.outcomes
    assert story.sets["a"].reasons["configmap/x"] == f"it moves to the set {sets.namespace}/b"
    assert uids(api, sets, "x") == known
    assert sets.listed("a") == {"a": {"of-a", "x"}}
    sets.write("b", STAYS["b"], config_map("x", "new"), *olds, conflicts="force", max__prune="6")
    sets.write("c", STAYS["c"])
    assert sets.apply().end.exit_code == 0
    assert uids(api, sets, "x") == known
    assert sets.listed("a") == {"a": {"of-a"}}
    assert "x" in sets.listed("b")["b"]


def test_input_that_cannot_be_read_may_have_what_moves(sets: SetFolders, api: Api) -> None:
    """As long as it is unknown, no set of the command deletes anything."""
    write(sets, {"a": [X, Y], "b": []})
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x", "y")
    write(sets, {"a": [], "b": [X]})
    good = (sets.folder / "b" / "m.json").read_text()
    (sets.folder / "b" / "m.json").write_text(good + "{")
    for story in (sets.plan(), sets.apply()):
        assert story.exit_codes == {"a": 0, "b": 2}
        assert story.outcomes["a/x"] == story.outcomes["a/y"] == "not-pruned"
        assert f"the input of the set {sets.namespace}/b" in story.sets["a"].reasons["configmap/x"]
    assert uids(api, sets, "x", "y") == known
    (sets.folder / "b" / "m.json").write_text(good)
    done = sets.apply()
    assert done.end.exit_code == 0
    assert (done.outcomes["b/x"], done.outcomes["a/y"]) == ("updated", "pruned")
    assert uids(api, sets, "x") == {"x": known["x"]}


# What is no move.


@pytest.mark.holds("given-in-command")
def test_set_outside_of_the_command_gives_nothing(
    sets: SetFolders, api: Api, tmp_path: Path
) -> None:
    """It is not concerned by the change, so nobody has read that it gives something."""
    repository = Repository(tmp_path / "repository")
    sets.folder = repository.root / "sets"
    write(sets, {"a": [X], "b": []})
    repository.commit()
    assert sets.apply().end.exit_code == 0
    write(sets, {"b": [X]})
    story = sets.apply(since="HEAD")
    assert story.exit_codes == {"b": 3}
    assert "it belongs to the set a" in story.sets["b"].problem("configmap/x")
    assert story.warnings == ["1 set is not concerned by this change"]
    write(sets, {"a": []})
    assert sets.apply(since="HEAD").exit_codes == {"a": 0, "b": 0}


def test_object_of_a_set_whose_folder_is_gone_is_taken(
    sets: SetFolders, api: Api, tmp_path: Path
) -> None:
    """A note names the set and the command that deletes the rest of it."""
    repository = Repository(tmp_path / "repository")
    sets.folder = repository.root / "sets"
    write(sets, {"a": [X], "b": []})
    repository.commit()
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x", "of-a")
    sets.remove("a")
    write(sets, {"b": [X]})
    story = sets.apply(since="HEAD")
    assert story.exit_codes == {"b": 0}, story.events
    (note,) = story.warnings
    assert f"the set {sets.namespace}/a is gone" in note
    assert f"applyprune delete a -n {sets.namespace}" in note
    assert uids(api, sets, "x", "of-a") == known
    assert "x" in sets.listed("b")["b"]


@pytest.mark.holds("claimed-twice")
def test_object_of_two_sets_ends_both_before_anything_is_written(
    sets: SetFolders, api: Api, audit: AuditTrail
) -> None:
    """Each names the other with its line; a third set goes on."""
    write(sets, {"a": [X], "b": [X], "c": []})
    planned, story = sets.plan(), sets.apply()
    assert planned.exit_codes == story.exit_codes == {"a": 2, "b": 2, "c": 0}
    assert f"configmap/x -n {sets.namespace} is in the input of the set" in story.errors("a")
    assert "b/m.json:2:1" in story.errors("a")
    assert not api.exists(sets.stage("a").path("x"))
    assert not [one for one in writes(audit) if "applyprune-a" in one or "applyprune-b" in one]


@pytest.mark.holds("needed-only")
def test_object_that_a_set_only_needs_is_no_claim(sets: SetFolders, api: Api) -> None:
    """It belongs to the other set, whichever is first; it is not given to whoever needs it."""
    needed = config_map("x", annotations={"applyprune.dev/apply": "exists"})
    write(sets, {"a": [X], "b": [needed]}, b={"dependsOn": ["a"]})
    assert sets.apply().exit_codes == {"a": 0, "b": 0}
    assert "x" not in sets.listed("b")["b"]
    write(sets, {"a": [], "b": [needed]}, b={"dependsOn": ["a"]})
    story = sets.apply("--max-prune", "1")
    assert story.outcomes["a/x"] == "pruned"


@pytest.mark.holds("claimed-by-giver")
def test_set_takes_no_object_that_its_owner_still_has(sets: SetFolders, api: Api) -> None:
    """Both have it in their input, one of them only since the plan: neither gives it."""

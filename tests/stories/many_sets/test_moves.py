"""An object that moves between two sets of a command keeps its UID; nobody prunes or orphans it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, SECRET, config_map, crd, custom_resource, of_kind
from tests.support.repository import Repository
from tests.support.set_folders import SetFolders
from tests.support.stage import Stage

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


def has(sets: SetFolders, api: Api, name: str, moved: Collection[str]) -> None:
    """Fail unless a set lists exactly these objects, as owned, and they have its label."""
    stage = sets.stage(name)
    entries = stage.inventory().entries
    assert {ref.name for ref in entries} == {f"of-{name}", *moved}
    assert {one.ownership for one in entries.values()} == {Ownership.OWNED}
    for one in moved:
        assert api.get(stage.path(one))["metadata"]["labels"][PART_OF] == stage.target.id


GIVER_FIRST, TAKER_FIRST = {"b": {"dependsOn": ["a"]}}, {"a": {"dependsOn": ["b"]}}
WAYS: dict[str, tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, Any]]] = {
    "from a to b": ({"a": [X], "b": []}, {"a": [], "b": [X]}, {}),
    "from b to a": ({"a": [], "b": [X]}, {"a": [X], "b": []}, {}),
    "the giver first": ({"a": [X], "b": []}, {"a": [], "b": [X]}, GIVER_FIRST),
    "the taker first": ({"a": [X], "b": []}, {"a": [], "b": [X]}, TAKER_FIRST),
    "a swap": ({"a": [X], "b": [Y]}, {"a": [Y], "b": [X]}, {}),
    "a swap in order": ({"a": [X], "b": [Y]}, {"a": [Y], "b": [X]}, GIVER_FIRST),
    "a chain": ({"a": [X], "b": [Y], "c": []}, {"a": [], "b": [X], "c": [Y]}, {}),
    "a ring": ({"a": [X], "b": [Y], "c": [Z]}, {"a": [Z], "b": [X], "c": [Y]}, {}),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_object_moves_in_one_command(
    sets: SetFolders, api: Api, audit: AuditTrail, way: Any
) -> None:
    """Whatever the sets are called, and whichever waits for the other; nothing is deleted."""
    before, after, needs = way
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
    for name, now in after.items():
        has(sets, api, name, {one["metadata"]["name"] for one in now})
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
    assert sets.listed("a", "b") == {
        "a": {"of-a"},
        "b": {"of-b", role["metadata"]["name"], "s", "web"},
    }
    write(sets, {"a": [], "b": []})
    assert sets.apply("--max-prune", "3").end.exit_code == 0
    assert not any(map(api.exists, paths))


@pytest.mark.holds("given-in-command")
def test_adopted_object_stays_adopted(sets: SetFolders, api: Api) -> None:
    """No set has created it, so none deletes it: also after it has moved."""
    api.create(sets.stage("a").path(), X)
    write(sets, {"a": [X], "b": []})
    assert sets.apply("--conflicts=force").end.exit_code == 0
    write(sets, {"a": [], "b": [X]})
    assert sets.apply().end.exit_code == 0
    entries = sets.stage("b").inventory().entries
    assert [one.ownership for ref, one in entries.items() if ref.name == "x"] == [Ownership.ADOPTED]
    write(sets, {"a": [], "b": []})
    assert sets.apply().outcomes["b/x"] == "orphaned"
    assert api.exists(sets.stage("a").path("x"))


def test_crd_moves_and_its_custom_resources_stay(crd_sets: SetFolders, crds: Api) -> None:
    """A deletion of the CRD would take those of all other sets with it."""
    kind = "Handed"
    path = crd_sets.stage("users").path("one", "handeds", "/apis/x.example.com/v1")
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/handeds.x.example.com"
    crd_sets.write("users", custom_resource("one", kind), dependsOn=["a", "b"])
    write(crd_sets, {"a": [crd(kind)], "b": []})
    assert crd_sets.apply().end.exit_code == 0
    known = [crds.get(one)["metadata"]["uid"] for one in (path, definition)]
    write(crd_sets, {"a": [], "b": [crd(kind)]})
    assert crd_sets.apply().end.exit_code == 0
    assert [crds.get(one)["metadata"]["uid"] for one in (path, definition)] == known
    assert crd_sets.listed("a", "b") == {"a": {"of-a"}, "b": {"of-b", "handeds.x.example.com"}}


def test_namespace_moves_from_the_set_that_lives_in_it(
    sets: SetFolders, api: Api, fresh_name: str
) -> None:
    """Its set and all that is in it stay; its new set never deletes it with them in it."""
    home = of_kind("Namespace", fresh_name)
    sets.write("a", STAYS["a"], home, namespace=fresh_name)
    sets.write("b", STAYS["b"])
    assert sets.apply().end.exit_code == 0
    path = f"/api/v1/namespaces/{fresh_name}"
    uid = api.get(path)["metadata"]["uid"]
    sets.write("a", STAYS["a"], namespace=fresh_name)
    sets.write("b", STAYS["b"], home)
    planned, story = sets.plan(), sets.apply()
    assert planned.outcomes == story.outcomes
    assert story.exit_codes == {"a": 0, "b": 0}
    assert api.get(path)["metadata"]["uid"] == uid
    assert api.get(path)["metadata"]["labels"][PART_OF] == sets.stage("b").target.id
    assert sets.stage("a", fresh_name).listed() == {"configmap/of-a"}
    sets.write("b", STAYS["b"])
    assert sets.apply("--max-prune", "1").exit_codes["b"] in {0, 6}
    assert "deletionTimestamp" not in api.get(path)["metadata"]


def test_set_that_only_needs_what_it_had_gives_it(sets: SetFolders, api: Api) -> None:
    """It is still in its input, as what must exist."""
    needed = config_map("x", annotations={"applyprune.dev/apply": "exists"})
    write(sets, {"a": [X], "b": []})
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x")
    write(sets, {"a": [needed], "b": [X]})
    story = sets.apply()
    assert story.end.exit_code == 0, story.events
    assert uids(api, sets, "x") == known
    assert sets.apply().end.exit_code == 0
    assert sets.listed("a", "b") == {"a": {"of-a"}, "b": {"of-b", "x"}}


def test_object_moves_to_a_set_of_another_namespace(
    sets: SetFolders, api: Api, fresh_name: str
) -> None:
    """It stays in its own namespace; only the inventory is elsewhere."""
    api.create("/api/v1/namespaces", of_kind("Namespace", fresh_name))
    sets.write("a", STAYS["a"], config_map("x", namespace=sets.namespace))
    sets.write("b", STAYS["b"], namespace=fresh_name)
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x")
    sets.write("a", STAYS["a"])
    sets.write("b", STAYS["b"], config_map("x", namespace=sets.namespace), namespace=fresh_name)
    assert sets.apply().outcomes == {
        "a/of-a": "unchanged", "a/x": "removed-from-inventory",
        "b/of-b": "unchanged", "b/x": "updated",
    }  # fmt: skip
    assert uids(api, sets, "x") == known


def test_set_whose_objects_all_leave_may_keep_nothing_but_one(sets: SetFolders, api: Api) -> None:
    """What moves is no deletion, so it does not count for the limits of a prune."""
    many = [config_map(f"many-{number}") for number in range(8)]
    write(sets, {"a": many, "b": []})
    assert sets.apply().end.exit_code == 0
    write(sets, {"a": [], "b": many})
    assert sets.plan().end.exit_code == 0
    assert sets.apply().exit_codes == {"a": 0, "b": 0}
    assert sets.listed("a") == {"a": {"of-a"}}


def test_giver_that_fails_gives_nevertheless(sets: SetFolders, api: Api) -> None:
    """Its input has the object no more; its next run says who has it."""
    write(sets, {"a": [X], "b": []})
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x")
    api.create(sets.stage("a").path(), config_map("theirs"))
    sets.write("a", STAYS["a"], config_map("theirs"), adopt="none")
    write(sets, {"b": [X]})
    story = sets.apply()
    assert story.exit_codes == {"a": 3, "b": 0}
    assert uids(api, sets, "x") == known
    write(sets, {"a": []})
    assert sets.apply().outcomes["a/x"] == "removed-from-inventory"
    assert uids(api, sets, "x") == known


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
    write(sets, {"a": [X], "c": []})
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
    assert story.outcomes["a/x"] == "not-pruned"
    assert story.sets["a"].reasons["configmap/x"] == f"it moves to the set {sets.namespace}/b"
    assert uids(api, sets, "x") == known
    assert sets.listed("a") == {"a": {"of-a", "x"}}
    sets.write("b", STAYS["b"], config_map("x", "new"), *olds)
    sets.write("c", STAYS["c"])
    assert sets.apply("--conflicts=force", "--max-prune=6").end.exit_code == 0
    assert uids(api, sets, "x") == known
    assert sets.listed("a") == {"a": {"of-a"}}
    assert "x" in sets.listed("b")["b"]


@pytest.mark.holds("unread-input-may-claim")
def test_input_that_cannot_be_read_may_have_what_moves(sets: SetFolders, api: Api) -> None:
    """As long as it is unknown, no set of the command deletes anything."""
    write(sets, {"a": [X, Y, Z], "b": []})
    assert sets.apply().end.exit_code == 0
    known = uids(api, sets, "x", "y")
    write(sets, {"a": [Z], "b": [X]})
    good = (sets.folder / "b" / "m.json").read_text()
    (sets.folder / "b" / "m.json").write_text(good + "{")
    for story in (sets.plan("--max-prune=2"), sets.apply("--max-prune=2")):
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


def test_set_outside_of_the_command_gives_nothing(
    sets: SetFolders, api: Api, tmp_path: Path
) -> None:
    """It is not concerned by the change, so nobody has read that it gives something."""
    repository = Repository(tmp_path / "repository")
    sets.folder = repository.root / "sets"
    write(sets, {"a": [X], "b": []})
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "first")
    assert sets.apply().end.exit_code == 0
    write(sets, {"b": [X]})
    story = sets.apply(since="HEAD")
    assert story.exit_codes == {"b": 3}
    assert "it belongs to the set a" in story.sets["b"].problem("configmap/x")
    assert story.warnings == ["1 set is not concerned by this change"]
    write(sets, {"a": []})
    assert sets.apply(since="HEAD").exit_codes == {"a": 0, "b": 0}


@pytest.mark.holds("bundle-gives-nothing")
def test_set_of_a_bundle_gives_nothing(sets: SetFolders, api: Api) -> None:
    """The command may not run it, so it does not know what its Bundle still has."""
    owner = f"Bundle {sets.namespace}/a"
    bundled = Stage(sets.kubeconfig, sets.namespace, name="a", owner=owner)
    assert bundled.run(X, STAYS["a"]).exit_code == 0
    write(sets, {"a": [], "b": [X]})
    story = sets.apply()
    assert story.exit_codes == {"a": 2, "b": 3}
    assert "it belongs to the set a" in story.sets["b"].problem("configmap/x")
    assert bundled.run(X, STAYS["a"]).outcomes["configmap/x"] is Outcome.UNCHANGED


def test_object_of_a_set_whose_folder_is_gone_is_taken(
    sets: SetFolders, api: Api, tmp_path: Path
) -> None:
    """A note names the set and the command that deletes the rest of it."""
    repository = Repository(tmp_path / "repository")
    sets.folder = repository.root / "sets"
    write(sets, {"a": [X], "b": []})
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "first")
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
    for name, other in ("ab", "ba"):
        assert f"is in the input of the set {sets.namespace}/{other}, too" in story.errors(name)
        assert f"{other}/m.json:2" in story.errors(name)
    assert not api.exists(sets.stage("a").path("x"))
    assert not [one for one in writes(audit) if "applyprune-a" in one or "applyprune-b" in one]


@pytest.mark.holds("needed-only")
def test_object_that_a_set_only_needs_is_not_claimed(sets: SetFolders, api: Api) -> None:
    """It belongs to the other set, whichever is first; it is not given to whoever needs it."""
    needed = config_map("x", annotations={"applyprune.dev/apply": "exists"})
    write(sets, {"a": [X], "b": [needed]}, b={"dependsOn": ["a"]})
    assert sets.apply().exit_codes == {"a": 0, "b": 0}
    assert "x" not in sets.listed("b")["b"]
    write(sets, {"a": [], "b": [needed]}, b={"dependsOn": ["a"]})
    story = sets.apply("--max-prune", "1")
    assert story.outcomes["a/x"] == "pruned"


@pytest.mark.holds("claimed-by-giver")
def test_object_that_its_set_still_has_is_not_given(crd_sets: SetFolders, crds: Api) -> None:
    """Only the server knows that a custom kind is without namespaces, so nobody could see it."""
    kind, name = "Undivided", f"x-{crd_sets.namespace}"
    crd_sets.write("kinds", crd(kind, scope="Cluster"))
    crd_sets.write("a", custom_resource(name, kind))
    assert crd_sets.apply().end.exit_code == 0
    crd_sets.write("b", custom_resource(name, kind), namespace="default")
    story = crd_sets.apply()
    assert story.exit_codes == {"kinds": 0, "a": 0, "b": 3}
    assert "it belongs to the set a" in str(story.sets["b"].of(ObjectDone)[0].problem)

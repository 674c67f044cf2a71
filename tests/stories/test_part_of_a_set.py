"""A part of a set, by name or by labels, and its objects in another namespace: the rest stays."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from applyprune.errors import EmptyInput, InputErrors, InventoryError, PruneRefused, UsageError
from applyprune.model.events import InventoryWritten, Phase
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.model.text import parse_selector
from applyprune.planning.applyset import PART_OF
from applyprune.planning.order import DEPENDS_ON
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, temporary_namespace, writes
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import SECRET, SERVICE, config_map, of_kind
from tests.support.selectors import BAD, GOOD, LABELS, MATCHES
from tests.support.stage import Stage, Story

WEB = parse_selector("app=web")
DELETE: dict[str, Any] = {"mode": Mode.DELETE, "select_labels": WEB}


def labelled(name: str, app: str, value: str = "v", **metadata: Any) -> dict[str, Any]:
    return config_map(name, value, labels={"app": app}, **metadata)


def exist(stage: Stage, api: Api) -> str:
    path = stage.path()
    return "".join(name for name in "abcd" if api.exists(f"{path}/{name}"))


@pytest.mark.holds("part-of-input")
def test_named_objects_are_applied_and_nothing_is_pruned(stage: Stage, api: Api) -> None:
    """By any name that kubectl takes; a name without a match writes nothing."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    given = (config_map("a", "new"), config_map("b", "new"), SERVICE)
    story = stage.run(*given, only=frozenset({"cm/a", "svc/web"}))
    assert story.outcomes == {"configmap/a": Outcome.UPDATED, "service/web": Outcome.CREATED}
    (warning,) = story.warnings
    assert "--only configmap/a --only service/web selects only a part of the set" in warning
    assert "2 other objects in the inventory do not change" in warning
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c", "service/web"}
    assert api.get(stage.path("b"))["data"] == {"key": "v"}
    before = stage.inventory()
    for name, words in {
        "cm/lost": "the input has no configmap/lost",
        "cm/c": "the inventory lists configmap/c",
        "nonsense/a": "no matches for kind nonsense",
    }.items():
        with pytest.raises(UsageError) as caught:
            stage.run(*given, only=frozenset({"cm/a", name}))
        assert words in f"{caught.value.message} {caught.value.reason}"
    assert stage.inventory() == before
    # A full run converges again: what has left is pruned, what was skipped is applied.
    story = stage.run(*given)
    assert story.outcomes["configmap/c"] is Outcome.PRUNED
    assert story.outcomes["configmap/b"] is Outcome.UPDATED


@pytest.mark.holds("whole-set")
def test_part_of_a_set_is_deleted_by_name(stage: Stage, api: Api) -> None:
    """The rest and the inventory stay; the names must be listed."""
    stage.run(*map(config_map, "abcd"))
    story = stage.run(mode=Mode.DELETE, select=frozenset({"cm/a", "configmaps/b"}))
    assert story.outcomes == {"configmap/a": Outcome.DELETED, "configmap/b": Outcome.DELETED}
    (warning,) = story.warnings
    assert warning.startswith("the inventory stays: --only configmap/a --only configmap/b")
    assert "2 other objects in the inventory do not change" in warning
    assert stage.listed() == {"configmap/c", "configmap/d"}
    assert exist(stage, api) == "cd"
    with pytest.raises(UsageError, match="does not list configmap/lost"):
        stage.run(mode=Mode.DELETE, select=frozenset({"cm/lost", "cm/c"}))
    assert exist(stage, api) == "cd"
    # Even if the part is all of it: `delete` without a part removes the inventory.
    stage.run(mode=Mode.DELETE, select=frozenset({"cm/c", "cm/d"}))
    assert stage.inventory().exists
    assert stage.listed() == set()
    stage.run(mode=Mode.DELETE)
    assert not stage.inventory().exists
    with pytest.raises(UsageError, match="there is no set web"):
        stage.run(mode=Mode.DELETE, select=frozenset({"cm/c"}))


def test_part_of_a_set_is_deleted_by_the_labels_of_live_objects(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Not by those of a manifest; what is gone has no labels, and stays listed."""
    stage.run(labelled("a", "web"), labelled("b", "db"), labelled("c", "web"), labelled("d", "web"))
    api.patch(stage.path("c"), {"metadata": {"labels": {"app": "other"}}})
    api("DELETE", stage.path("d"))
    audit.restart()
    dry = stage.run(**DELETE, dry_run=DryRun.SERVER)
    assert (dry.outcomes, writes(audit)) == ({"configmap/a": Outcome.DELETED}, [])
    story = stage.run(**DELETE)
    assert story.outcomes == {"configmap/a": Outcome.DELETED}
    assert any("-l app=web selects only a part of the set" in one for one in story.warnings)
    assert exist(stage, api) == "bc"
    assert stage.listed() == {"configmap/b", "configmap/c", "configmap/d"}
    audit.restart()
    with pytest.raises(UsageError, match="-l app=web matches none of the 3 objects of the set"):
        stage.run(**DELETE)
    assert not writes(audit)


def test_object_that_cannot_be_read_is_not_deleted_by_labels(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """It may match: the run says so, and deletes only what certainly does."""
    service = {**SERVICE, "metadata": {"name": "web", "labels": {"app": "web"}}}
    spoiled.run(service, SECRET)
    broken = faults.status(403, "Forbidden", "secrets is forbidden")

    def is_secret(seen: Exchange) -> bool:
        return "/secrets" in seen.path

    proxy.rule = always(broken, where=is_secret)
    story = spoiled.run(**DELETE)
    assert story.outcomes == {"service/web": Outcome.DELETED, "secret/s": Outcome.FAILED}
    assert "secrets cannot be read" in story.problem("secret/s")
    assert spoiled.listed() == {"secret/s"}
    assert api.exists(f"/api/v1/namespaces/{spoiled.namespace}/secrets/s")


@pytest.mark.holds("selected-labels")
def test_object_that_loses_the_labels_before_its_delete_stays(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The delete is decided again, by the labels that it has then."""
    spoiled.run(labelled("a", "web"), labelled("b", "db"))

    done = proxy.before_first(
        lambda seen: seen.method == "DELETE",
        lambda: api.patch(spoiled.path("a"), {"metadata": {"labels": {"app": "db"}}}),
    )
    story = spoiled.run(**DELETE)
    assert done
    assert story.outcomes == {"configmap/a": Outcome.NOT_PRUNED}
    assert exist(spoiled, api) == "ab"
    assert spoiled.listed() == {"configmap/a", "configmap/b"}


@pytest.mark.holds("part-dependents")
def test_part_that_the_rest_depends_on_is_not_deleted(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """By depends-on; with the dependent object, it is deleted after it."""
    needs = {DEPENDS_ON: f"/namespaces/{stage.namespace}/ConfigMap/a"}
    stage.run(config_map("a"), config_map("b", annotations=needs), config_map("c"))
    audit.restart()
    with pytest.raises(PruneRefused) as caught:
        stage.run(mode=Mode.DELETE, select=frozenset({"cm/a", "cm/c"}))
    assert "configmap/b depends on configmap/a" in caught.value.message
    assert not writes(audit)
    stage.run(mode=Mode.DELETE, select=frozenset({"cm/a", "cm/b"}))
    assert exist(stage, api) == "c"


def test_named_object_in_one_of_two_namespaces(stage: Stage, api: Api, home: str) -> None:
    """NAMESPACE/KIND/NAME names one of them; the Namespace of the rest is not deleted."""
    given = (of_kind("Namespace", home), config_map("a"), config_map("a", namespace=home))
    stage.run(*given, only=frozenset({f"ns/{home}", f"{home}/cm/a"}))
    assert [ref.namespace for ref in stage.inventory().entries] == [home, ""]
    stage.run(*given)
    story = stage.run(mode=Mode.DELETE, select=frozenset({f"ns/{home}"}))
    assert story.exit_code == 6
    told = story.refusal + story.problem(f"namespace/{home}")
    assert f"{home}/configmap/a: it stays in this set" in told
    assert api.get(f"/api/v1/namespaces/{home}")["status"]["phase"] == "Active"
    story = stage.run(mode=Mode.DELETE, select=frozenset({f"{home}/cm/a"}))
    assert story.outcomes == {"configmap/a": Outcome.DELETED}
    assert [ref.namespace for ref in stage.inventory().entries] == [stage.namespace, ""]


@pytest.mark.holds("protected-in-part")
def test_namespace_of_the_inventory_stays_listed_if_only_that_is_deleted(
    stage: Stage, api: Api, home: str
) -> None:
    """It is neither deleted nor unlisted, and the exit code says so; to orphan it is possible."""
    there, name = replace(stage, namespace=home), f"namespace/{home}"
    options: dict[str, Any] = {"mode": Mode.DELETE, "select": frozenset({name, "cm/b"})}
    there.run(of_kind("Namespace", home), config_map("a"), config_map("b"))
    story = there.run(**options)
    assert story.exit_code == 3, story.events
    assert story.outcomes == {name: Outcome.FAILED, "configmap/b": Outcome.DELETED}
    assert "it contains this set's inventory" in story.problem(name)
    assert there.listed() == {name, "configmap/a"}
    assert PART_OF in api.get(f"/api/v1/namespaces/{home}")["metadata"]["labels"]
    story = there.run(**{**options, "select": frozenset({name})}, orphan=frozenset({name}))
    assert story.outcomes == {name: Outcome.ORPHANED}


def test_part_of_a_set_whose_inventory_is_lost(stage: Stage, api: Api) -> None:
    """A delete says so, by name as by labels; an apply finds what it listed, of whatever kind."""
    stage.run(labelled("a", "web"), config_map("b"))
    api("DELETE", stage.path("applyprune-web"))
    for options in ({"select": frozenset({"cm/a"})}, {"select_labels": WEB}):
        with pytest.raises(InventoryError, match="has no inventory, but 2 objects have its label"):
            stage.run(mode=Mode.DELETE, **options)
    assert exist(stage, api) == "ab"
    with pytest.raises(UsageError, match="there is no set never"):
        replace(stage, name="never").run(mode=Mode.DELETE, select=frozenset({"cm/a"}))
    stage.run(SERVICE, config_map("a"), only=frozenset({"svc/web"}))
    assert stage.listed() == {"service/web", "configmap/a", "configmap/b"}


# A selector of the input, and another namespace for it.


def test_selectors_mean_the_same_to_the_server(api: Api, namespace: str) -> None:
    """We and the server accept or reject every text of the table, and match the same object."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.create(path, config_map("a", labels=LABELS))
    for text in (*GOOD, *BAD):
        status, reply = api("GET", f"{path}?labelSelector={quote(text)}")
        assert status == (200 if text in GOOD else 400), (text, reply)
    for text, expected in MATCHES.items():
        found = [
            one["metadata"]["name"]
            for one in api.get(f"{path}?labelSelector={quote(text)}")["items"]
        ]
        assert ("a" in found) is expected, text


def test_unselected_objects_stay_listed_and_unchanged(stage: Stage, api: Api) -> None:
    """Neither applied nor pruned, in the input or not, and not written ahead."""
    stage.run(labelled("b", "db"), labelled("c", "db"))
    given = (labelled("a", "web"), labelled("b", "db", "new"), labelled("d", "db"))
    story = stage.run(*given, selector=WEB)
    assert story.outcomes == {"configmap/a": Outcome.CREATED}
    (union,) = [one for one in story.of(InventoryWritten) if one.phase is Phase.BEFORE_APPLY]
    assert union.entries == 3
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}
    (warning,) = story.warnings
    assert warning.startswith("nothing is pruned: -l app=web selects only a part of the set")
    assert "2 other objects in the inventory do not change" in warning
    assert (api.get(stage.path("b"))["data"], exist(stage, api)) == ({"key": "v"}, "abc")
    # Nothing is lost: the next full run prunes what has left.
    story = stage.run(*given)
    assert story.outcomes["configmap/c"] is Outcome.PRUNED
    assert story.outcomes["configmap/b"] is Outcome.UPDATED


def test_selection_needs_a_match_and_an_input_without_errors(stage: Stage) -> None:
    """A dependency may be in the rest of the input, or in the inventory, and nowhere else."""
    broken = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    with pytest.raises(InputErrors):
        stage.run(labelled("a", "web"), broken, broken, selector=WEB)
    with pytest.raises(EmptyInput, match=r"matches no object of the input .1 object."):
        stage.run(labelled("b", "db"), selector=WEB)
    assert stage.run(labelled("b", "db"), selector=WEB, allow_empty=True).exit_code == 0
    assert stage.listed() == set()

    def needing(name: str) -> dict[str, Any]:
        needs = {DEPENDS_ON: f"/namespaces/{stage.namespace}/ConfigMap/{name}"}
        return labelled("a", "web", annotations=needs)

    story = stage.run(needing("b"), labelled("b", "db"), selector=WEB)
    assert story.outcomes == {"configmap/a": Outcome.CREATED}
    stage.run(needing("b"), labelled("b", "db"))
    story = stage.run(needing("b"), selector=WEB)
    assert story.outcomes == {"configmap/a": Outcome.UNCHANGED}
    with pytest.raises(Exception, match="depends on an object outside the set"):
        stage.run(needing("lost"), selector=WEB)


def test_namespace_override_does_not_empty_a_namespace_silently(stage: Stage, api: Api) -> None:
    """A user who wants a copy elsewhere would lose the existing objects; a number allows it."""
    bodies = (config_map("a"), config_map("b"))
    stage.run(*bodies)
    with temporary_namespace(api) as there:

        def run(code: int, *given: dict[str, Any], moves: bool = True, **options: Any) -> Story:
            story = stage.run(*given, namespace_override=there if moves else "", **options)
            assert story.exit_code == code, story.events
            return story

        def exist_in() -> list[str]:
            homes = {"old": stage.namespace, "new": there}
            paths = {
                f"{word} {name}": f"/api/v1/namespaces/{home}/configmaps/{name}"
                for word, home in homes.items()
                for name in "ab"
            }
            return [name for name, path in paths.items() if api.exists(path)]

        for mode in (Mode.PRUNE, Mode.APPLY):
            told = run(6, *bodies, mode=mode).refusal
            moved = f"the input has the objects of namespace {stage.namespace} in another namespace"
            assert moved in told
            assert "--max-prune 2" in told
        assert exist_in() == ["old a", "old b"]
        run(0, *bodies, max_prune=stage.most(2))
        assert exist_in() == ["new a", "new b"]
        # By omitting the option again, or by a namespace in the manifests.
        assert "--max-prune 2" in run(6, *bodies, moves=False).refusal
        run(0, *bodies, max_prune=stage.most(2))
        assert exist_in() == ["new a", "new b"]
        # What has left the input since is pruned there as anywhere.
        run(0, bodies[0])
        assert exist_in() == ["new a"]
        # One object alone may move without a question.
        run(0, bodies[0], moves=False)
        assert exist_in() == ["old a"]

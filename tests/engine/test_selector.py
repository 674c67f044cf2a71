"""A selector: part of the input is applied, and the rest of the set stays as it is, and listed."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from applyprune.errors import EmptyInput, InputErrors
from applyprune.model.events import InventoryWritten, Phase
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from applyprune.model.text import parse_selector
from applyprune.planning.order import DEPENDS_ON
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.selectors import BAD, GOOD, LABELS, MATCHES
from tests.support.stage import Stage

WEB = parse_selector("app=web")


def labelled(name: str, app: str, value: str = "v", **metadata: Any) -> dict[str, Any]:
    return config_map(name, value, labels={"app": app}, **metadata)


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
    """Neither applied nor pruned, in the input or not; one line reports it."""
    stage.run(labelled("a", "web"), labelled("b", "db"), labelled("c", "db"))
    story = stage.run(labelled("a", "web", "new"), labelled("b", "db", "new"), selector=WEB)
    assert story.outcomes == {"configmap/a": Outcome.UPDATED}
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}
    (warning,) = story.warnings
    assert warning.startswith("nothing is pruned: -l app=web selects only a part of the set")
    assert "2 other objects in the inventory do not change" in warning
    path = stage.path()
    assert api.get(f"{path}/b")["data"] == {"key": "v"}
    assert api.exists(f"{path}/c")
    # Nothing is lost: the next full run prunes what has left.
    story = stage.run(labelled("a", "web", "new"), labelled("b", "db"))
    assert story.outcomes["configmap/c"] is Outcome.PRUNED
    assert story.outcomes["configmap/b"] is Outcome.UNCHANGED


def test_write_ahead_contains_the_unselected_objects(stage: Stage) -> None:
    """The listed objects and the ones to send, and nothing that was not selected."""
    stage.run(labelled("b", "db"), labelled("c", "db"))
    story = stage.run(labelled("a", "web"), labelled("d", "db"), selector=WEB)
    union = [one for one in story.of(InventoryWritten) if one.phase is Phase.BEFORE_APPLY]
    assert [one.entries for one in union] == [3]
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}


def test_dependency_may_be_outside_the_selection(stage: Stage) -> None:
    """In the input, or in the inventory; anything else is an error."""
    needs = {DEPENDS_ON: f"/namespaces/{stage.namespace}/ConfigMap/b"}
    first = labelled("a", "web", annotations=needs)
    story = stage.run(first, labelled("b", "db"), selector=WEB)
    assert story.outcomes == {"configmap/a": Outcome.CREATED}
    stage.run(first, labelled("b", "db"))
    story = stage.run(first, selector=WEB)
    assert story.outcomes == {"configmap/a": Outcome.UNCHANGED}
    lost = {DEPENDS_ON: f"/namespaces/{stage.namespace}/ConfigMap/lost"}
    with pytest.raises(Exception, match="depends on an object outside the set"):
        stage.run(labelled("a", "web", annotations=lost), selector=WEB)


def test_unselected_manifests_must_be_valid_too(stage: Stage) -> None:
    """A set is one unit: part of it is not applied from an input that cannot be read."""
    broken = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    with pytest.raises(InputErrors):
        stage.run(labelled("a", "web"), broken, broken, selector=WEB)


def test_selector_without_a_match_is_an_error(stage: Stage) -> None:
    """For a new set and an existing one; with --allow-empty nothing is done."""
    for _ in range(2):
        with pytest.raises(EmptyInput, match=r"matches no object of the input .1 object."):
            stage.run(labelled("b", "db"), selector=WEB)
        stage.run(labelled("b", "db"))
    story = stage.run(labelled("b", "db"), selector=WEB, allow_empty=True)
    assert story.exit_code == 0
    assert stage.listed() == {"configmap/b"}


def test_namespace_override_moves_the_objects(stage: Stage, api: Api) -> None:
    """Every namespaced manifest goes there, dependencies by their old names are understood."""
    home = stage.namespace
    needs = {DEPENDS_ON: "/namespaces/elsewhere/ConfigMap/b"}
    bodies = (
        config_map("a", annotations=needs),
        config_map("b", namespace="elsewhere"),
        config_map("c", namespace=home),
    )
    story = stage.run(*bodies, namespace_override=home)
    assert set(story.outcomes.values()) == {Outcome.CREATED}
    assert {ref.namespace for ref in stage.inventory().entries} == {home}
    (after,) = (one.depends_on for one in stage.inventory().entries.values() if one.ref.name == "a")
    assert [(ref.namespace, ref.name) for ref in after] == [(home, "b")]
    assert set(stage.run(*bodies, namespace_override=home).outcomes.values()) == {Outcome.UNCHANGED}
    assert api.exists(f"/api/v1/namespaces/{home}/configmaps/b")


def test_namespace_override_does_not_empty_a_namespace_silently(stage: Stage, api: Api) -> None:
    """A user who wants a copy elsewhere would lose the existing objects; a number allows it."""
    bodies = (config_map("a"), config_map("b"))
    stage.run(*bodies)
    there = f"{stage.namespace}-there"
    body = of_kind("Namespace", there)
    api.create("/api/v1/namespaces", body)
    try:
        for mode in (Mode.PRUNE, Mode.APPLY):
            story = stage.run(*bodies, namespace_override=there, mode=mode)
            assert story.exit_code == 6
            assert (
                f"the input has the objects of namespace {stage.namespace} in another namespace"
                in (story.refusal)
            )
            assert "--max-prune 2" in story.refusal
        paths = [
            f"/api/v1/namespaces/{home}/configmaps/{name}"
            for home in (stage.namespace, there)
            for name in ("a", "b")
        ]
        assert [api.exists(path) for path in paths] == [True, True, False, False]
        story = stage.run(*bodies, namespace_override=there, max_prune=stage.most(2))
        assert story.exit_code == 0
        assert [api.exists(path) for path in paths] == [False, False, True, True]
        # By omitting the option again, or by a namespace in the manifests.
        story = stage.run(*bodies)
        assert (story.exit_code, "--max-prune 2" in story.refusal) == (6, True)
        assert stage.run(*bodies, mode=Mode.PRUNE).exit_code == 6
        again = stage.run(*bodies, namespace_override=there, max_prune=stage.most(2))
        assert [api.exists(path) for path in paths] == [False, False, True, True], again
        # What has left the input since is pruned there as anywhere.
        assert stage.run(bodies[0], namespace_override=there).exit_code == 0
        assert not api.exists(paths[3])
        # One object alone may move without a question.
        assert stage.run(bodies[0]).exit_code == 0
        assert [api.exists(path) for path in paths] == [True, False, False, False]
    finally:
        api("DELETE", f"/api/v1/namespaces/{there}")

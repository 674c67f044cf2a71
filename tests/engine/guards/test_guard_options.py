"""The options that a refusal prints: all of them allow exactly that prune, and none is too many."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Mode, PruneLimit
from tests.support.api import Api
from tests.support.objects import CLAIM, GUARDED, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage

ROLE: dict[str, Any] = of_kind("Role", "App.Reader", rules=[])
STATEFUL: dict[str, Any] = {**GUARDED["statefulset"], "metadata": {"name": "db"}}
WORDS = "To allow this: "


def _printed(refusal: str) -> list[tuple[str, str]]:
    """Return each option of a refusal with its value, empty where it has none."""
    words = iter(shlex.split(refusal.rpartition(WORDS)[2]))
    assert WORDS in refusal, refusal
    return [(word, "" if word == "--allow-empty" else next(words)) for word in words]


def _options(printed: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return what the command line makes of such options."""
    made: dict[str, Any] = {}
    for option, value in printed:
        if option == "--allow-empty":
            made["allow_empty"] = True
        elif option == "--max-prune":
            made["max_prune"] = PruneLimit(count=int(value), percent=0.0)
        else:
            name = {"--allow-kind": "allow_kinds", "--allow-cascade": "allow_cascade"}[option]
            made[name] = made.get(name, frozenset()) | {value}
    return made


def _allowed(stage: Stage, *bodies: dict[str, Any], **options: Any) -> set[str]:
    """Go through a refusal as its reader would, and return its options.

    With one of them left out the prune is refused again and nothing has gone; with all of them
    exactly that goes which the refusal listed.
    """
    listed = stage.listed()
    refused = stage.run(*bodies, **options)
    assert refused.exit_code == 6, refused.events
    doomed = {
        name
        for name, outcome in refused.outcomes.items()
        if outcome in {Outcome.NOT_PRUNED, Outcome.FAILED}
    }
    printed = _printed(refused.refusal)
    assert printed
    for left_out in printed:
        fewer = [one for one in printed if one != left_out]
        story = stage.run(*bodies, **options, **_options(fewer))
        assert story.exit_code == 6, (left_out, story.events)
        assert Outcome.PRUNED not in story.outcomes.values(), left_out
    assert stage.listed() == listed
    story = stage.run(*bodies, **options, **_options(printed))
    assert story.exit_code == 0, (printed, story.events)
    gone = {name for name, outcome in story.outcomes.items() if outcome is Outcome.PRUNED}
    assert gone == doomed
    assert stage.listed() == listed - doomed
    return {option for option, _ in printed}


def _many(count: int) -> list[dict[str, Any]]:
    return [config_map(f"c-{number}") for number in range(count)]


Bodies = list[dict[str, Any]]
# The applied objects, for the name of a Namespace; how many stay in the input; the options.
CASES: dict[str, tuple[Callable[[str], Bodies], int, set[str]]] = {
    "count": (lambda _: _many(8), 1, {"--max-prune"}),
    "kind": (lambda _: [config_map("a"), CLAIM], 1, {"--allow-kind"}),
    "two kinds": (lambda _: [*_many(2), CLAIM, STATEFUL], 2, {"--allow-kind"}),
    "count and kind": (lambda _: [*_many(7), CLAIM], 1, {"--max-prune", "--allow-kind"}),
    "empty": (lambda _: _many(2), 0, {"--allow-empty"}),
    "empty and count": (lambda _: _many(8), 0, {"--allow-empty", "--max-prune"}),
    "empty and a Namespace": (
        lambda home: [of_kind("Namespace", home), config_map("in", namespace=home)],
        0,
        {"--allow-empty", "--allow-kind"},
    ),
    "empty, count and kinds": (
        lambda _: [*_many(6), CLAIM, STATEFUL],
        0,
        {"--allow-empty", "--max-prune", "--allow-kind"},
    ),
}


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE])
@pytest.mark.parametrize("name", CASES)
def test_printed_options_allow_exactly_the_refused_prune(
    stage: Stage, home: str, name: str, mode: Mode
) -> None:
    """If the deletion cascades to nothing but the set's own objects."""
    made, left, options = CASES[name]
    bodies = made(home)
    assert stage.run(*bodies).exit_code == 0
    assert _allowed(stage, *bodies[:left], mode=mode) == options


CASCADES: dict[str, tuple[Callable[[str], Bodies], int, set[str]]] = {
    "cascade": (lambda _: [config_map("a")], 1, {"--allow-cascade"}),
    "everything": (
        lambda _: [*_many(6), CLAIM],
        0,
        {"--allow-empty", "--allow-cascade", "--max-prune", "--allow-kind"},
    ),
}


@pytest.mark.parametrize("name", CASCADES)
def test_printed_options_allow_cascades(stage: Stage, api: Api, home: str, name: str) -> None:
    """A Namespace with objects that are not the set's, counted among those that go."""
    made, left, options = CASCADES[name]
    bodies = made(home)
    assert stage.run(*bodies, of_kind("Namespace", home)).exit_code == 0
    for foreign in ("s-1", "s-2"):
        path = f"/api/v1/namespaces/{home}/configmaps"
        api.create(path, config_map(foreign))
    assert _allowed(stage, *bodies[:left]) == options


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE, Mode.DELETE])
def test_orphan_option_accepts_upper_case(stage: Stage, api: Api, mode: Mode) -> None:
    """Names of RBAC may have it; the kind may be in any case."""
    stage.run(ROLE, config_map("a"))
    left = () if mode is Mode.DELETE else (config_map("a"),)
    story = stage.run(*left, mode=mode, orphan=frozenset({"role/App.Reader"}))
    assert story.exit_code == 0, story.events
    assert story.outcomes["role.rbac.authorization.k8s.io/App.Reader"] is Outcome.ORPHANED
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stage.namespace}/roles"
    assert api.exists(f"{roles}/App.Reader")


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE, Mode.DELETE])
@pytest.mark.parametrize("lost", ["role/app.reader", "configmap/typo"])
def test_orphan_option_that_matches_nothing_blocks_the_prune(
    stage: Stage, kubectl: Kubectl, mode: Mode, lost: str
) -> None:
    """The whole prune is blocked, even if another --orphan option matches an object."""
    stage.run(ROLE, config_map("a"), config_map("b"))
    left = () if mode is Mode.DELETE else (config_map("a"),)
    listed = stage.listed()
    keep = frozenset({lost, "configmap/b"})
    story = stage.run(*left, mode=mode, orphan=keep)
    assert story.exit_code == 6, story.events
    assert not {Outcome.PRUNED, Outcome.DELETED, Outcome.ORPHANED} & set(story.outcomes.values())
    kind, _, name = lost.partition("/")
    assert f"--orphan {kind}" in story.refusal
    assert f"/{name} matches no object in the inventory" in story.refusal
    assert "configmap/b names nothing" not in story.refusal
    assert stage.listed() == listed
    kubectl("get", "configmap/b", "role/App.Reader", "-n", stage.namespace)


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE])
def test_orphan_option_that_matches_nothing_is_ignored_without_a_prune(
    stage: Stage, mode: Mode
) -> None:
    """The same command runs in a pipeline, long after its object is gone."""
    stage.run(config_map("a"), config_map("b"))
    keep = frozenset({"configmap/gone", "configmap/b"})
    bodies = (config_map("a"), config_map("b"))
    assert stage.run(*bodies, mode=mode, orphan=keep).exit_code == 0
    story = stage.run(config_map("a"), mode=mode, orphan=keep)
    assert (story.exit_code, story.refusal) == (0, "")
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED

"""The order of the sets of one command: what may start, what never will, and what is wrong."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.model.identity import SetKey
from applyprune.model.problem import Origin
from applyprune.planning.set_order import (
    SetNeeds,
    SetOrder,
    UnknownSet,
    parse_set_key,
    set_order,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from random import Random

WITHIN = "below deploy"


def shop(name: str) -> SetKey:
    return SetKey("shop", name)


def needing(line: str) -> SetNeeds:
    """Return ``web: api platform/operator`` as a set of shop; its place is a file of its name."""
    name, _, needs = line.partition(":")
    return SetNeeds(shop(name), tuple(needs.split()), Origin(f"{name}.yaml", 0, 5))


def order_of(*lines: str) -> SetOrder:
    order, errors = set_order(map(needing, lines), WITHIN)
    assert errors == []
    return order


def names(keys: Collection[SetKey]) -> str:
    return " ".join(key.name for key in keys)


def keys(text: str) -> frozenset[SetKey]:
    return frozenset(map(shop, text.split()))


@pytest.mark.parametrize(
    ("text", "key"),
    [("web", ("shop", "web")), ("pay/web", ("pay", "web")), ("shop/web", ("shop", "web"))],
)
def test_name_alone_is_of_the_same_namespace(text: str, key: tuple[str, str]) -> None:
    assert parse_set_key(text, "shop") == key


@pytest.mark.parametrize("text", ["", "/", "a/b/c", "/web", "shop/", "Web", "shop/web "])
def test_text_that_names_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^names no set: write NAME, or NAMESPACE/NAME$"):
        parse_set_key(text, "shop")


@pytest.mark.parametrize(("of", "found"), [("d", "c b a"), ("b", "a"), ("a", ""), ("c d", "a b c")])
def test_needs_are_found_through_other_sets(of: str, found: str) -> None:
    order = order_of("a:", "b: a", "c: b", "d: c", "e: a")
    assert frozenset(order.needed_by(keys(of))) == keys(found)


DIAMOND = ("web: api db", "api: crds", "db: crds", "crds", "alone")
STARTS = [
    (DIAMOND, "", "", "", "crds alone"),
    (DIAMOND, "", "", "crds", "alone"),
    pytest.param(
        DIAMOND, "crds", "", "", "alone api db", marks=pytest.mark.holds("set-needs"), id="needs"
    ),
    (DIAMOND, "crds alone api", "", "db", ""),
    (DIAMOND, "crds api db", "", "alone", "web"),
    (DIAMOND, "crds", "db", "alone", "api"),
    (DIAMOND, "crds api alone", "db", "", ""),
    (DIAMOND, "", "crds", "", "alone"),
    # Those in the middle are not concerned, and what they depend on is not done.
    (("web: api", "api: crds", "crds"), "api", "", "crds", ""),
    (("web: api", "api: crds", "crds"), "api crds", "", "", "web"),
]


@pytest.mark.parametrize(("lines", "done", "failed", "running", "starts"), STARTS)
def test_set_starts_when_all_that_it_needs_is_done(
    lines: Sequence[str], done: str, failed: str, running: str, starts: str
) -> None:
    """In the order of the sets; what does not run is waited for with what it needs."""
    assert names(order_of(*lines).startable(keys(done), keys(failed), keys(running))) == starts


STOPS = [
    (DIAMOND, "alone", "", {}),
    (DIAMOND, "web", "", {}),
    (DIAMOND, "db", "", {"web": "db"}),
    (DIAMOND, "crds", "", {"api": "crds", "db": "crds", "web": "api crds"}),
    (DIAMOND, "crds db", "", {"api": "crds", "web": "db"}),
    (DIAMOND, "crds", "api", {"db": "crds", "web": "api crds"}),
]


@pytest.mark.parametrize(("lines", "failed", "done", "stopped"), STOPS)
def test_failure_stops_what_depends_on_it(
    lines: Sequence[str], failed: str, done: str, stopped: Mapping[str, str]
) -> None:
    """Each is named with the shortest way to what failed."""
    found = order_of(*lines).stopped(keys(failed), keys(done))
    assert {key.name: names(way) for key, way in found.items()} == stopped


def test_prunes_go_the_other_way() -> None:
    prunes = order_of(*DIAMOND).of_prunes()
    assert names(prunes.startable(frozenset())) == "alone web"
    assert names(prunes.startable(keys("web alone"))) == "api db"
    assert names(prunes.startable(keys("web api"))) == "alone db"
    assert names(prunes.stopped(keys("api"))) == "crds"


RINGS = [
    (("web: web",), ["web web"]),
    (("a", "web: a api", "api: db", "db: web"), ["web api db web"]),
    (("a: b", "b: a", "c: d", "d: c a"), ["a b a", "c d c"]),
]


@pytest.mark.parametrize(("lines", "rings"), RINGS)
def test_ring_of_sets_is_named(lines: Sequence[str], rings: Sequence[str]) -> None:
    """From its first set, with the file of each."""
    order, errors = set_order(map(needing, lines), WITHIN)
    assert {error.message for error in errors} == {"sets depend on each other in a cycle"}
    for error, ring in zip(errors, rings, strict=True):
        assert error.location == f"{ring.split()[0]}.yaml:5"
        assert error.reason == " → ".join(f"shop/{name} ({name}.yaml:5)" for name in ring.split())
    assert len(order.needs) == len(lines)


UNKNOWN = [
    ("oprator", "and no file below deploy names it", "Did you mean shop/operator?"),
    ("pay/operator", "and no file below deploy names it", "Did you mean shop/operator?"),
    ("nothing-like-it", "and no file below deploy names it", "Write NAME for a set of the same"),
    ("web2", "and no file below deploy names it", "Write NAME for a set of the same namespace"),
    ("platform/crds", "which is not below deploy: platform/crds.yaml names it", "A set can only"),
    ("a/b/c", "'a/b/c' in dependsOn names no set: write NAME, or NAMESPACE/NAME", ""),
    ("Web", "'Web' in dependsOn names no set", ""),
]


@pytest.mark.parametrize(("text", "told", "hint"), UNKNOWN)
def test_unknown_set_is_an_error_at_its_line(text: str, told: str, hint: str) -> None:
    """A set elsewhere cannot be waited for; one that is mistyped is suggested."""
    elsewhere = {SetKey("platform", "crds"): "platform/crds.yaml"}
    given = [needing("operator"), needing(f"web: operator {text}")]
    order, errors = set_order(given, WITHIN, elsewhere)
    assert len(errors) == 1
    assert str(errors[0]).startswith("web.yaml:5: ")
    assert told in str(errors[0])
    assert errors[0].hint.startswith(hint)
    assert isinstance(errors[0], UnknownSet) is ("/b/" not in text and text != "Web")
    assert order.needs == {shop("operator"): (), shop("web"): (shop("operator"),)}


SETS = [chr(ord("a") + at) for at in range(8)]
GRAPHS = st.dictionaries(st.sampled_from(SETS), st.sets(st.sampled_from(SETS)), min_size=1)


def _of(graph: Mapping[str, Collection[str]]) -> Sequence[SetNeeds]:
    """Return the sets of a graph; they depend on those of them that it has."""
    return [
        SetNeeds(shop(name), tuple(need for need in needs if need in graph))
        for name, needs in graph.items()
    ]


def _acyclic(graph: Mapping[str, Collection[str]]) -> SetOrder:
    earlier = {name: {need for need in needs if need < name} for name, needs in graph.items()}
    order, errors = set_order(_of(earlier), "")
    assert errors == []
    return order


def _needed(order: SetOrder, key: SetKey) -> frozenset[SetKey]:
    """Return all that a set needs, also through others."""
    return frozenset().union(*({need} | _needed(order, need) for need in order.needs[key]))


@given(GRAPHS, st.sets(st.sampled_from(SETS)), st.randoms(use_true_random=False), st.booleans())
def test_run_ends_with_each_set_done_failed_or_stopped(
    graph: Mapping[str, Collection[str]], failing: Collection[str], random: Random, prunes: bool
) -> None:
    """Whatever ends first: none starts before what it needs, and only a failure stops one."""
    order = _acyclic(graph)
    order = order.of_prunes() if prunes else order
    done: set[SetKey] = set()
    failed: set[SetKey] = set()
    running: set[SetKey] = set()
    while running or order.startable(done, failed):
        for key in order.startable(done, failed, running):
            assert _needed(order, key) <= done
            running.add(key)
        ended = random.choice(sorted(running))
        running.remove(ended)
        (failed if ended.name in failing else done).add(ended)
    stopped = order.stopped(failed)
    assert done | failed | stopped.keys() == order.needs.keys()
    assert len(done) + len(failed) + len(stopped) == len(order.needs)
    for key, way in stopped.items():
        assert way[-1] in failed
        assert all(need in order.needs[one] for one, need in pairwise((key, *way)))


@given(GRAPHS)
def test_ring_is_found_where_there_is_one(graph: Mapping[str, set[str]]) -> None:
    """Each ring that is named is one, and without rings each set is after what it needs."""
    order, errors = set_order(_of(graph), "")
    for error in errors:
        ring = [text.removeprefix("shop/") for text in error.reason.split(" → ")]
        assert ring[0] == ring[-1]
        assert all(need in graph[name] for name, need in pairwise(ring))
    seen: set[SetKey] = set()
    for key, needs in order.needs.items():
        assert set(needs) <= seen
        seen.add(key)
    assert seen == {shop(name) for name in graph}
    if not errors:
        found = {key.name: {need.name for need in needs} for key, needs in order.needs.items()}
        assert found == {name: needs & graph.keys() for name, needs in graph.items()}


@given(GRAPHS)
def test_order_of_prunes_turns_each_dependency_round(graph: Mapping[str, Collection[str]]) -> None:
    order = _acyclic(graph)
    pairs = {(key, need) for key, needs in order.needs.items() for need in needs}
    turned = order.of_prunes().needs
    assert pairs == {(need, key) for key, needs in turned.items() for need in needs}

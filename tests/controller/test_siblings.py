"""Which siblings may still take what leaves a Bundle, and who looks again after a reconcile."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.controller.followed_sources import FoundAt
from applyprune.controller.reasons import Key
from applyprune.controller.siblings import SiblingBundles
from applyprune.controller.task import SiblingFacts
from applyprune.values import replace

A, B, C = ("home", "a"), ("home", "b"), ("home", "c")
SET_A, SET_B = frozenset({"set-a"}), frozenset({"set-b"})


def facts(bundle: Key, /, **changes: Any) -> SiblingFacts:
    """Return what a Bundle has told that has planned what its source has, without any fault."""
    told = SiblingFacts("repo", f"set-{bundle[1]}", takes=True, has_planned=True, content="new")
    return replace(told, **changes)


class Family:
    """Bundles of one source, whose clock shows how many reconciles have ended."""

    def __init__(self, *keys: Key) -> None:
        self.now = 0.0
        self.content: dict[Key, str] = dict.fromkeys(keys, "new")
        self.fetch: dict[Key, int] = dict.fromkeys(keys, 1)
        self.bundles = SiblingBundles(self.found, lambda _: [*self.content])

    def found(self, key: Key) -> FoundAt:
        return FoundAt(self.content.get(key, ""), self.fetch.get(key))

    def reconciled(self, bundle: Key, /, *, began: float | None = None, **changes: Any) -> set[Key]:
        """End a reconcile, which has begun right before unless ``began`` says otherwise."""
        self.now += 1
        start = self.now - 0.5 if began is None else began
        return self.bundles.ended(bundle, start, self.now, facts(bundle, **changes))


def settled(*keys: Key) -> Family:
    family = Family(*keys)
    for key in keys:
        assert family.reconciled(key) == set()
    return family


def test_settled_siblings_hold_nothing() -> None:
    assert settled(A, B, C).bundles.undecided(A) == ()


def test_bundle_that_has_told_nothing_is_not_known() -> None:
    assert Family(A, B).bundles.undecided(A) is None


@pytest.mark.parametrize(
    ("changes", "content", "undecided"),
    [
        pytest.param(
            {"content": "old"}, "new", ("b",), marks=pytest.mark.holds("sibling-without-plan")
        ),
        ({}, "", ("b",)),
        ({"has_planned": False}, "new", ("b",)),
        ({"refused": SET_A}, "new", ("b",)),
        pytest.param(
            {"prevented": SET_A}, "new", ("b",), marks=pytest.mark.holds("sibling-with-faults")
        ),
        ({"refused": frozenset({"set-x"})}, "new", ()),
        ({"prevented": frozenset({"set-x"})}, "new", ()),
        pytest.param(
            *({"takes": False, "has_planned": False}, "new", ()),
            marks=pytest.mark.holds("sibling-that-takes-nothing"),
        ),
        ({"key": "other", "refused": SET_A}, "new", ()),
        ({"key": "", "refused": SET_A}, "new", ()),
    ],
)
def test_sibling_is_undecided_until_it_has_planned_what_there_is(
    changes: dict[str, Any], content: str, undecided: tuple[str, ...]
) -> None:
    family = Family(A, B)
    family.content[B] = content
    family.reconciled(A)
    family.reconciled(B, **changes)
    assert family.bundles.undecided(A) == undecided


@pytest.mark.parametrize(
    ("own", "theirs", "undecided"), [(2, 1, ()), (2, 2, ("b",)), (2, 3, ("b",)), (2, None, ("b",))]
)
def test_broken_sibling_holds_only_what_has_left_with_its_fault(
    own: int, theirs: int | None, undecided: tuple[str, ...]
) -> None:
    """A folder that is broken for long would end all prunes of its siblings."""
    family = settled(A, B)
    family.fetch = {A: own} if theirs is None else {A: own, B: theirs}
    family.content[B] = ""
    assert family.bundles.undecided(A) == undecided


def test_bundle_of_another_namespace_is_no_sibling() -> None:
    family = settled(A)
    other = ("away", "b")
    family.content[other] = "new"
    family.bundles.in_namespace = lambda namespace: [A] if namespace == "home" else [other]
    family.reconciled(other, refused=SET_A)
    assert family.bundles.undecided(A) == ()


def test_bundle_that_nobody_has_looked_at_is_undecided() -> None:
    """It is new, or this replica has just begun to lead."""
    family = settled(A)
    family.content[B] = "new"
    assert family.bundles.undecided(A) == ("b",)


def test_taker_looks_again_after_the_offer_and_the_giver_after_the_taking() -> None:
    family = settled(A, B)
    assert family.reconciled(B, refused=SET_A) == set()
    assert family.reconciled(A, gives=True) == {B}
    assert family.bundles.undecided(A) == ("b",)
    assert family.reconciled(B) == {A}
    assert family.bundles.undecided(A) == ()


@pytest.mark.holds("plan-before-offer")
def test_plan_that_began_before_the_offer_decides_nothing() -> None:
    """It may not have seen the offer; so its Bundle looks again."""
    family = settled(A, B)
    family.reconciled(A, gives=True)
    offered = family.now
    assert family.reconciled(B, began=offered - 0.1, refused=SET_A) == {B}
    assert family.bundles.undecided(A) == ("b",)
    assert family.reconciled(B, refused=SET_A) == {A}
    assert family.bundles.undecided(A) == ()


def test_each_sibling_must_have_decided() -> None:
    family = settled(A, B, C)
    family.content.update({B: "newest", C: "newest"})
    assert family.reconciled(A, gives=True) == set()
    assert family.bundles.undecided(A) == ("b", "c")
    assert family.reconciled(B, content="newest") == set()
    assert family.bundles.undecided(A) == ("c",)
    assert family.reconciled(C, content="newest") == {A}


def test_giver_of_the_first_reconcile_looks_again_at_once() -> None:
    """Its own reconcile did not know its siblings yet; now nobody is undecided."""
    family = Family(A)
    assert family.reconciled(A, gives=True) == {A}


def test_two_bundles_that_want_something_of_each_other_wake_each_other_once() -> None:
    family = settled(A, B)
    family.content[B] = "swapped"
    assert family.reconciled(A, refused=SET_B, gives=True) == set()
    assert family.bundles.undecided(A) == ("b",)
    assert family.reconciled(B, content="swapped", gives=True) == {A}
    assert family.bundles.undecided(A) == ()
    assert family.reconciled(A) == {B}
    assert family.reconciled(B, content="swapped") == set()


def test_sibling_that_goes_holds_nothing() -> None:
    family = settled(A, B)
    family.reconciled(B, refused=SET_A)
    family.reconciled(A, gives=True)
    del family.content[B]
    assert family.bundles.forget(B) == {A}
    assert family.bundles.undecided(A) == ()


def test_sibling_that_follows_something_else_now_holds_nothing() -> None:
    family = settled(A, B)
    family.reconciled(B, refused=SET_A)
    family.reconciled(A, gives=True)
    family.reconciled(B, key="other", refused=SET_A)
    assert family.bundles.undecided(A) == ()

"""What goes with a Bundle, by its spec, its marks and the objects of its set."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.controller.spec import DeletionPolicy, read_bundle
from applyprune.errors import RunFailed
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.live import BUNDLES, LiveObject, Unknown
from applyprune.model.options import Mode, Options
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.bundle_set import (
    ELSEWHERE,
    owner_of_set,
    set_of_bundle,
    taken_objects,
    takes_set,
)
from applyprune.planning.marks import FINALIZER, ORPHAN
from applyprune.planning.world import World
from tests.support.planning import TARGET, cluster, desired, inventory, live, recorded

REF = Ref(BUNDLES.group, BUNDLES.kind, "home", "web")
INLINE = {"source": {"inline": ""}}


def bundle(*, name: str = "web", held: bool = True, **spec: Any) -> LiveObject:
    ref = Ref(BUNDLES.group, BUNDLES.kind, "home", name)
    finalizers = [FINALIZER] if held else []
    return live(ref, finalizers=finalizers, full={"spec": {**INLINE, **spec}})


@pytest.mark.parametrize("prunes", [True, False])
@pytest.mark.parametrize("policy", DeletionPolicy)
def test_policy_is_that_of_the_controller(policy: DeletionPolicy, prunes: bool) -> None:
    """Whoever plans and whoever deletes decide alike."""
    one = bundle(deletionPolicy=policy.value, prune={"enabled": prunes})
    deletes = read_bundle(one).deletion_policy is not DeletionPolicy.ORPHAN
    assert takes_set(one) == deletes
    assert read_bundle(one).owner == owner_of_set("home", "web")
    assert read_bundle(one).target == set_of_bundle(one)


@pytest.mark.parametrize(
    ("one", "takes"),
    [
        (bundle(), True),
        (bundle(suspend=True), True),
        (bundle(prune={"enabled": False}), False),
        # Nobody acts when it goes, and nobody does if it is told not to.
        pytest.param(bundle(held=False), False, marks=pytest.mark.holds("bundle-orphans")),
        (live(REF, finalizers=[FINALIZER], full={}, annotations={ORPHAN: "true"}), False),
        (live(REF, finalizers=[FINALIZER], full={}, annotations={ORPHAN: "yes"}), True),
    ],
)
def test_bundle_takes_its_set_along(one: LiveObject, takes: bool) -> None:
    """By its finalizer, its annotation and its policy; a suspended one only waits."""
    assert takes_set(one) == takes


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (bundle(), applyset_identity("web", "home")),
        (bundle(inventoryName="old"), applyset_identity("old", "home")),
        pytest.param(
            bundle(kubeConfig={"secretRef": {"name": "far"}}),
            ELSEWHERE,
            marks=pytest.mark.holds("bundle-elsewhere"),
        ),
    ],
)
def test_set_of_a_bundle(one: LiveObject, expected: object) -> None:
    assert set_of_bundle(one) == expected


def test_set_of_a_bundle_with_an_invalid_name_is_unknown() -> None:
    assert isinstance(set_of_bundle(bundle(name="a.b")), str)


@pytest.mark.parametrize(
    ("facts", "changes", "goes"),
    [
        ({}, {}, True),
        pytest.param({"label": ""}, {}, False, marks=pytest.mark.holds("bundle-label")),
        ({"label": "applyset-x-v1"}, {}, False),
        # Its removal orphans it.
        ({}, {"ownership": Ownership.ADOPTED}, False),
        ({"annotations": {"applyprune.dev/prune": "disabled"}}, {}, False),
        # Its removal refuses it, for now.
        ({"uid": "another"}, {}, True),
    ],
)
def test_object_goes_with_its_set(facts: Any, changes: Any, goes: bool) -> None:
    """As the removal of the Bundle decides about it, if it still has the set's label."""
    one = desired()
    entry = recorded(one, live(one.ref), **changes)
    state = live(one.ref, **facts)
    world = World(TARGET, inventory(entry), Options(mode=Mode.DELETE), **cluster({one.ref: state}))
    assert list(taken_objects(world, ())) == ([state] if goes else [])


def test_object_that_cannot_be_read_goes_with_its_set() -> None:
    """Its entry names it."""
    one = desired()
    entry = recorded(one, live(one.ref, uid="u9"))
    world = World(TARGET, inventory(entry), Options(mode=Mode.DELETE), **cluster({}))
    (found,) = taken_objects(world, [entry])
    assert (found.ref, found.uid) == (one.ref, "u9")
    unknown = Unknown(RunFailed("it could not be read").problem)
    world = World(
        TARGET, inventory(entry), Options(mode=Mode.DELETE), **cluster({one.ref: unknown})
    )
    assert list(taken_objects(world, ())) == []

"""Whether another replica lives: by this replica's own clock, and by nothing that a Lease says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.controller.replicas import (
    MOST_REPLICAS,
    Replica,
    Sightings,
    alive,
    believed,
    expired_leases,
    next_end,
    updated_sightings,
)
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.values import packed

DURATION = 15.0
SCOPE = "applyprune.dev/watch-namespaces"


def lease(name: str, version: str = "1", uid: str = "u", **metadata: Any) -> LiveObject:
    """Return a Lease as a look shows it."""
    ref = Ref("coordination.k8s.io", "Lease", "applyprune-system", name)
    return LiveObject.of(ref, uid, version, {"name": name, **metadata})


def names(replicas: frozenset[Replica]) -> list[str]:
    """Return the names of replicas."""
    return sorted(one.name for one in replicas)


Look = tuple[float, str]
"""When it was, and the UID and resourceVersion of the Lease; empty if it had none."""
STORIES: dict[str, tuple[list[Look], bool]] = {
    "seen for the first time": ([(0, "u1")], True),
    "the same, a little later": ([(0, "u1"), (14.9, "u1")], True),
    "the same for the duration": ([(0, "u1"), (15, "u1")], False),
    "renewed in between": ([(0, "u1"), (14, "u2"), (28, "u2")], True),
    "renewed once, long ago": ([(0, "u1"), (2, "u2"), (17, "u2")], False),
    "two looks, far apart, and it was renewed": ([(0, "u1"), (3600, "u9")], True),
    "two looks, far apart, and it was not": ([(0, "u1"), (3600, "u1")], False),
    "it is back": ([(0, "u1"), (20, "u1"), (21, "u2")], True),
    "deleted": ([(0, "u1"), (1, "")], False),
    "created again with the same version": ([(0, "u1"), (14, "v1"), (20, "v1")], True),
    "deleted and created again": ([(0, "u1"), (14, ""), (15, "u1")], True),
}


@pytest.mark.parametrize("story", STORIES)
def test_replica_lives_as_long_as_its_lease_changes(story: str) -> None:
    """Two looks with the same Lease, the duration apart, prove that nobody has renewed it."""
    looks, lives = STORIES[story]
    known: Sightings = {}
    for at, state in looks:
        found = [lease("a", state[1:], state[0])] if state else []
        known = updated_sightings(known, found, at)
    assert names(alive(known, looks[-1][0], DURATION)) == (["a"] if lives else [])


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), min_size=1, max_size=40))
def test_renewed_lease_is_never_dead(steps: list[tuple[float, bool]]) -> None:
    """However the looks fall: only a silence of the duration ends a replica."""
    known: Sightings = {}
    now, version, changed = 0.0, 0, 0.0
    for pause, renewed in steps:
        now += pause
        if renewed:
            version, changed = version + 1, now
        known = updated_sightings(known, [lease("a", str(version))], now)
        if now - changed < DURATION:
            assert names(alive(known, now, DURATION)) == ["a"]


def test_reply_that_came_late_proves_nothing() -> None:
    """The second look counts from when it was asked for: the server may have answered early."""
    known = updated_sightings(updated_sightings({}, [lease("a")], 0.0), [lease("a")], 20.0)
    assert names(alive(known, 10.0, DURATION)) == ["a"]


FORGED: dict[str, dict[str, Any]] = {
    "a scope that is a number": {"annotations": {SCOPE: 1}},
    "a scope that is empty": {"annotations": {SCOPE: ""}},
    "no annotations": {"annotations": None},
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_lease_is_a_replica_until_it_is_silent(case: str) -> None:
    """Whatever it says, it ends by itself."""
    known = updated_sightings({}, [lease("a", **FORGED[case])], 0.0)
    assert alive(known, 1.0, DURATION) == {Replica("a")}
    known = updated_sightings(known, [lease("a", **FORGED[case])], 16.0)
    assert alive(known, 16.0, DURATION) == frozenset()


SAID: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a renewal in the future": {"renewTime": "2999-01-01T00:00:00.000000Z"},
    "a renewal long ago": {"renewTime": "1970-01-01T00:00:00.000000Z"},
    "a renewal before its begin": {
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2025-01-01T00:00:00.000000Z",
    },
    "a long duration": {"leaseDurationSeconds": 2**31 - 1},
    "a short duration": {"leaseDurationSeconds": 1},
    "another holder": {"holderIdentity": "b"},
}


@pytest.mark.parametrize("first", SAID)
@pytest.mark.parametrize("second", SAID)
def test_times_of_a_lease_count_for_nothing(first: str, second: str) -> None:
    """However the clocks of its replica jump: it lives as long as its Lease changes."""

    def told(case: str, version: str) -> LiveObject:
        return replace(lease("a", version), packed_body=packed({"spec": SAID[case]}))

    known = updated_sightings({}, [told(first, "1")], 0.0)
    known = updated_sightings(known, [told(second, "2")], 10.0)
    assert names(alive(known, 24.9, DURATION)) == ["a"]
    assert next_end(known, 10.0, DURATION) == 25.0
    known = updated_sightings(known, [told(first, "2")], 25.0)
    assert names(alive(known, 25.0, DURATION)) == []
    known = updated_sightings(known, [told(second, "3")], 26.0)
    assert names(alive(known, 26.0, DURATION)) == ["a"]


def test_lease_names_the_namespaces_of_its_replica() -> None:
    """In one order, so that the same scope is the same value."""
    known = updated_sightings({}, [lease("a", annotations={SCOPE: "shop,blog"})], 0.0)
    assert alive(known, 0.0, DURATION) == {Replica("a", ("blog", "shop"))}
    assert known["a"].live.metadata == {}


@pytest.mark.holds("too-many-replicas")
def test_thousands_of_forged_leases_are_not_believed() -> None:
    """Then this replica serves all Bundles: the inventory locks keep that safe."""
    others = frozenset(Replica(f"r{number}") for number in range(MOST_REPLICAS - 1))
    assert believed(others) == others
    assert believed(others | {Replica("one-more")}) == frozenset()


def test_silent_leases_are_deleted_later_as_they_were_seen() -> None:
    """The longest silence first; not those that somebody deletes already."""
    old, new = lease("old", "7"), lease("new", "8")
    known = updated_sightings({}, [old], 0.0)
    known = updated_sightings(known, [old, new, lease("leaving", deletionTimestamp="now")], 30.0)
    assert expired_leases(known, 59.0, 60.0) == []
    assert [one.ref.name for one in expired_leases(known, 95.0, 60.0)] == ["old", "new"]
    assert expired_leases(known, 60.0, 60.0) == [replace(old, packed_metadata=packed({}))]


def test_next_end_is_that_of_a_live_replica() -> None:
    """So the next look is when it would be over."""
    known = updated_sightings(
        updated_sightings({}, [lease("dead")], 0.0), [lease("dead"), lease("a"), lease("b")], 20.0
    )
    assert next_end(known, 21.0, DURATION) == 35.0
    assert next_end({}, 21.0, DURATION) is None

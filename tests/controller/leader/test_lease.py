"""Whether the holder of the Lease lives, by this replica's own clock and no time in the Lease."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.controller.leader import Sighting, is_free, lease_name, sighted
from applyprune.controller.process import new_identity
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject

DURATION = 15.0
ME, OTHER = "me", "other"


def lease(state: str, holder: str | None = OTHER, **spec: Any) -> LiveObject | None:
    """Return the Lease as a look shows it: a UID of one letter and a version, or none if empty."""
    if not state:
        return None
    ref = Ref("coordination.k8s.io", "Lease", "applyprune-system", "applyprune-controller")
    told = {"holderIdentity": holder, **spec}
    return LiveObject.of(ref, state[0], state[1:], {"name": ref.name}, {"spec": told})


def is_mine(*looks: tuple[float, LiveObject | None]) -> bool:
    """Return whether this replica may take the Lease at the last look; replies come at once."""
    seen: Sighting | None = None
    for at, live in looks:
        seen = sighted(seen, live, at)
    assert seen is not None
    return is_free(seen, ME, looks[-1][0], DURATION)


STORIES: dict[str, tuple[list[tuple[float, LiveObject | None]], bool]] = {
    "none yet": ([(0, None)], True),
    "none for long": ([(0, None), (60, None)], True),
    "seen for the first time": ([(0, lease("u1"))], False),
    "the same, a little later": ([(0, lease("u1")), (14.9, lease("u1"))], False),
    "the same for the duration": ([(0, lease("u1")), (15, lease("u1"))], True),
    "renewed in between": ([(0, lease("u1")), (14, lease("u2")), (28, lease("u2"))], False),
    "renewed once, long ago": ([(0, lease("u1")), (2, lease("u2")), (17, lease("u2"))], True),
    "two looks, far apart, and it was renewed": ([(0, lease("u1")), (3600, lease("u9"))], False),
    "two looks, far apart, and it was not": ([(0, lease("u1")), (3600, lease("u1"))], True),
    "its holder is back": (
        [(0, lease("u1")), (20, lease("u1")), (21, lease("u2"))],
        False,
    ),
    "given up": ([(0, lease("u1")), (1, lease("u2", ""))], True),
    "without a holder": ([(0, lease("u1", None))], True),
    "this one's": ([(0, lease("u1", ME))], True),
    "taken from this one": ([(0, lease("u1", ME)), (1, lease("u2"))], False),
    "deleted: its holder creates it again": ([(0, lease("u1")), (14.9, None)], False),
    "deleted, a little later": ([(0, lease("u1")), (10, None), (24.9, None)], False),
    "deleted for the duration": ([(0, lease("u1")), (10, None), (25, None)], True),
    "deleted after it was given up": ([(0, lease("u1", "")), (1, None)], True),
    "this one's, and deleted": ([(0, lease("u1", ME)), (1, None)], True),
    "created again with the same version": (
        [(0, lease("u1")), (14, lease("v1")), (20, lease("v1"))],
        False,
    ),
    "deleted and created again": ([(0, lease("u1")), (14, None), (15, lease("u1"))], False),
}


@pytest.mark.parametrize("story", STORIES)
def test_lease_is_its_holders_as_long_as_it_changes(story: str) -> None:
    """Two looks with the same Lease, the duration apart, prove that nobody has renewed it."""
    looks, expected = STORIES[story]
    assert is_mine(*looks) is expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), min_size=1, max_size=40))
def test_lease_that_is_renewed_is_never_free(steps: list[tuple[float, bool]]) -> None:
    """However the looks fall: only a silence of the duration ends a holder."""
    now, version, changed = 0.0, 0, 0.0
    looks = []
    for pause, renewed in steps:
        now += pause
        if renewed:
            version, changed = version + 1, now
        looks.append((now, lease(f"u{version}")))
        if now - changed < DURATION:
            assert not is_mine(*looks)


def test_reply_that_came_late_proves_nothing() -> None:
    """The second look counts from when it was asked for: the server may have answered early."""
    seen = sighted(sighted(None, lease("u1"), 0.0), lease("u1"), 20.0)
    assert [is_free(seen, ME, asked, DURATION) for asked in (10.0, 15.0)] == [False, True]


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
    "a holder with a long name": {"holderIdentity": "x" * 100_000},
    "what no server says": {"holderIdentity": ["other"], "leaseTransitions": "many"},
}


@pytest.mark.parametrize("first", SAID)
@pytest.mark.parametrize("second", SAID)
def test_times_in_a_lease_count_for_nothing(first: str, second: str) -> None:
    """However the clocks of its holder jump: it lives as long as its Lease changes."""
    looks = [(0.0, lease("u1", **SAID[first])), (10.0, lease("u2", **SAID[second]))]
    has_holder = SAID[second].get("holderIdentity") != ["other"]
    assert is_mine(*looks) is not has_holder
    later = [(at, lease("u2", **SAID[second])) for at in (24.9, 25.0)]
    assert [is_mine(*looks, look) for look in later] == [not has_holder, True]


NAMES: dict[tuple[str, ...], str] = {
    (): "applyprune-controller",
    ("shop",): "applyprune-controller-c67504ea",
    ("blog", "shop"): "applyprune-controller-fe51e813",
    ("shop", "blog", "shop"): "applyprune-controller-fe51e813",
    ("blogshop",): "applyprune-controller-7c3dd425",
}


@pytest.mark.parametrize("namespaces", NAMES)
def test_lease_is_named_by_the_namespaces_of_its_replicas(namespaces: tuple[str, ...]) -> None:
    """While an update is rolled out, old and new replicas must know the same Lease."""
    assert lease_name(namespaces) == NAMES[namespaces]


SAFE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
HOSTS = ("applyprune-controller-7d9f8b6c5-x2x9p", "Änne's Mac.local", "", "-", "x" * 300, "UP_1")


@pytest.mark.parametrize("host", HOSTS)
def test_identity_of_a_replica_is_its_own(host: str) -> None:
    """It begins with the name of the Pod, and has nothing that a header or a Lease would refuse."""
    one, two = new_identity(host), new_identity(host)
    assert one != two
    assert SAFE.fullmatch(one)
    assert len(one) <= 253
    assert one.startswith(host) or not SAFE.fullmatch(host) or len(host) > 200

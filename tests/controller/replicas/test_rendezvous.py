"""The division of the Bundles: equal shares, and few that move when a replica comes or goes."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.controller.process import new_identity
from applyprune.controller.replicas import Replica, server_of

BUNDLES = [(f"team-{number % 50}", f"bundle-{number}") for number in range(2000)]
POD = "applyprune-controller-7d9f8b6c5-{}-1a2b3c4d"


def division(*replicas: Replica) -> dict[tuple[str, str], str]:
    """Return who serves each of the Bundles."""
    return {key: server_of(key, replicas) for key in BUNDLES}


def pods(count: int, start: int = 0) -> list[Replica]:
    """Return replicas with names as Pods have them."""
    return [Replica(POD.format(f"x{number}z")) for number in range(start, start + count)]


@pytest.mark.parametrize("start", range(0, 40, 4))
def test_four_replicas_have_a_quarter_each(start: int) -> None:
    """25 % ± 5 of 2,000 Bundles."""
    shares = Counter(division(*pods(4, start)).values())
    assert len(shares) == 4
    assert all(400 <= share <= 600 for share in shares.values()), shares


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
several = st.lists(names, min_size=2, max_size=9, unique=True)


@settings(max_examples=30, deadline=None)
@given(several)
def test_replica_that_comes_takes_only_what_it_serves(found: list[str]) -> None:
    """No Bundle moves between the others, and about its share moves to it."""
    *before, new = map(Replica, found)
    old, now = division(*before), division(*before, new)
    moved = [key for key in BUNDLES if old[key] != now[key]]
    assert {now[key] for key in moved} <= {new.name}
    assert len(moved) <= len(BUNDLES) * (1 / len(found) + 0.05)


@settings(max_examples=30, deadline=None)
@given(several)
def test_replica_that_goes_leaves_only_its_own(found: list[str]) -> None:
    """Each Bundle of the others stays where it is."""
    *others, gone = map(Replica, found)
    old, now = division(*others, gone), division(*others)
    assert all(now[key] == old[key] for key in BUNDLES if old[key] != gone.name)


@settings(deadline=None)
@given(several)
def test_division_does_not_depend_on_the_order(found: list[str]) -> None:
    """Every replica decides the same, however it has learnt of the others."""
    ordered = [Replica(name) for name in found]
    for key in BUNDLES[:20]:
        assert server_of(key, ordered) == server_of(key, ordered[::-1])


def test_division_is_the_same_in_every_version() -> None:
    """While an update is rolled out, old and new replicas must decide the same."""
    three = pods(3)
    served = [three.index(Replica(server_of(key, three))) for key in BUNDLES[:12]]
    assert served == [0, 1, 0, 0, 1, 0, 0, 2, 0, 2, 0, 2]


CASES = {
    "nobody lives": ((), "shop", ""),
    "one": ((Replica("a"),), "shop", "a"),
    "one, of this namespace": ((Replica("a", ("shop",)),), "shop", "a"),
    "one, of another namespace": ((Replica("a", ("blog",)),), "shop", ""),
    "only one is of this namespace": (
        (Replica("a", ("blog",)), Replica("b", ("blog", "shop")), Replica("c", ("blog",))),
        "shop",
        "b",
    ),
    "a forged one with names that no namespace has": (
        (Replica("a"), Replica("b", ("", "*", "sh"))),
        "shop",
        "a",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bundle_is_served_by_a_replica_of_its_namespace(case: str) -> None:
    """Replicas with other ``--watch-namespaces`` never see it, and must not be waited for."""
    replicas, namespace, expected = CASES[case]
    assert server_of((namespace, "web"), replicas) == expected


LEASE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
HOSTS = ("applyprune-controller-7d9f8b6c5-x2x9p", "Änne's Mac.local", "", "-", "x" * 300, "UP_1")


@pytest.mark.parametrize("host", HOSTS)
def test_identity_is_the_name_of_a_lease(host: str) -> None:
    """It begins with the name of the Pod, and no two processes have the same."""
    one, two = new_identity(host), new_identity(host)
    assert one != two
    assert LEASE_NAME.fullmatch(one)
    assert len(one) <= 253
    assert one.startswith(host) or not LEASE_NAME.fullmatch(host) or len(host) > 200

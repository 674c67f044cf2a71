"""When a replica leads, stops and takes over, by its own clock; the Lease is real."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.leader import (
    ControllerLease,
    Election,
    Leadership,
    Sighting,
    is_free,
    lease_name,
    sighted,
)
from applyprune.controller.process import new_identity
from applyprune.engine.ports import Cancellation
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.no_server import client_of_no_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant
    from tests.support.fault_proxy import Exchange

LEASE = 600.0
"""So long that no request is late; the clock is not the real one."""
GROUP, NAME = "coordination.k8s.io/v1", lease_name(())


@pytest.fixture
def client(site: Plane) -> Iterator[KubernetesClient]:
    """What reads and writes the Lease."""
    access = cluster_access(kubeconfig=str(site.kubeconfig), environ={})
    with closing(Transport(access)) as transport:
        yield KubernetesClient(transport, access.server)


def member(client: KubernetesClient, namespace: str, name: str, clock: ManualClock) -> Election:
    """Return a replica that can serve."""
    lease = ControllerLease(client, namespace, NAME, name, LEASE)
    return Election(lease, Leadership(clock=clock), lambda: None, lambda: True, clock)


def leaders(*replicas: Election) -> list[str]:
    """Return which of them would begin to work now."""
    return [one.lease.identity for one in replicas if one.leadership.is_current]


def stored(tenant: Tenant) -> dict[str, Any]:
    """Return the spec of the Lease in a namespace."""
    return dict(tenant.api.get(tenant.path("leases", NAME, GROUP))["spec"])


def said(tenant: Tenant) -> tuple[str, int]:
    """Return the holder in the Lease, and how often that was another one."""
    spec = stored(tenant)
    return spec["holderIdentity"], spec["leaseTransitions"]


@pytest.mark.holds("taken-lease")
def test_leader_stops_before_another_one_takes_over(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """It stops after two thirds of its lease, and the others wait for all of it."""
    clock, tenant = ManualClock(), new_tenant()
    one, other = (member(client, tenant.namespace, name, clock) for name in ("one", "other"))
    one.sync()
    other.sync()
    assert (leaders(one, other), said(tenant)) == (["one"], ("one", 0))
    assert (one.unreached(), other.unreached()) == ("", "")
    clock.advance(399)
    assert leaders(one, other) == ["one"]
    clock.advance(1)
    assert leaders(one, other) == []
    clock.advance(198)
    # The next look is at its end, not later.
    stop = Cancellation(clock)
    clock.meanwhile = lambda _: stop.request() if clock.waits else None
    other.sync()
    assert leaders(other) == []
    other.keep(stop)
    assert clock.waits == [pytest.approx(2.0)]
    assert (leaders(one, other), said(tenant)) == (["other"], ("other", 1))
    acquired = stored(tenant)["acquireTime"]
    # The silent one sees that it was too late.
    one.sync()
    other.sync()
    assert (leaders(one, other), said(tenant)) == (["other"], ("other", 1))
    assert stored(tenant)["acquireTime"] == acquired
    # One that is asked to end gives it up: nobody need wait.
    other.resign()
    assert said(tenant) == ("", 1)
    other.resign()
    one.sync()
    assert (leaders(one), said(tenant)) == (["one"], ("one", 2))
    assert stored(tenant)["acquireTime"] > acquired


@pytest.mark.holds("another-holder")
def test_leader_stops_when_the_lease_has_another_holder(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """At once: that one has taken the Lease, whatever has let it do so."""
    clock, tenant = ManualClock(), new_tenant()
    one, other = (member(client, tenant.namespace, name, clock) for name in ("one", "other"))
    one.sync()
    other.sync()
    assert tenant.api("DELETE", tenant.path("leases", NAME, GROUP))[0] == 200
    new = member(client, tenant.namespace, "new", clock)
    new.sync()
    assert leaders(one, new) == ["one", "new"]
    one.sync()
    assert (leaders(one, new), said(tenant)) == (["new"], ("new", 0))
    # What one that has lost it gives up is nothing.
    one.resign()
    assert said(tenant) == ("new", 0)


@pytest.mark.holds("lost-lease")
def test_leader_that_cannot_renew_its_lease_stops_in_time(
    client: KubernetesClient, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Though nobody tells it that another one has taken over; its health says why."""
    clock, tenant = ManualClock(), new_tenant()
    turns: list[bool] = []
    one = member(client, tenant.namespace, "one", clock)
    one.changed = lambda: turns.append(one.leadership.leads)
    one.sync()
    with client_of_no_server(tmp_path) as (_, one.lease.client):
        clock.advance(399)
        one.sync()
        assert (leaders(one), one.unreached(), turns) == (["one"], "", [True])
        clock.advance(1)
        one.sync()
        assert (leaders(one), turns) == ([], [True, False])
        assert one.unreached(400.0).startswith("its Lease could not be renewed for 400 s: ")
        assert one.unreached(401.0) == ""
        one.resign()  # its Lease stays
    one.lease.client = client
    one.sync()
    assert (leaders(one), one.unreached(), turns) == (["one"], "", [True, False, True])
    assert said(tenant) == ("one", 0)


def test_replica_that_cannot_see_the_lease_says_so(tmp_path: Path) -> None:
    """It has never led, and serves nothing until it sees that the Lease is free."""
    clock = ManualClock()
    with client_of_no_server(tmp_path) as (_, client):
        one = member(client, "default", "one", clock)
        assert one.unreached() == ""
        one.sync()
        clock.advance(60)
        one.sync()
    assert leaders(one) == []
    assert one.unreached(60.0).startswith("its Lease could not be renewed for 60 s: ")
    one.resign()


def test_leader_that_cannot_serve_lets_its_lease_end(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """It looks every tenth of a second whether it can, and stops to serve in time."""
    clock = ManualClock()
    one = member(client, new_tenant().namespace, "one", clock)
    one.sync()
    stop = Cancellation(clock)
    one.is_ready = lambda: False
    clock.meanwhile = lambda _: None if one.leadership.leads else stop.request()
    one.keep(stop)
    assert clock.passed == pytest.approx(400)
    assert set(clock.waits) == {0.1}


@pytest.mark.holds("lease-is-stored")
def test_lease_that_is_not_stored_is_not_renewed(
    through: KubernetesClient, proxy: FaultProxy, new_tenant: Callable[[], Tenant]
) -> None:
    """The others would not see it, and take over."""
    clock = ManualClock()
    one = member(through, new_tenant().namespace, "one", clock)
    one.sync()
    assert leaders(one) == ["one"]
    clock.advance(399)
    proxy.rule = always(faults.dry_run(), where=lambda seen: seen.method == "PUT")
    one.sync()
    clock.advance(2)
    one.sync()
    assert leaders(one) == []
    assert "was not written, though the server answered" in one.unreached()


@pytest.mark.parametrize("late", ["GET", "PUT"])
def test_replica_that_is_stopped_while_it_renews_or_looks_begins_nothing(
    through: KubernetesClient,
    client: KubernetesClient,
    proxy: FaultProxy,
    new_tenant: Callable[[], Tenant],
    late: str,
) -> None:
    """The reply comes after its lease, and counts from when it was asked for."""
    clock, tenant = ManualClock(), new_tenant()
    one, other = (
        member(each, tenant.namespace, name, clock)
        for each, name in ((through, "one"), (client, "other"))
    )
    first, second = (one, other) if late == "PUT" else (other, one)
    first.sync()
    second.sync()
    clock.advance(100)

    def stop_it(seen: Exchange) -> None:
        if seen.method == late and seen.path.endswith(NAME):
            clock.advance(LEASE)

    proxy.rule = stop_it
    one.sync()
    assert leaders(one) == []
    assert said(tenant)[0] == first.lease.identity


MERGE = "application/merge-patch+json"
DAMAGED: dict[str, tuple[dict[str, Any], ...]] = {
    "labels": ({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/stuck"]}},),
    "absurd times": (
        {
            "spec": {
                "leaseDurationSeconds": 2**31 - 1,
                "acquireTime": "2999-01-01T00:00:00.000000Z",
                "renewTime": "1970-01-01T00:00:00.000000Z",
            }
        },
    ),
    "absurd transitions": ({"spec": {"leaseTransitions": 2**31 - 1}},),
    "no spec": ({"spec": None},),
    "no holder": ({"spec": {"holderIdentity": None}},),
    "an owner that does not exist": (
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"}
                ]
            }
        },
    ),
    "deleted": (),
    "deleted, with a finalizer": ({"metadata": {"finalizers": ["example.com/stuck"]}}, {}),
    "another holder": ({"spec": {"holderIdentity": "x" * 100_000}},),
    "another holder, absurd transitions": (
        {"spec": {"holderIdentity": "x", "leaseTransitions": 2**31 - 1}},
    ),
    "the other one": ({"spec": {"holderIdentity": "other"}},),
}
"""What somebody has made of the Lease: merge patches; the last of none is a deletion."""
LATE = {"another holder": "one", "another holder, absurd transitions": "one"}
"""Who leads at the end, where nobody does before the duration is over."""


def damage(tenant: Tenant, case: str) -> None:
    """Do it."""
    path = tenant.path("leases", NAME, GROUP)
    for patch in DAMAGED[case]:
        if patch:
            assert tenant.api("PATCH", path, patch, content_type=MERGE)[0] == 200
    if not DAMAGED[case] or not DAMAGED[case][-1]:
        assert tenant.api("DELETE", path)[0] == 200


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_lease_is_mended(
    client: KubernetesClient, new_tenant: Callable[[], Tenant], case: str
) -> None:
    """Neither do two lead, nor does nobody for longer than the duration."""
    clock, tenant = ManualClock(), new_tenant()
    one, other = (member(client, tenant.namespace, name, clock) for name in ("one", "other"))
    one.sync()
    other.sync()
    damage(tenant, case)
    other.sync()
    one.sync()
    found = leaders(one, other)
    assert len(found) <= 1
    for _ in range(7):
        clock.advance(100)
        one.sync()
        other.sync()
        assert len(leaders(one, other)) <= 1
        if found:
            assert len(leaders(one, other)) == 1
    assert leaders(one, other) == (found or [LATE[case]])
    whole = tenant.api.get(tenant.path("leases", NAME, GROUP))
    assert whole["spec"]["holderIdentity"] in {"one", "other"}
    assert whole["spec"]["leaseDurationSeconds"] == LEASE
    assert whole["spec"]["acquireTime"] <= whole["spec"]["renewTime"]
    assert whole["metadata"].keys().isdisjoint({"labels", "annotations", "finalizers"})


def test_lease_that_somebody_keeps_renewing_keeps_every_replica_from_leading(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """Nobody can tell it from one of a live replica: the right to write it is the controller's."""
    clock, tenant = ManualClock(), new_tenant()
    one = member(client, tenant.namespace, "one", clock)
    one.sync()
    path = tenant.path("leases", NAME, GROUP)
    for number in range(20):
        forged = {"spec": {"holderIdentity": "forged", "leaseTransitions": number}}
        assert tenant.api("PATCH", path, forged, content_type=MERGE)[0] == 200
        clock.advance(LEASE - 1)
        one.sync()
        assert leaders(one) == []
    clock.advance(LEASE)
    one.sync()
    assert leaders(one) == ["one"]


def test_lease_that_others_write_all_the_time_is_renewed_or_lost(
    through: KubernetesClient, proxy: FaultProxy, new_tenant: Callable[[], Tenant]
) -> None:
    """A write that meets another one looks again; after three, its next turn comes later."""
    clock, tenant = ManualClock(), new_tenant()
    one = member(through, tenant.namespace, "one", clock)
    one.sync()
    path, times = tenant.path("leases", NAME, GROUP), 2

    def write_before(seen: Exchange) -> None:
        nonlocal times
        if seen.method == "PUT" and times:
            times -= 1
            patch = {"metadata": {"labels": {"times": str(times)}}}
            assert tenant.api("PATCH", path, patch, content_type=MERGE)[0] == 200

    proxy.rule = write_before
    clock.advance(399)
    one.sync()
    clock.advance(399)
    assert leaders(one) == ["one"]
    times = 3
    one.sync()
    assert (times, leaders(one)) == (0, ["one"])
    clock.advance(1)
    one.sync()
    assert leaders(one) == ["one"]


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

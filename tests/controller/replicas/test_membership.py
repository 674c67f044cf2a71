"""When a replica serves, stops and takes over, on clocks that a test moves; the Leases are real."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.replicas import Membership, OwnLease, Replica, Share
from applyprune.engine.ports import Cancellation
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.no_server import client_of_no_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant

LEASE = 600.0
"""So long that no request is late; the clock is not the real one."""
IDLE = "it has not yet divided the Bundles with the other replicas"


@pytest.fixture
def client(site: Plane) -> Iterator[KubernetesClient]:
    """What reads and writes the Leases."""
    access = cluster_access(kubeconfig=str(site.kubeconfig), environ={})
    with closing(Transport(access)) as transport:
        yield KubernetesClient(transport, access.server)


def member(client: KubernetesClient, namespace: str, name: str, clock: ManualClock) -> Membership:
    """Return a replica that can serve."""
    share = Share(Replica(name), clock=clock)
    own = OwnLease(client, share.replica, namespace, LEASE)
    return Membership(own, share, lambda: None, lambda: True, clock)


def served_by(one: Membership) -> list[str]:
    """Return the replicas that share the Bundles, as one of them sees it."""
    return [replica.name for replica in one.share.replicas]


def test_replica_stops_before_another_one_takes_over(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """It stops after two thirds of its lease, and the others wait for all of it."""
    clock, namespace = ManualClock(), new_tenant().namespace
    one, other = (member(client, namespace, name, clock) for name in ("one", "other"))
    one.sync()
    assert served_by(one) == ["one"]
    other.sync()
    assert (served_by(other), other.idle()) == ([], IDLE)  # one has not seen it yet
    one.sync()
    other.sync()
    assert served_by(one) == served_by(other) == ["one", "other"]
    may_begin = []
    for seconds in (399, 1):
        clock.advance(seconds)
        may_begin.append(one.share.is_current)
    assert may_begin == [True, False]
    clock.advance(198)
    # The next look is at its end, not later.
    stop = Cancellation(clock)
    clock.meanwhile = lambda _: stop.request() if clock.waits else None
    other.keep(stop)
    assert clock.waits == [pytest.approx(2.0)]
    assert served_by(other) == ["other"]
    # The silent one sees that it was too late, and comes back as a new one does.
    one.sync()
    assert served_by(one) == []
    other.sync()
    one.sync()
    assert served_by(one) == served_by(other) == ["one", "other"]
    one.leave()
    other.sync()
    assert served_by(other) == ["other"]


def test_lease_of_a_replica_that_has_ended_is_deleted(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """Four leases later, by whoever sees it."""
    clock, tenant = ManualClock(), new_tenant()
    for name in ("killed", "one"):
        member(client, tenant.namespace, name, clock).sync()
    other = member(client, tenant.namespace, "other", clock)
    other.sync()
    clock.advance(4 * LEASE - 1)
    other.sync()
    assert leases(tenant) == {"killed", "one", "other"}
    clock.advance(1)
    other.sync()
    assert leases(tenant) == {"other"}


def leases(tenant: Tenant) -> set[str]:
    """Return the names of all Leases of a namespace."""
    found = tenant.api.get(tenant.path("leases", group="coordination.k8s.io/v1"))["items"]
    return {one["metadata"]["name"] for one in found}


@pytest.mark.holds("lost-lease")
def test_replica_that_cannot_renew_its_lease_stops_in_time(
    client: KubernetesClient, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Though nobody tells it that others have taken over; its health says why after a minute."""
    clock = ManualClock()
    one = member(client, new_tenant().namespace, "one", clock)
    one.sync()
    with client_of_no_server(tmp_path) as (_, one.own.client):
        clock.advance(399)
        one.sync()
        assert served_by(one) == ["one"]
        clock.advance(1)
        one.sync()
        assert served_by(one) == []
        clock.advance(59)
        assert one.idle(60.0) == ""
        clock.advance(1)
        assert one.idle(60.0).startswith("its Lease could not be renewed for 60 s: ")
    one.own.client = client
    one.sync()
    assert (served_by(one), one.idle()) == (["one"], "")


def test_replica_that_cannot_serve_lets_its_lease_end(
    client: KubernetesClient, new_tenant: Callable[[], Tenant]
) -> None:
    """It looks every tenth of a second whether it can, and stops to serve in time."""
    clock = ManualClock()
    one = member(client, new_tenant().namespace, "one", clock)
    one.sync()
    stop = Cancellation(clock)
    one.is_ready = lambda: False
    clock.meanwhile = lambda _: None if served_by(one) else stop.request()
    one.keep(stop)
    assert clock.passed == pytest.approx(400)
    assert set(clock.waits) == {0.1}


@pytest.mark.holds("lease-is-stored")
def test_lease_that_is_not_stored_is_not_renewed(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The others would not see it, and take its Bundles over."""
    clock, namespace = ManualClock(), new_tenant().namespace
    with FaultProxy(site) as proxy:
        access = cluster_access(kubeconfig=str(proxy.kubeconfig(tmp_path)), environ={})
        with closing(Transport(access)) as transport:
            one = member(KubernetesClient(transport, access.server), namespace, "one", clock)
            one.sync()
            assert served_by(one) == ["one"]
            clock.advance(399)
            proxy.rule = always(faults.dry_run(), where=lambda seen: seen.method == "PUT")
            one.sync()
            clock.advance(2)
            one.sync()
    assert served_by(one) == []
    assert "was not written, though the server answered" in one.idle()

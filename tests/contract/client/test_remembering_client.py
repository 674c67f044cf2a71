"""A client that remembers: many users on the same connections, each with its own rights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient, Memory
from applyprune.cluster.transport import Transport
from applyprune.engine.context import WorkerPool
from applyprune.engine.ports import Cancellation
from applyprune.engine.reader import KindProofs
from applyprune.errors import Forbidden
from applyprune.localplane import API_SERVER_ONLY
from applyprune.model.identity import GroupKind
from applyprune.model.live import CONFIG_MAPS, PODS, CompleteResourceMap
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import Api
from tests.support.clocks import ManualClock
from tests.support.objects import crd
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.fault_proxy import FaultProxy
    from tests.support.plane import FreshPlane, OpenTransport

SELECTOR = "a=b"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(open_transport: OpenTransport, tmp_path: Path, clock: ManualClock) -> KubernetesClient:
    """A client of the run's plane, through the proxy."""
    return KubernetesClient(
        open_transport(), "test", cache=tmp_path / "cache", memory=Memory(clock=clock)
    )


def test_users_on_the_same_connections_keep_their_own_rights(
    client: KubernetesClient, plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Whatever the others do at the same time."""
    kubeconfig_as("one", plane, api, namespace, tmp_path, rule("", ["configmaps"], ["list"]))
    users = {name: client.as_user(name) for name in ("one", "other")}

    def is_allowed(name: str) -> tuple[str, bool]:
        try:
            users[name].list(CONFIG_MAPS, namespace=namespace)
        except Forbidden:
            return name, False
        return name, True

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(is_allowed, ["one", "other"] * 60))
    assert set(found) == {("one", True), ("other", False)}


@pytest.mark.holds("search-asks-again")
def test_refused_list_is_not_asked_for_again(client: KubernetesClient, proxy: FaultProxy) -> None:
    """The refusal of one user says nothing about another."""
    nobody = client.as_user("nobody")
    for _ in range(3):
        with pytest.raises(Forbidden, match="nobody"):
            nobody.list(CONFIG_MAPS, selector=SELECTOR, remembered=True)
    assert len(proxy.exchanges) == 1
    assert list(client.list(CONFIG_MAPS, selector=SELECTOR, remembered=True)) == []
    with pytest.raises(Forbidden, match="nobody"):
        nobody.list(CONFIG_MAPS, selector=SELECTOR)
    assert len(proxy.exchanges) == 3, "who needs a proof asks"
    with pytest.raises(Forbidden, match="somebody"):
        client.as_user("somebody").list(CONFIG_MAPS, selector=SELECTOR, remembered=True)


def test_kinds_are_remembered_until_something_fails(
    client: KubernetesClient, proxy: FaultProxy
) -> None:
    """All users of a memory share them; who wants to know what is served now asks."""
    assert not client.resource_map(remembered=True).remembered
    asked = len(proxy.exchanges)
    assert client.as_user("one").resource_map(remembered=True).remembered
    assert len(proxy.exchanges) == asked
    assert not client.resource_map().remembered
    assert len(proxy.exchanges) > asked
    client.forget()
    assert not client.resource_map(remembered=True).remembered


def test_kinds_and_schemas_are_remembered_for_a_minute(
    client: KubernetesClient, proxy: FaultProxy, clock: ManualClock
) -> None:
    for seconds, is_asked in ((0, True), (59, False), (1, True), (59, False)):
        clock.advance(seconds)
        for read in (lambda: client.resource_map(remembered=True), lambda: client.schemas(PODS)):
            asked = len(proxy.exchanges)
            read()
            assert (len(proxy.exchanges) > asked) == is_asked


@pytest.mark.holds("proof-not-remembered")
def test_no_proof_is_made_by_remembered_kinds(fresh_plane: FreshPlane, tmp_path: Path) -> None:
    """What was served a moment ago may be gone.

    Slow: each list of kinds is read again until two agree.
    """
    plane = fresh_plane(API_SERVER_ONLY)
    api, path = Api(plane), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api("POST", path, crd())[0] == 201
    access = cluster_access(kubeconfig=str(plane.kubeconfig), environ={})
    transport = Transport(access)
    client = KubernetesClient(transport, "test", cache=tmp_path / "cache", memory=Memory())
    kind = GroupKind("x.example.com", "Foo")
    # The server lists its groups a moment before their kinds.
    eventually(lambda: client.resource_map().find_kind(kind) is not None, lambda: "the kind")
    assert api("DELETE", f"{path}/foos.x.example.com")[0] == 200
    eventually(lambda: "x.example.com" not in str(api.get("/apis")), lambda: "its end")
    api.close()
    remembered = client.resource_map(remembered=True)
    assert remembered.find_kind(kind) is not None
    with WorkerPool(2, Cancellation()) as workers:
        proof = KindProofs(client, workers, remembered, patience=8.0).of()
    transport.close()
    assert isinstance(proof, CompleteResourceMap)
    assert proof.resources.find_kind(kind) is None

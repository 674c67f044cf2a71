"""A list whose page is too large is read in smaller pages, and completely."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.model.live import CONFIG_MAPS
from tests.support.held import held
from tests.support.objects import config_map

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from tests.support.api import Api
    from tests.support.fault_proxy import FaultProxy
    from tests.support.plane import OpenTransport

COUNT = 45
LARGE = "x" * 200_000


@pytest.fixture
def large(api: Api, namespace: str) -> set[str]:
    """Objects whose metadata alone are larger than a page may be."""
    names = {f"c-{number}" for number in range(COUNT)}
    for name in names:
        body = config_map(name, annotations={"large": LARGE})
        assert api("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0] == 201
    return names


def _limits(proxy: FaultProxy) -> list[str]:
    """Return how many objects each request asked for."""
    return [parse_qs(urlsplit(one.target).query)["limit"][0] for one in proxy.exchanges]


@pytest.mark.holds("reply-size", "smaller-page")
def test_large_page_is_asked_for_again_in_parts(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, large: set[str]
) -> None:
    """The rest of the list stays in small pages; a whole object is not kept if it is not needed."""

    def slim(live: LiveObject) -> LiveObject:
        kept.append(len(live.annotations.get("large", "")))
        return live

    kept: list[int] = []
    client = KubernetesClient(open_transport(), "test")
    found, version = client.list_at(CONFIG_MAPS, namespace=namespace, slim=slim)
    assert {live.ref.name for live in found} >= large
    assert version
    assert _limits(proxy) == ["500", "62", *["7"] * 7]
    assert kept.count(len(LARGE)) == COUNT


def test_listed_objects_hold_no_tree(
    open_transport: OpenTransport, api: Api, namespace: str
) -> None:
    """Each keeps texts: a run holds as many objects as the set has."""
    for name in ("a", "b"):
        body = config_map(name, name)
        assert api("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0] == 201
    client = KubernetesClient(open_transport(), "test")
    for full in (False, True):
        found = client.list(CONFIG_MAPS, namespace=namespace, full=full)
        lives = [live for live in found if live.ref.name in {"a", "b"}]
        assert [bool(live.managed_fields) for live in lives] == [True, True]
        for live in lives:
            assert held(live).count(bytes) == (3 if full else 2)
            assert {dict, list}.isdisjoint(held(live))
            assert live.metadata["name"] == live.ref.name
            assert live.body is None or live.body["data"] == {"key": live.ref.name}

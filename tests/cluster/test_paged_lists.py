"""A list whose page is too large is read in smaller pages, and completely."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.model.resources import CONFIG_MAPS
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


def test_large_page_is_asked_for_again_in_parts(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, large: set[str]
) -> None:
    """The rest of the list stays in small pages; a whole object is not kept if it is not needed."""

    def keep(live: LiveObject) -> LiveObject:
        kept.append(len(live.annotations.get("large", "")))
        return live

    kept: list[int] = []
    client = KubernetesClient(open_transport(), "test")
    found, version = client.list_at(CONFIG_MAPS, namespace=namespace, keep=keep)
    assert {live.ref.name for live in found} >= large
    assert version
    assert _limits(proxy) == ["500", "62", *["7"] * 7]
    assert kept.count(len(LARGE)) == COUNT

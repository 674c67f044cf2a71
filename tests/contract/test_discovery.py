"""The schemas of a group version: read once, kept in a compact form, and read again if changed."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.errors import ApiError, Unreachable
from applyprune.model.live import CONFIG_MAPS, DEPLOYMENTS, Resource
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.order import is_built_in
from applyprune.planning.schemas import field_faults, kind_schema
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import crd
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.api import Api
    from tests.support.fault_proxy import Rule
    from tests.support.plane import OpenTransport

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": "1", "template": {"spec": {"containers": [{"nam": "web"}]}}},
}


@pytest.fixture
def client(open_transport: OpenTransport, tmp_path: Path) -> KubernetesClient:
    """A client with a cache of the test's own."""
    return KubernetesClient(open_transport(), "https://test", cache=tmp_path / "cache")


def _files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").iterdir())


def test_schemas_are_kept_in_a_compact_form(
    client: KubernetesClient, proxy: FaultProxy, tmp_path: Path
) -> None:
    """A tenth of the document; the second time, the server only says that it is unchanged."""
    schemas = client.schemas(DEPLOYMENTS)
    assert client.schemas(DEPLOYMENTS) == schemas
    first, second = proxy.exchanges
    assert (first.status, second.status) == (200, 304)
    assert first.path == second.path == "/openapi/v3/apis/apps/v1"
    assert second.reply == b""
    (kept,) = _files(tmp_path)
    assert kept.stat().st_size < len(first.reply) / 5
    assert kept.stat().st_mode & 0o077 == 0
    kind = kind_schema(schemas, DEPLOYMENTS.gvk)
    assert kind is not None
    whole = kind_schema(json.loads(first.reply)["components"]["schemas"], DEPLOYMENTS.gvk)
    assert whole is not None
    found = field_faults(DEPLOYMENT, kind)
    assert len(found) == 2
    assert field_faults(DEPLOYMENT, whole) == found


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "truncated": lambda raw: raw[: len(raw) // 2],
    "of another shape": lambda _: b"[]",
    "without a document": lambda _: b'{"etag":"x"}',
    "with a header in its ETag": lambda _: b'{"etag":"x\\r\\nEvil: 1","document":{}}',
    "nested too deeply": lambda _: b"[" * 100_000,
    "no text": lambda _: b"\xff\xfe\x00",
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_file_of_the_cache_is_replaced(
    client: KubernetesClient, proxy: FaultProxy, tmp_path: Path, how: str
) -> None:
    """It counts as missing: the document is read again."""
    schemas = client.schemas(CONFIG_MAPS)
    (kept,) = _files(tmp_path)
    content = kept.read_bytes()
    kept.write_bytes(BROKEN[how](content))
    assert client.schemas(CONFIG_MAPS) == schemas
    assert [seen.status for seen in proxy.exchanges] == [200, 200]
    assert _files(tmp_path) == [kept]
    assert kept.read_bytes() == content


def test_cache_that_cannot_be_written_costs_only_time(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path
) -> None:
    """There is a file where its folder should be; or there is no cache at all."""
    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "file" / "cache", None):
        client = KubernetesClient(open_transport(), "https://test", cache=cache)
        assert client.schemas(CONFIG_MAPS) == client.schemas(CONFIG_MAPS) != {}
    assert {seen.status for seen in proxy.exchanges} == {200}


def test_changed_crd_is_seen_at_once(client: KubernetesClient, api: Api) -> None:
    """The kept document is a second old, and the server has another one."""
    definition = crd("Gauge")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, reply = api("POST", path, definition)
    assert status == 201, reply
    resource = Resource("x.example.com", "v1", "Gauge", "gauges", namespaced=True)

    def spec() -> dict[str, object]:
        try:
            kind = kind_schema(client.schemas(resource), resource.gvk)
        except ApiError:
            return {}  # not published yet
        return dict(kind.schema["properties"]) if kind else {}

    eventually(lambda: "spec" in spec(), lambda: "the kind is published")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["fresh"] = {"type": "string"}
    live = api.get(f"{path}/{definition['metadata']['name']}")
    live["spec"]["versions"] = definition["spec"]["versions"]
    assert api("PUT", f"{path}/{live['metadata']['name']}", live)[0] == 200
    eventually(lambda: "fresh" in spec(), lambda: "the change is seen")
    api("DELETE", f"{path}/{live['metadata']['name']}")


def _answer(body: bytes) -> Rule:
    return always(faults.answer(200, body, [("Content-Type", "application/json"), ("ETag", "x")]))


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"components":1}', b'{"components":{"schemas":[]}}'],
)
def test_document_without_schemas_has_none(
    client: KubernetesClient, proxy: FaultProxy, body: bytes
) -> None:
    """Whatever its shape."""
    proxy.rule = _answer(body)
    assert client.schemas(CONFIG_MAPS) == {}


def test_odd_schemas_are_kept_as_they_are(client: KubernetesClient, proxy: FaultProxy) -> None:
    """Nothing in them is trusted; one that is nested too deeply is at most an error."""
    odd = {"a": 1, "b": {"properties": 1, "allOf": 2, "items": [], "description": "x"}}
    proxy.rule = _answer(json.dumps({"components": {"schemas": odd}}).encode())
    assert client.schemas(CONFIG_MAPS) == {
        "a": 1,
        "b": {"properties": 1, "allOf": 2, "items": []},
    }
    for levels in (450, 100_000):
        deep = b'{"properties":{"a":' * levels + b"{}" + b"}}" * levels
        proxy.rule = _answer(b'{"components":{"schemas":{"a":' + deep + b"}}}")
        with suppress(ApiError, Unreachable):
            client.schemas(DEPLOYMENTS)


def test_part_that_is_not_json_is_an_error(client: KubernetesClient, proxy: FaultProxy) -> None:
    """It is seen where it is read: the parts of a large document are read one by one."""
    proxy.rule = _answer(b'{"components":{"schemas":{"a":"\xff"}}}')
    with pytest.raises(ApiError, match="a part that is not JSON"):
        client.schemas(CONFIG_MAPS)


def test_refused_document_is_an_error(client: KubernetesClient, proxy: FaultProxy) -> None:
    """The caller says that nothing was checked."""
    proxy.rule = always(faults.answer(403))
    with pytest.raises(ApiError):
        client.schemas(CONFIG_MAPS)


def _parts(resource: Resource) -> tuple[object, ...]:
    names = resource.short_names
    return resource.plural, resource.namespaced, resource.has_status, names


def test_kinds_that_are_known_without_a_server_are_its_own(client: KubernetesClient) -> None:
    """Each stable version, with its plural, scope, status and short names; and what it prefers."""
    server, known = client.resource_map(), built_in_kinds()
    served = {gvk: _parts(one) for gvk, one in server.served.items() if is_built_in(gvk.group)}
    assert {gvk: _parts(one) for gvk, one in known.served.items()} == served
    preferred = {kind: one.gvk for kind, one in server.preferred.items() if is_built_in(kind.group)}
    assert {kind: one.gvk for kind, one in known.preferred.items()} == preferred

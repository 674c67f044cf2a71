"""Plain requests to a registry of the tests: whatever is pushed, or asked."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

import urllib3

from tests.support.registries import PASSWORD, USER

if TYPE_CHECKING:
    from tests.support.registries import Registry

BASIC = {"Authorization": "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


class Client:
    """Sends requests to one registry, trusting only its CA."""

    def __init__(self, registry: Registry) -> None:
        self._host = registry.host
        self._pool = urllib3.PoolManager(ca_certs=str(registry.ca), retries=False)

    def __call__(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> urllib3.BaseHTTPResponse:
        url = path if "://" in path else f"https://{self._host}{path}"
        return self._pool.request(method, url, headers=headers, body=body, redirect=False)

    def push(self, name: str, blob: bytes, headers: dict[str, str]) -> str:
        """Upload a blob and return its digest."""
        digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        begun = self("POST", f"/v2/{name}/blobs/uploads/", headers)
        assert begun.status == 202, begun.data
        where = begun.headers["Location"]
        stored = self("PUT", f"{where}{'&' if '?' in where else '?'}digest={digest}", headers, blob)
        assert stored.status == 201, stored.data
        return digest

    def push_manifest(
        self, name: str, reference: str, manifest: object, media_type: str = MANIFEST_TYPE
    ) -> str:
        """Upload a manifest or an index and return its digest."""
        body = json.dumps(manifest).encode()
        path = f"/v2/{name}/manifests/{reference}"
        reply = self("PUT", path, BASIC | {"Content-Type": media_type}, body)
        assert reply.status == 201, reply.data
        return f"sha256:{hashlib.sha256(body).hexdigest()}"


def manifest_of(config: str, **more: object) -> dict[str, object]:
    """Return a manifest whose config is an empty object, without layers."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": 2},
        "layers": [],
        **more,
    }

"""Aggregated discovery (KEP-3352) of what the API server serves: two requests, cached by ETag.

The cache holds the last response for each URL. An ETag is a hash of the content, so a 304 means
that the content is the same, whichever cluster it came from.

The OpenAPI v3 schemas of kinds are about 1 MB per API group, so they are read only on failure.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import platformdirs

from applyprune.cluster.object_requests import for_document
from applyprune.errors import Unreachable
from applyprune.model.resources import Resource, ResourceMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from applyprune.cluster.transport.transport import Transport
    from applyprune.model.identity import GVK, GroupKind
    from applyprune.model.resources import Resource

_ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


def discover(transport: Transport, server: str, cache: Path | None) -> ResourceMap:
    """Return what the server serves now; raises AccessError.

    ``cache`` is a folder for earlier responses; None means no cache.
    """
    served: dict[GVK, Resource] = {}
    preferred: dict[GroupKind, Resource] = {}
    stale: set[str] = set()
    for path in ("/api", "/apis"):
        for group in _groups(_document(transport, server, path, cache)):
            name = str(group.get("metadata", {}).get("name", ""))
            for version in group.get("versions") or ():
                if version.get("freshness") == "Stale":
                    stale.add(name)
                # The server lists versions in its order of preference.
                for resource in _resources(name, version):
                    served[resource.gvk] = resource
                    preferred.setdefault(resource.group_kind, resource)
    return ResourceMap(served, preferred, frozenset(stale))


def server_version(transport: Transport) -> str:
    """Return the server's version, ``v1.36.3`` for example; raises AccessError."""
    return str(transport.send(for_document("/version")).body.get("gitVersion", ""))


def _groups(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    items = document.get("items")
    if document.get("kind") != "APIGroupDiscoveryList" or not isinstance(items, list):
        raise Unreachable(
            "the server does not support aggregated discovery",
            reason=f"it responded with kind {document.get('kind')!r}",
            hint="applyprune needs Kubernetes 1.27 or newer.",
        )
    yield from items


def _resources(group: str, version: Mapping[str, Any]) -> Iterator[Resource]:
    for item in version.get("resources") or ():
        kind = item.get("responseKind") or {}
        plural, verbs = item.get("resource"), item.get("verbs") or ()
        # A resource that cannot be read or deleted, like a review, cannot be in a set.
        if not plural or not {"get", "list", "delete"} <= set(verbs):
            continue
        yield Resource(
            # A resource may return a kind of another group (scale subresources do); its path
            # needs the endpoint's own group and version.
            group=group,
            version=str(version.get("version", "")),
            kind=str(kind.get("kind", "")),
            plural=str(plural),
            namespaced=item.get("scope") == "Namespaced",
        )


def _document(
    transport: Transport, server: str, path: str, cache: Path | None
) -> Mapping[str, Any]:
    kept = _Kept(cache, server, path)
    etag, before = kept.read()
    headers = (("If-None-Match", etag),) if etag else ()
    reply = transport.send(for_document(path, accept=_ACCEPT, headers=headers))
    if reply.status == 304 and before is not None:
        return before
    kept.write(reply.headers.get("ETag", ""), reply.body)
    return reply.body


class _Kept:
    """One document of one server in the cache folder; a broken file counts as missing."""

    def __init__(self, folder: Path | None, server: str, path: str) -> None:
        name = hashlib.sha256(f"{server} {path}".encode()).hexdigest()[:32]
        self._file = folder / f"{name}.json" if folder else None

    def read(self) -> tuple[str, Mapping[str, Any] | None]:
        if self._file is None:
            return "", None
        try:
            kept = json.loads(self._file.read_bytes())
            etag, document = kept["etag"], kept["document"]
        except (OSError, ValueError, KeyError, TypeError):
            return "", None
        if not isinstance(etag, str) or not isinstance(document, dict):
            return "", None
        return etag, document

    def write(self, etag: str, document: Mapping[str, Any]) -> None:
        if self._file is None or not etag:
            return
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._file.parent, delete=False, encoding="utf-8"
            ) as fresh:
                json.dump({"etag": etag, "document": document}, fresh)
            Path(fresh.name).replace(self._file)
        except OSError:
            return  # without a cache, only time is lost


def cache_folder() -> Path:
    """Return the user's folder for discovery documents."""
    return platformdirs.user_cache_path("applyprune", appauthor=False) / "discovery"


if TYPE_CHECKING:
    Schemas = Mapping[str, Any]


def schemas_of(transport: Transport) -> Callable[[Resource], tuple[Schemas, Schemas]]:
    """Return a function from a kind to its schema and the schemas that it refers to.

    Each document is read once.
    """

    lock = Lock()

    @cache
    def read(path: str) -> Schemas:
        reply = transport.send(for_document(path))
        components = reply.body.get("components")
        schemas = components.get("schemas") if isinstance(components, dict) else None
        return schemas if isinstance(schemas, dict) else {}

    def schema(resource: Resource) -> tuple[Schemas, Schemas]:
        version = resource.gvk.api_version
        with lock:  # many objects may fail at once
            schemas = read(f"/openapi/v3/{'apis' if resource.group else 'api'}/{version}")
        wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        for found in schemas.values():
            if isinstance(found, dict) and wanted in (found.get(_KINDS) or ()):
                return found, schemas
        return {}, schemas

    return schema


_KINDS = "x-kubernetes-group-version-kind"

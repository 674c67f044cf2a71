"""OpenAPI v3 schemas of kinds: about 1 MB per API group, so they are read only on failure."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from applyprune.cluster.object_requests import for_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from applyprune.cluster.transport import Transport
    from applyprune.model.resources import Resource

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

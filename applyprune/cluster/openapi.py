"""The schemas of kinds, by OpenAPI v3: a megabyte for each API group, asked for on failure only."""

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
    """Return what gives a kind's schema and those it refers to; each document is read once."""

    lock = Lock()

    @cache
    def read(path: str) -> Schemas:
        reply = transport.send(for_document(path))
        components = reply.body.get("components")
        schemas = components.get("schemas") if isinstance(components, dict) else None
        return schemas if isinstance(schemas, dict) else {}

    def schema(resource: Resource) -> tuple[Schemas, Schemas]:
        version = resource.gvk.api_version
        with lock:  # a thousand objects may fail at once
            schemas = read(f"/openapi/v3/{'apis' if resource.group else 'api'}/{version}")
        wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        for one in schemas.values():
            if isinstance(one, dict) and wanted in (one.get(_KINDS) or ()):
                return one, schemas
        return {}, schemas

    return schema


_KINDS = "x-kubernetes-group-version-kind"

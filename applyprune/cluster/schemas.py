"""The OpenAPI v3 schemas of the kinds that the API server serves, cached in a compact form.

The document of a group version has 0.1 to 1.6 MB. What a check of fields needs is a tenth of it.
Each document is asked for with its ETag. The index of all documents would be one request instead,
but it is about a second behind a changed CRD, and the document is not (measured on 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from applyprune.cluster.kept_documents import read_document
from applyprune.cluster.objects import schemas_path
from applyprune.errors import Unavailable
from applyprune.model.json_access import mapping
from applyprune.planning.checks.schema_node import KEYWORDS

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.cluster.transport.transport import Transport
    from applyprune.model.resources import Resource

_FORM = "fields-1"
"""The compact form of the cached documents: change it with the keywords."""
_WITHIN = 10.0
_PARTS = frozenset({"additionalProperties", "items"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf"})


def read_schemas(
    transport: Transport, server: str, cache: Path | None, resource: Resource
) -> Mapping[str, Any]:
    """Return the schemas of a resource's group version by name, with the keywords of the check.

    They are empty if the server publishes none. Raises AccessError.
    """
    path = schemas_path(resource)
    try:
        return read_document(
            transport, server, path, cache, part=_compact, form=_FORM, within=_WITHIN
        )
    except RecursionError:
        raise Unavailable(f"{path} is nested too deeply", code=200) from None


def _compact(document: Mapping[str, Any]) -> Mapping[str, Any]:
    schemas = mapping(mapping(document.get("components")).get("schemas"))
    return {name: _reduced(schema) for name, schema in schemas.items()}


def _reduced(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    small = {key: schema[key] for key in schema.keys() & KEYWORDS}
    for key in small.keys() & _PARTS:
        small[key] = _reduced(small[key])
    for key in small.keys() & _LISTS:
        if isinstance(small[key], list):
            small[key] = [_reduced(part) for part in small[key]]
    if isinstance(known := small.get("properties"), dict):
        small["properties"] = {name: _reduced(part) for name, part in known.items()}
    return small

"""Find the fields of an object that its OpenAPI v3 schema does not know.

The API server stops at the first unknown field; this module finds all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from applyprune.model.json_access import mapping
from applyprune.model.problem import Field


def unknown_fields(
    body: Mapping[str, Any], schema: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterator[tuple[Field, tuple[str, ...]]]:
    """Yield every unknown field of a body, with the names that the schema knows at that place.

    ``schemas`` maps the names in references to schemas.
    """
    yield from _unknown(body, schema, schemas, ())


def _unknown(
    value: object, schema: object, schemas: Mapping[str, Any], path: Field
) -> Iterator[tuple[Field, tuple[str, ...]]]:
    facts = _resolved(schema, schemas)
    if facts.get("x-kubernetes-preserve-unknown-fields") or not facts:
        return
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unknown(inner, facts.get("items"), schemas, (*path, index))
    elif isinstance(value, dict):
        known = mapping(facts.get("properties"))
        others = facts.get("additionalProperties")
        if not known and not others:
            return  # the schema allows any object
        for key, inner in value.items():
            if key in known:
                yield from _unknown(inner, known[key], schemas, (*path, key))
            elif others:
                yield from _unknown(inner, others, schemas, (*path, key))
            else:
                yield (*path, key), tuple(known)


def _resolved(schema: object, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its reference resolved; empty if it says nothing."""
    facts = mapping(schema)
    for part in (facts, *facts.get("allOf", ())):
        if reference := mapping(part).get("$ref"):
            referenced = schemas.get(str(reference).rpartition("/")[2])
            return _resolved(referenced, schemas)
    return facts

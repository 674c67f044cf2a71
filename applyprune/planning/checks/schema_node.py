"""Read what an OpenAPI v3 schema says about one value: each part of a schema is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from applyprune.model.live import mapping
from applyprune.values import dataclass, field

KINDS = "x-kubernetes-group-version-kind"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_LIST_TYPE = "x-kubernetes-list-type"
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
KEYWORDS = frozenset(
    {
        "additionalProperties", "allOf", "anyOf", "default", "format", "items", "nullable", "oneOf",
        "properties", "$ref", "type", _EMBEDDED, _INT_OR_STRING, _LIST_KEYS, _LIST_TYPE, _PRESERVES,
        KINDS,
    }
)  # fmt: skip
"""The keywords of a schema that are read here."""
_ANY: Mapping[str, Any] = {}
IDENTITY: Mapping[str, Any] = {"apiVersion": _ANY, "kind": _ANY, "metadata": _ANY}
"""The fields that every object has, with any value."""
_TYPES: Mapping[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
_WORDS = {"array": "list", "object": "map"}
_MOST_REFERENCES = 8


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """What a schema says about one value."""

    accepts: frozenset[type] | None = None
    """The types that it allows; None for any."""
    expected: str = ""
    """These types in words."""
    referenced: bool = False
    """Whether it is a schema with a name: a type of Go."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    others: Any = None
    """The schema of all other properties; None if there is none."""
    preserves: bool = False
    """Whether the server keeps unknown fields."""
    items: Any = None
    """The schema of the items of a list."""
    list_type: str = ""
    """``map`` or ``set`` if the items of a list must differ."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """The names of the fields that tell the items of a map apart, with their defaults."""
    nullable: bool = False
    """Whether a custom resource may have a null there: a default replaces it."""


def node_of(schema: object, schemas: Mapping[str, Any], nodes: dict[int, SchemaNode]) -> SchemaNode:
    """Return what a schema says, and keep it in ``nodes``; ``schemas`` are those with a name."""
    facts = _resolved(schema, schemas)
    types = _allowed(facts)
    node = SchemaNode()
    if types is not None:
        properties = mapping(facts.get("properties"))
        items = facts.get("items")
        node = SchemaNode(
            accepts=frozenset[type]().union(*(_TYPES[word] for word in types)),
            expected=" or ".join(_WORDS.get(word, word) for word in sorted(types)),
            referenced=facts is not schema,
            properties={**IDENTITY, **properties} if facts.get(_EMBEDDED) is True else properties,
            others=facts.get("additionalProperties"),
            preserves=facts.get(_PRESERVES) is True,
            items=items,
            list_type=str(facts.get(_LIST_TYPE, "")),
            keys=_keys(facts, _resolved(items, schemas)),
            nullable=facts.get("nullable") is True or "default" in facts,
        )
    nodes[id(schema)] = node
    return node


def _allowed(facts: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the types that a schema allows; None for any."""
    if facts.get(_INT_OR_STRING) is True or facts.get("format") == "int-or-string":
        return frozenset({"integer", "string"})
    if "type" in facts:
        words = [facts["type"]]
    else:
        choices = facts.get("oneOf") or facts.get("anyOf")
        words = [mapping(each).get("type") for each in choices] if isinstance(choices, list) else []
    known = frozenset(word for word in words if isinstance(word, str) and word in _TYPES)
    return known if known and len(known) == len(words) else None


def _keys(facts: Mapping[str, Any], item: Mapping[str, Any]) -> Mapping[str, Any]:
    names, known = facts.get(_LIST_KEYS), mapping(item.get("properties"))
    if not isinstance(names, list):
        return {}
    return {str(name): mapping(known.get(str(name))).get("default") for name in names}


def _resolved(schema: object, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its reference resolved; empty if it says nothing."""
    facts = mapping(schema)
    for _ in range(_MOST_REFERENCES):
        reference = _reference(facts)
        if not reference:
            return facts
        name = reference.rpartition("/")[2]
        facts = _as_decoded(name, mapping(schemas.get(name)))
    return _ANY


def _reference(facts: Mapping[str, Any]) -> str:
    """Return what a schema refers to, also as the only part of its ``allOf``; else empty."""
    reference = facts.get("$ref")
    if reference is None:
        parts = facts.get("allOf")
        if not isinstance(parts, list) or len(parts) != 1:
            return ""
        reference = mapping(parts[0]).get("$ref")
    return reference if isinstance(reference, str) else ""


_QUANTITY: Mapping[str, Any] = {"oneOf": [{"type": "string"}, {"type": "number"}]}
_SCALAR: Mapping[str, Any] = {"oneOf": [*_QUANTITY["oneOf"], {"type": "boolean"}]}


def _as_decoded(name: str, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a type that decodes itself, and accepts more than it publishes."""
    if name.endswith(".apimachinery.pkg.api.resource.Quantity"):
        return _QUANTITY
    if facts.get("format") == "date-time":
        return _SCALAR  # in the metadata of a custom resource
    if facts.get("type") == "object" and not facts.keys() & {"properties", "additionalProperties"}:
        return _ANY  # raw JSON
    return facts

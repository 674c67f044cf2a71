"""Check the fields of an object by the server's schema, or by the CRD of the same input.

The API server stops at the first fault; this finds all of them. It never finds a fault in what the
server accepts (a differential test compares both): a schema that says nothing about a value allows
any, and null unsets a field of a built-in kind. Required fields, formats, patterns and limits are
left to the server, because the manifest of a server-side apply is only a part of its object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from applyprune.model.identity import GVK
from applyprune.model.kinds import CRD
from applyprune.model.live import mapping
from applyprune.model.problem import MOST_ERRORS, ChangedKey, Field, Mark, Problem, ProblemKind
from applyprune.model.text import and_more, visible
from applyprune.planning.names import did_you_mean
from applyprune.planning.served_kinds import defined_resources, schema_of
from applyprune.planning.server_errors import advice_on, dotted

if TYPE_CHECKING:
    from applyprune.model.plan import Desired


KINDS = "x-kubernetes-group-version-kind"
_ANY: Mapping[str, Any] = {}
IDENTITY: Mapping[str, Any] = {"apiVersion": _ANY, "kind": _ANY, "metadata": _ANY}
"""The fields that every object has, with any value."""
TYPE_WORDS: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number",
                              dict: "map", list: "list", type(None): "null"}  # fmt: skip
UNKNOWN = "unknown field"
_MAP = "map"
_SET = "set"


def field_faults(body: Mapping[str, Any], kind: KindSchema) -> tuple[FieldFault, ...]:
    """Return all unknown fields of a body, and all fields of the wrong type, in its order.

    The status of a custom resource is left out: the server drops most of it unread.
    """
    search = _Search(kind)
    if kind.custom:
        body = {key: value for key, value in body.items() if key != "status"}
    search.value(body, kind.schema, nulls=kind.custom, closed=True)
    return tuple(search.faults)


def changed_key_faults(keys: Sequence[ChangedKey], kind: KindSchema) -> tuple[FieldFault, ...]:
    """Return those keys of which YAML makes another text that are in fields of a schema."""
    known = (key for key in keys if _is_known(key.place, kind))
    # guard: changed-key-by-schema -> ()
    return tuple(FieldFault(key.place, becomes(key)) for key in known)


def becomes(key: ChangedKey) -> str:
    """Return what YAML makes of a key."""
    written = visible(key.written if len(key.written) <= 60 else f"{key.written[:57]}...")
    return f'without quotes, the key {written} becomes "{key.place[-1]}"'


def _is_known(place: Field, kind: KindSchema) -> bool:
    """Return whether a schema says which fields are at a place; else they may be any JSON."""
    schema: object = kind.schema
    for step in place:
        node = kind.nodes.get(id(schema)) or node_of(schema, kind.schemas, kind.nodes)
        if node.accepts is None:
            return False
        if isinstance(step, int):
            schema = node.items
        elif step in node.properties:
            schema = node.properties[step]
        elif node.preserves or not (node.others or node.properties):
            return False
        elif not node.others:
            return True  # an unknown field
        else:
            schema = node.others
    return True


def stored_faults(body: Mapping[str, Any], kind: KindSchema) -> tuple[FieldFault, ...]:
    """Return the values of a stored custom resource that server-side apply cannot read.

    It reads the whole object by the schema, with its status. Unknown fields are pruned before, and
    null, fractions and duplicates pass (structured-merge-diff, ``typed/validate.go``).
    """
    search = _Search(kind)
    search.value(body, kind.schema, nulls=True, closed=False)
    return tuple(
        one
        for one in search.faults
        if one.what.startswith("expected ")
        and not one.what.endswith(", got null")
        and one.what != "expected integer, got number"
    )


class FieldFault(Struct, frozen=True):
    """A field that a schema does not know, or whose value has another type."""

    field: Field
    what: str
    """What is wrong; it never contains a value."""
    known: tuple[str, ...] = ()
    """The names that the schema knows in the place of an unknown one."""
    twin: Field = ()
    """The item that a duplicate repeats."""


class KindSchema(Struct, frozen=True, dict=True):
    """The schema of a kind, and the schemas that it refers to, by name."""

    schema: Mapping[str, Any]
    schemas: Mapping[str, Any] = field(default_factory=dict)
    custom: bool = False
    """Whether a CRD defines the kind: then null is a value, and most fields do not allow it."""

    @cached_property
    def nodes(self) -> dict[int, SchemaNode]:
        """Return the parts that were read already, by the identity of each schema."""
        return {}


def kind_schema(schemas: Mapping[str, Any], gvk: GVK, *, custom: bool = False) -> KindSchema | None:
    """Return the schema of a kind among those of its group version; None if there is none."""
    wanted = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    for schema in schemas.values():
        kinds = mapping(schema).get(KINDS)
        if isinstance(kinds, list) and wanted in kinds:
            return KindSchema(schema, schemas, custom)
    return None


def custom_schema(schema: Mapping[str, Any]) -> KindSchema:
    """Return the schema of a kind from the openAPIV3Schema in its CRD."""
    known = {**mapping(schema.get("properties")), **IDENTITY}
    return KindSchema({**schema, "properties": known}, custom=True)


def defined_schemas(members: Iterable[Desired]) -> Mapping[GVK, KindSchema | None]:
    """Return the schema of each kind that a CRD defines; None if that keeps any JSON."""
    found = {
        resource.gvk: schema_of(one.body, resource.version)
        for one in members
        if one.ref.group_kind == CRD
        for resource in defined_resources(one.body)
    }
    return {
        gvk: custom_schema(schema) if schema is not None else None for gvk, schema in found.items()
    }


class _Search(Struct):
    """The search in one object.

    ``nulls`` says that null is a value like any other, and ``closed`` that the server does not keep
    unknown fields. The metadata of a custom resource is a type of Go: both are as for those.
    """

    kind: KindSchema
    faults: list[FieldFault] = field(default_factory=list)
    path: list[str | int] = field(default_factory=list)

    def value(self, value: Any, schema: object, *, nulls: bool, closed: bool) -> None:
        kind = self.kind
        node = kind.nodes.get(id(schema)) or node_of(schema, kind.schemas, kind.nodes)
        accepts, form = node.accepts, value.__class__
        if accepts is None:
            return
        if form not in accepts:
            nulls = nulls and not node.referenced
            if not self._passes(value, node, nulls=nulls):
                self._add(f"expected {node.expected}, got {TYPE_WORDS.get(form, form.__name__)}")
        elif form is dict:
            if node.referenced:
                nulls, closed = False, True
            self._members(value, node, nulls=nulls, closed=closed)
        elif form is list:
            self._items(value, node, nulls=nulls, closed=closed)

    def _passes(self, value: Any, node: SchemaNode, *, nulls: bool) -> bool:
        """Return whether the server accepts a value all the same."""
        if value is None:
            return not nulls or node.nullable
        # The server never reads the numbers in the metadata of a custom resource.
        return (
            isinstance(value, float)
            and node.accepts is not None
            and int in node.accepts
            and (value.is_integer() or self.path[:1] == ["metadata"])
        )

    def _members(
        self, value: dict[str, Any], node: SchemaNode, *, nulls: bool, closed: bool
    ) -> None:
        known, others, path = node.properties, node.others, self.path
        closed = closed and not node.preserves
        for key, inner in value.items():
            path.append(key)
            if key in known:
                self.value(inner, known[key], nulls=nulls, closed=closed)
            elif others or not known:
                self.value(inner, others, nulls=nulls, closed=closed)
            elif closed:
                self._add(UNKNOWN, known=tuple(known))
            path.pop()

    def _items(self, value: list[Any], node: SchemaNode, *, nulls: bool, closed: bool) -> None:
        items, path = node.items, self.path
        for index, inner in enumerate(value):
            path.append(index)
            if inner is None and node.list_type in {_MAP, _SET}:
                self._add("empty item")
            else:
                self.value(inner, items, nulls=nulls, closed=closed)
            path.pop()
        if len(value) > 1 and node.list_type in {_MAP, _SET}:
            self._duplicates(value, node)

    def _duplicates(self, value: list[Any], node: SchemaNode) -> None:
        keys = node.keys if node.list_type == _MAP else {}
        seen: dict[str, int] = {}
        for index, inner in enumerate(value):
            if node.list_type == _MAP and not (keys and isinstance(inner, dict)):
                continue
            key = {name: inner.get(name, keys[name]) for name in keys} if keys else inner
            twin = seen.setdefault(json.dumps(key, sort_keys=True), index)
            if twin != index and inner is not None:
                same = f": the same {' and '.join(keys)}" if keys else ""
                self.path.append(index)
                self._add(f"duplicate of item {twin}{same}", twin=twin)
                self.path.pop()

    def _add(self, what: str, *, known: tuple[str, ...] = (), twin: int | None = None) -> None:
        path = tuple(self.path)
        other = () if twin is None else (*path[:-1], twin)
        self.faults.append(FieldFault(path, what, known, other))


# What an OpenAPI v3 schema says about one value: each part of a schema is read once.


_WORDS = {"array": "list", "object": "map"}
_EMBEDDED = "x-kubernetes-embedded-resource"
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_MOST_REFERENCES = 8
_QUANTITY: Mapping[str, Any] = {"oneOf": [{"type": "string"}, {"type": "number"}]}
_SCALAR: Mapping[str, Any] = {"oneOf": [*_QUANTITY["oneOf"], {"type": "boolean"}]}


class SchemaNode(Struct, frozen=True):
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


_TYPES: Mapping[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}


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


def _keys(facts: Mapping[str, Any], item: Mapping[str, Any]) -> Mapping[str, Any]:
    names, known = facts.get(_LIST_KEYS), mapping(item.get("properties"))
    if not isinstance(names, list):
        return {}
    return {str(name): mapping(known.get(str(name))).get("default") for name in names}


def _allowed(facts: Mapping[str, Any]) -> frozenset[str] | None:
    if facts.get(_INT_OR_STRING) is True or facts.get("format") == "int-or-string":
        return frozenset({"integer", "string"})
    if "type" in facts:
        words = [facts["type"]]
    else:
        choices = facts.get("oneOf") or facts.get("anyOf")
        words = [mapping(each).get("type") for each in choices] if isinstance(choices, list) else []
    known = frozenset(word for word in words if isinstance(word, str) and word in _TYPES)
    return known if known and len(known) == len(words) else None


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


def _as_decoded(name: str, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a type that decodes itself, and accepts more than it publishes."""
    if name.endswith(".apimachinery.pkg.api.resource.Quantity"):
        return _QUANTITY
    if facts.get("format") == "date-time":
        return _SCALAR  # in the metadata of a custom resource
    if facts.get("type") == "object" and not facts.keys() & {"properties", "additionalProperties"}:
        return _ANY  # raw JSON
    return facts


KEYWORDS = frozenset(
    {
        "additionalProperties", "allOf", "anyOf", "default", "format", "items", "nullable", "oneOf",
        "properties", "$ref", "type", _EMBEDDED, _INT_OR_STRING, _LIST_KEYS, _LIST_TYPE, _PRESERVES,
        KINDS,
    }
)  # fmt: skip
"""The keywords of a schema that are read here."""


# The faulty fields of an object as one problem.


_NAMED = 5


def fields_problem(
    desired: Desired, faults: Sequence[FieldFault], most: int = MOST_ERRORS
) -> Problem:
    """Return the problem of an object with faulty fields, up to ``most`` of which have a mark.

    There is at least one.
    """
    first, *others = faults
    marks = tuple(Mark(fault.field, _suggestion(fault) or fault.what) for fault in faults[:most])
    if first.twin and not others:
        marks = (Mark(first.twin, "here"), Mark(first.field, "and here"))
    if others:
        names = and_more([dotted(fault.field) or "the object" for fault in faults], _NAMED)
        what = f"{len(faults)} {_what(faults, desired)}: {names}"
        hints = {advice_on(fault.what) for fault in faults}
        hint = hints.pop() if len(hints) == 1 else ""
    else:
        hint = _suggestion(first) or advice_on(first.what)
        what = f"{dotted(first.field)}: {first.what}".removeprefix(": ")
    return Problem(
        ProblemKind.INVALID,
        f"{desired.ref}: {what}",
        location=str(desired.origin),
        origin=desired.origin,
        hint=hint,
        field=first.field,
        marks=marks if len(marks) > 1 else (),
    )


def _what(faults: Sequence[FieldFault], desired: Desired) -> str:
    unknown = sum(fault.what == UNKNOWN for fault in faults)
    if unknown == len(faults):
        return f"fields that {desired.resource.gvk} does not have"
    return "fields of the wrong type" if not unknown else "unknown fields or wrong types"


def _suggestion(fault: FieldFault) -> str:
    return did_you_mean(str(fault.field[-1]), fault.known) if fault.what == UNKNOWN else ""

"""Check the names and the types of an object's fields against its OpenAPI v3 schema.

The API server stops at the first fault; this finds all of them. It never finds a fault in what the
server accepts (a differential test compares both): a schema that says nothing about a value allows
any, and null unsets a field of a built-in kind. Required fields, formats, patterns and limits are
left to the server, because the manifest of a server-side apply is only a part of its object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from applyprune.model.identity import GVK
from applyprune.model.live import mapping
from applyprune.model.problem import Field
from applyprune.planning.checks.schema_node import IDENTITY, KINDS, SchemaNode, node_of
from applyprune.values import dataclass, field

UNKNOWN = "unknown field"
_WORDS: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number",
                              dict: "map", list: "list", type(None): "null"}  # fmt: skip
_MAP = "map"
_SET = "set"


@dataclass(frozen=True, slots=True)
class KindSchema:
    """The schema of a kind, and the schemas that it refers to, by name."""

    schema: Mapping[str, Any]
    schemas: Mapping[str, Any] = field(default_factory=dict)
    custom: bool = False
    """Whether a CRD defines the kind: then null is a value, and most fields do not allow it."""
    nodes: dict[int, SchemaNode] = field(default_factory=dict, compare=False, repr=False)
    """The parts that were read already, by the identity of each schema."""


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A field that a schema does not know, or whose value has another type."""

    field: Field
    what: str
    """What is wrong; it never contains a value."""
    known: tuple[str, ...] = ()
    """The names that the schema knows in the place of an unknown one."""
    twin: Field = ()
    """The item that a duplicate repeats."""


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


def field_faults(body: Mapping[str, Any], kind: KindSchema) -> tuple[FieldFault, ...]:
    """Return all unknown fields of a body, and all fields of the wrong type, in its order.

    The status of a custom resource is left out: the server drops most of it unread.
    """
    search = _Search(kind)
    if kind.custom:
        body = {key: value for key, value in body.items() if key != "status"}
    search.value(body, kind.schema, nulls=kind.custom, closed=True)
    return tuple(search.faults)


@dataclass(slots=True)
class _Search:
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
                self._add(f"expected {node.expected}, got {_WORDS.get(form, form.__name__)}")
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

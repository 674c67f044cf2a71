"""What the check of fields finds in the forms that an API server's schemas have."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import GVK
from applyprune.model.problem import ChangedKey
from applyprune.planning.schemas import (
    KindSchema,
    changed_key_faults,
    custom_schema,
    field_faults,
    kind_schema,
)

STRING = {"type": "string"}
NUMBER = {"type": "integer"}
PROPERTIES: dict[str, Any] = {
    "text": STRING,
    "count": NUMBER,
    "share": {"type": "number"},
    "on": {"type": "boolean"},
    "labels": {"type": "object", "additionalProperties": STRING},
    "args": {"type": "array", "items": STRING},
    "part": {"type": "object", "properties": {"name": STRING}},
    "object": {"type": "object"},
    "free": {"x-kubernetes-preserve-unknown-fields": True},
    "partly": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"name": STRING, "part": {"type": "object", "properties": {"name": STRING}}},
    },
    "either": {"anyOf": [NUMBER, STRING], "x-kubernetes-int-or-string": True},
    "port": {"x-kubernetes-int-or-string": True},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"name": STRING}}},
    },
    "limited": {"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "^$"}]},
    "one-of": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "odd": {"type": ["string"]},
    "filled": {"type": "string", "default": "x"},
    "nullable": {"type": "string", "nullable": True},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "properties": {"port": NUMBER, "protocol": {"type": "string", "default": "TCP"}},
        },
    },
    "names": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
}
CUSTOM = custom_schema({"type": "object", "properties": {"spec": {
    "type": "object", "properties": PROPERTIES,
}}})  # fmt: skip
BUILT_IN = KindSchema(CUSTOM.schema)

# name: (the spec, the faults as FIELD: WHAT)
FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing wrong": (
        {"text": "", "count": 1, "share": 1.5, "on": False, "labels": {"a": "b"}, "args": ["x"]},
        [],
    ),
    "a number as text": ({"text": 1}, ["text: expected string, got integer"]),
    "a boolean as text": ({"text": True}, ["text: expected string, got boolean"]),
    "text as a number": ({"count": "1"}, ["count: expected integer, got string"]),
    "a boolean as a number": ({"count": True}, ["count: expected integer, got boolean"]),
    "a whole float as an integer": ({"count": 1.0}, []),
    "a fraction as an integer": ({"count": 1.5}, ["count: expected integer, got number"]),
    "an integer as a number": ({"share": 1}, []),
    "text as a boolean": ({"on": "yes"}, ["on: expected boolean, got string"]),
    "a map as a list": ({"args": {"a": "b"}}, ["args: expected list, got map"]),
    "a list as a map": ({"part": []}, ["part: expected map, got list"]),
    "a value of a map": ({"labels": {"a": 1}}, ["labels.a: expected string, got integer"]),
    "an item of a list": ({"args": ["x", 1]}, ["args.1: expected string, got integer"]),
    "an unknown field": ({"part": {"nam": "x"}}, ["part.nam: unknown field"]),
    "several": (
        {"txt": 1, "part": {"name": 1, "b": 2}},
        ["txt: unknown field", "part.name: expected string, got integer", "part.b: unknown field"],
    ),
    "any object": ({"object": {"a": {"b": 1}}}, []),
    "no object": ({"object": "x"}, ["object: expected map, got string"]),
    "any value": ({"free": 1, "one-of": [1], "odd": 1}, []),
    "below what keeps unknown fields": ({"partly": {"a": 1, "part": {"b": 2}}}, []),
    "a known field beside unknown ones": (
        {"partly": {"name": 1}},
        ["partly.name: expected string, got integer"],
    ),
    "integer or string": ({"either": 1, "port": "http"}, []),
    "neither": (
        {"either": True, "port": 1.5},
        [
            "either: expected integer or string, got boolean",
            "port: expected integer or string, got number",
        ],
    ),
    "an embedded object": (
        {"embedded": {"apiVersion": "v1", "kind": "A", "metadata": {"x": 1}, "spec": {"nam": 1}}},
        ["embedded.spec.nam: unknown field"],
    ),
    "no patterns, limits or lengths": ({"limited": ""}, []),
    "an empty item": ({"names": ["a", None], "ports": [None]}, [
        "names.1: empty item", "ports.0: empty item",
    ]),
    "a duplicate": ({"names": ["a", "b", "a"]}, ["names.2: duplicate of item 0"]),
    "a duplicate by its keys": (
        {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]},
        ["ports.2: duplicate of item 0: the same port and protocol"],
    ),
}  # fmt: skip


def told(spec: dict[str, Any], kind: KindSchema = CUSTOM) -> list[str]:
    return [
        f"{'.'.join(map(str, fault.field[1:]))}: {fault.what}"
        for fault in field_faults({"apiVersion": "v1", "kind": "A", "spec": spec}, kind)
    ]


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found(name: str) -> None:
    """With its path; a value that the schema does not restrict has none."""
    spec, faults = FAULTS[name]
    assert told(spec) == told(spec, BUILT_IN) == faults


def test_null_unsets_a_field_of_a_built_in_kind() -> None:
    """In a custom resource it is a value, unless the schema allows it or has a default."""
    spec = dict.fromkeys(PROPERTIES) | {"args": [None], "labels": {"a": None}}
    assert told(spec, BUILT_IN) == []
    refused = told(spec)
    assert "text: expected string, got null" in refused
    assert "args.0: expected string, got null" in refused
    assert "labels.a: expected string, got null" in refused
    assert "port: expected integer or string, got null" in refused
    named = {fault.partition(":")[0] for fault in refused}
    assert named.isdisjoint({"free", "one-of", "odd", "filled", "nullable"})


def test_status_of_a_custom_resource_is_left_out() -> None:
    """The server drops it before it validates the rest."""
    kind = custom_schema({"type": "object", "properties": {"status": STRING}})
    assert field_faults({"status": 1}, kind) == ()
    assert len(field_faults({"statsu": 1}, kind)) == 1


SCHEMAS: dict[str, Any] = {
    "Pod": {
        "type": "object",
        "properties": {
            "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
            "spec": {"$ref": "#/components/schemas/Spec"},
        },
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
    },
    "Meta": {
        "type": "object",
        "properties": {"time": {"$ref": "#/components/schemas/Time"}, "generation": NUMBER},
    },
    "Spec": {
        "type": "object",
        "properties": {
            "limit": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "raw": {"$ref": "#/components/schemas/Raw"},
            "again": {"$ref": "#/components/schemas/Spec"},
            "lost": {"$ref": "#/components/schemas/Lost"},
            "circle": {"$ref": "#/components/schemas/Circle"},
            "port": {"type": "string", "format": "int-or-string"},
        },
    },
    "Time": {"type": "string", "format": "date-time"},
    # Some aggregated servers publish it like this.
    "io.k8s.apimachinery.pkg.api.resource.Quantity": STRING,
    "Raw": {"type": "object"},
    "Circle": {"$ref": "#/components/schemas/Circle"},
}
POD = GVK("", "v1", "Pod")


def test_references_are_followed() -> None:
    """Also those that a type of Go decodes in its own way, and those that lead nowhere."""
    kind = kind_schema(SCHEMAS, POD)
    assert kind is not None
    fine = {
        "metadata": {"time": True, "generation": 1.5},
        "spec": {"limit": 2, "raw": 1, "again": {"limit": "1Gi"}, "lost": 1, "circle": 1,
                 "port": 80},
    }  # fmt: skip
    assert field_faults(fine, kind) == ()
    wrong = {
        "metadata": {"time": [], "generation": "1"},
        "spec": {"limit": True, "again": {"again": {"limits": 1}}, "port": False},
    }
    assert [fault.field for fault in field_faults(wrong, kind)] == [
        ("metadata", "time"),
        ("metadata", "generation"),
        ("spec", "limit"),
        ("spec", "again", "again", "limits"),
        ("spec", "port"),
    ]


KEYS: dict[str, bool] = {
    "spec.labels.true": True,
    "spec.part.true": True,
    "spec.ports.0.true": True,
    "spec.partly.part.true": True,
    "spec.partly.name": True,
    "spec.partly.true": False,
    "spec.partly.other.true": False,
    "spec.free.true": False,
    "spec.free.a.true": False,
    "spec.object.true": False,
    "spec.embedded.metadata.labels.true": False,
    "spec.true.a": True,
    "true": True,
}


@pytest.mark.holds("changed-key-by-schema", row="spec.labels.true")
@pytest.mark.parametrize("place", KEYS)
def test_changed_key_counts_where_the_schema_knows_the_fields(place: str) -> None:
    """What keeps any JSON may be meant so."""
    steps = tuple(int(step) if step.isdigit() else step for step in place.split("."))
    found = changed_key_faults([ChangedKey(steps, "y")], CUSTOM)
    assert [fault.field for fault in found] == ([steps] if KEYS[place] else [])


def test_kind_without_a_schema_is_not_found() -> None:
    """Also among schemas of any shape."""
    broken = {"a": 1, "b": {"x-kubernetes-group-version-kind": 1}, "c": {}}
    assert kind_schema({**SCHEMAS, **broken}, GVK("", "v2", "Pod")) is None


@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": 1}, {"type": "object", "properties": {"spec": 1}},
     {"type": "object", "properties": {"spec": {"type": "array", "items": []}}},
     {"type": "object", "properties": {"spec": {"allOf": 1, "oneOf": {}}}},
     {"type": "object", "properties": {"spec": {"$ref": 1}}}],
)  # fmt: skip
def test_schema_of_any_shape_is_no_error(schema: dict[str, Any]) -> None:
    """A server of somebody's own may publish anything."""
    assert field_faults({"spec": [1]}, KindSchema(schema)) == ()

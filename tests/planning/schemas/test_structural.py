"""Custom resources held against a schema as the API server would."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.planning.schemas import validate

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMaximum": True},
        "mode": {"type": "string", "enum": ["small", "big"], "default": "small"},
        "port": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True, "maxLength": 3},
        "word": {"type": "string", "nullable": True, "enum": ["a"]},
        "kept": {"type": "string", "default": "d"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "named": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 3}},
            },
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "net": {"type": "string", "format": "cidr"},
        "small": {"type": "integer", "format": "int32"},
        "id": {"type": "string", "pattern": "^[a-z]+$"},
        "go": {"type": "string", "pattern": r"^\pL+$"},
        "any": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True},
    },
    "x-kubernetes-validations": [
        {"rule": "self.size < 5 || self.mode == 'big'", "message": "a big one says so"},
        {"rule": "self.size >= oldSelf.size"},
    ],
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}


def custom(**spec: Any) -> dict[str, Any]:
    """Return a custom resource."""
    return {"apiVersion": "x/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"size": 3}, ""),
        ({"size": 3, "note": None, "word": None, "kept": None}, ""),
        ({"size": 3, "port": "http", "free": {"x": {"y": 1}}, "counts": {"a": 1}}, ""),
        ({"size": 3, "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}}}, ""),
        ({"size": 7, "mode": "big", "small": 2**31 - 1, "at": "2026-01-01T10:00:00Z"}, ""),
        ({}, "spec.size: required field is missing"),
        ({"size": "3"}, "spec.size: '3' is not of type 'integer'"),
        ({"size": True}, "spec.size: True is not of type 'integer'"),
        ({"size": 3, "sise": 3}, "spec.sise: unknown field"),
        ({"size": 3, "note": "long"}, "spec.note: 'long' is too long"),
        ({"size": 3, "mode": "odd"}, "spec.mode: 'odd' is not one of ['small', 'big']"),
        ({"size": 0}, "spec.size: 0 is less than the minimum of 1"),
        (
            {"size": 10, "mode": "big"},
            "spec.size: 10 is greater than or equal to the maximum of 10",
        ),
        ({"size": 3, "port": 1.5}, "spec.port: 1.5 is not of type 'integer', 'string'"),
        ({"size": 3, "counts": {"a": "b"}}, "spec.counts.a: 'b' is not of type 'integer'"),
        (
            {"size": 3, "named": [{"name": "a"}, {"name": "a"}]},
            "spec.named[1]: duplicate item: ['a']",
        ),
        ({"size": 3, "set": ["a", "a"]}, "spec.set[1]: duplicate item: 'a'"),
        ({"size": 3, "at": "today"}, "spec.at: 'today' is not a 'date-time'"),
        ({"size": 3, "small": 2**31}, "spec.small: 2147483648 is not a 'int32'"),
        ({"size": 3, "id": "A"}, "spec.id: 'A' does not match '^[a-z]+$'"),
        ({"size": 3, "any": {"a": 1, "b": 2}}, "spec.any: {'a': 1, 'b': 2} is valid under each of"),
        ({"size": 3, "any": {"a": 1, "c": 2}}, "spec.any.c: unknown field"),
    ],
)
def test_schema_decides(spec: dict[str, Any], told: str) -> None:
    """By its types and bounds, and no field that it does not know."""
    verdict = validate(SCHEMA, custom(**spec))
    assert verdict.text.startswith(told)
    assert bool(verdict.violations) == bool(told)


def test_defaults_are_filled_in() -> None:
    """At every depth, and where null may not be."""
    verdict = validate(SCHEMA, custom(size=3, kept=None, named=[{"name": "a"}]))
    spec = {"size": 3, "kept": "d", "named": [{"name": "a", "n": 3}], "mode": "small"}
    assert verdict.body["spec"] == spec


def test_uncheckable_rules_are_named() -> None:
    """Of what the object has, that is, and not of all that the schema knows."""
    pytest.importorskip("cel_expr_python")
    assert validate(SCHEMA, custom(size=3)).unchecked == ()
    verdict = validate(SCHEMA, custom(size=3, net="x", go="y"))
    assert verdict.violations == ()
    assert verdict.unchecked == ("the format cidr", r"the pattern ^\pL+$")


def test_cel_rules_count() -> None:
    """One that is broken is a violation; one of a transition does not concern a new object."""
    pytest.importorskip("cel_expr_python")
    assert validate(SCHEMA, custom(size=7)).text == "spec: a big one says so"
    odd = {"type": "object", "x-kubernetes-validations": [{"rule": "quantity('1').isInteger()"}]}
    verdict = validate(odd, {"apiVersion": "x/v1", "kind": "Foo", "metadata": {}})
    assert verdict.unchecked == ("the CEL rule quantity('1').isInteger()",)


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": {"spec": True}}])
def test_odd_schema_does_no_harm(schema: dict[str, Any]) -> None:
    """What is no schema allows, or refuses, but does not crash."""
    assert validate(schema, custom(size=3)).body["metadata"] == {"name": "a"}

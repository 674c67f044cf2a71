"""What a managedFields entry owns of a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fieldset import FieldSet

ITEM = 'k:{"name":"web"}'
PORT = 'k:{"port":80,"protocol":"TCP"}'
CASES: dict[str, tuple[dict[str, Any], Any, bool]] = {
    "every field": ({"f:a": {}, "f:b": {"f:c": {}}}, {"a": 1, "b": {"c": 2}}, True),
    "one field less": ({"f:a": {}}, {"a": 1, "b": 2}, False),
    "one field less, further down": ({"f:b": {"f:d": {}}}, {"b": {"c": 2, "d": 3}}, False),
    "fields of others": ({"f:a": {}, "f:b": {}}, {"a": 1}, True),
    "a value that is owned as a whole": ({"f:a": {}}, {"a": {"b": [1, {"c": 2}]}}, True),
    "an empty value": ({"f:a": {}}, {"a": 1, "b": {}, "c": [], "d": None}, True),
    "the items of a list": (
        {"f:a": {ITEM: {".": {}, "f:name": {}, "f:image": {}}}},
        {"a": [{"name": "web", "image": "x"}]},
        True,
    ),
    "a field of an item less": (
        {"f:a": {ITEM: {".": {}, "f:name": {}}}},
        {"a": [{"name": "web", "image": "x"}]},
        False,
    ),
    "an item less": (
        {"f:a": {ITEM: {".": {}, "f:name": {}}}},
        {"a": [{"name": "web"}, {"name": "db"}]},
        False,
    ),
    "a key that the server has added": (
        {"f:a": {PORT: {".": {}, "f:port": {}}}},
        {"a": [{"port": 80}]},
        True,
    ),
    "the members of a set": ({"f:a": {'v:"x"': {}, 'v:"y"': {}}}, {"a": ["x", "y"]}, True),
    "a member less": ({"f:a": {'v:"x"': {}}}, {"a": ["x", "y"]}, False),
}


@pytest.mark.parametrize("name", CASES)
def test_covers_compares_field_by_field(name: str) -> None:
    """Fields and items of others do not count."""
    fields, value, owned = CASES[name]
    assert FieldSet(fields).covers(value) is owned


EXTRACTED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "fields of others": ({"f:a": {}}, {"a": 1, "b": 2}, {"a": 1}),
    "a field that is gone": ({"f:a": {}, "f:b": {}}, {"a": 1}, {"a": 1}),
    "a value that is owned as a whole": ({"f:a": {}}, {"a": {"b": [1]}}, {"a": {"b": [1]}}),
    "an owned parent": ({"f:a": {".": {}}}, {"a": {"b": 1}}, {"a": {}}),
    "the items of a list, in its order": (
        {"f:a": {'k:{"name":"x"}': {".": {}, "f:name": {}}, ITEM: {".": {}, "f:name": {}}}},
        {"a": [{"name": "web", "b": 1}, {"name": "other"}, {"name": "x"}]},
        {"a": [{"name": "web"}, {"name": "x"}]},
    ),
    "a key that the server has added": (
        {"f:a": {PORT: {".": {}, "f:port": {}}}},
        {"a": [{"port": 80, "protocol": "TCP"}]},
        {"a": [{"port": 80}]},
    ),
    "the members of a set": ({"f:a": {'v:"x"': {}}}, {"a": ["y", "x"]}, {"a": ["x"]}),
}


@pytest.mark.parametrize("name", EXTRACTED)
def test_owned_part_of_a_value_is_extracted(name: str) -> None:
    """What a manager has applied, with the values that are there now."""
    fields, value, expected = EXTRACTED[name]
    assert FieldSet(fields).part_of(value) == expected

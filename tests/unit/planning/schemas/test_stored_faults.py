"""What of a stored object the server cannot read by a new schema: each row was tried on it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.planning.schemas import custom_schema, stored_faults

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ITEM = {"type": "object", "properties": {"n": TEXT, "v": TEXT}}
KEYED = {
    "type": "array",
    "items": ITEM,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["n"],
}
TWINS = [{"n": "a", "v": "1"}, {"n": "a", "v": "2"}]


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "body", "found"),
    [
        (_object(spec=_object(a=NUMBER)), {"spec": {"a": "x"}}, ["expected integer, got string"]),
        (_object(spec=_object(a=TEXT)), {"spec": {"a": True}}, ["expected string, got boolean"]),
        (
            _object(status=_object(a=NUMBER)),
            {"status": {"a": "x"}},
            ["expected integer, got string"],
        ),
        (
            _object(spec={**KEPT, "properties": {"a": NUMBER}}),
            {"spec": {"a": "x", "b": "x"}},
            ["expected integer, got string"],
        ),
        # These it reads.
        (_object(spec=_object(a=NUMBER)), {"spec": {"a": None}}, []),
        (_object(spec=_object(a=NUMBER)), {"spec": {"a": 1.5}}, []),
        (_object(spec=_object(a=NUMBER)), {"spec": {"b": "x"}, "more": {}}, []),
        (_object(spec=_object(a=KEYED)), {"spec": {"a": TWINS}}, []),
    ],
)
def test_only_another_type_makes_a_stored_object_unreadable(
    schema: dict[str, Any], body: dict[str, Any], found: list[str]
) -> None:
    """A value that an apply can still replace is no reason to delete the object."""
    stored = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}, **body}
    assert [one.what for one in stored_faults(stored, custom_schema(schema))] == found

"""Sets of fields: what two have in common, what one has more, and what a manifest sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.model.fieldset import FieldSet

Fields = dict[str, Any]

NAMES = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
SETS: st.SearchStrategy[Fields] = st.recursive(
    st.just({}),
    lambda inner: st.builds(
        lambda fields, itself: {**fields, **({".": {}} if itself and fields else {})},
        st.dictionaries(NAMES, inner, max_size=3),
        st.booleans(),
    ),
    max_leaves=8,
)


def _members(fields: Mapping[str, Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return every field of a set, by the definition of FieldsV1."""
    found: set[tuple[str, ...]] = set()
    for name, inner in fields.items():
        path = (*above, name)
        if name == ".":
            found.add(above)
        elif not inner:
            found.add(path)
        else:
            found |= _members(inner, path)
    return found


@given(SETS, SETS)
def test_sets_of_fields_are_sets(first: Fields, second: Fields) -> None:
    """A field that is owned itself, and fields below it, are different members."""
    one, other = _members(first), _members(second)
    ours, theirs = FieldSet(first), FieldSet(second)
    assert _members((ours & theirs).fields_v1) == one & other
    assert _members((ours - theirs).fields_v1) == one - other
    # A union cannot say that a field is owned as a whole, if there are fields below it.
    assert _members((ours | theirs).fields_v1) | _wholes(first, second) == one | other


def _wholes(*sets: Fields) -> set[tuple[str, ...]]:
    members = set().union(*map(_members, sets))
    return {path for path in members if any(more[: len(path)] == path != more for more in members)}


BODY = {"spec": {"list": [{"name": "x", "image": "i"}], "words": ["y"]}, "data": {"key": "v"}}
HELD: dict[str, tuple[Fields, Fields]] = {
    "a value": ({"f:data": {"f:key": {}}}, {"f:data": {"f:key": {}}}),
    "no such value": ({"f:data": {"f:other": {}}}, {}),
    "both": ({"f:data": {".": {}, "f:key": {}, "f:other": {}}}, {"f:data": {".": {}, "f:key": {}}}),
    "an item": (
        {"f:spec": {"f:list": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:tty": {}}}}},
        {"f:spec": {"f:list": {'k:{"name":"x"}': {".": {}, "f:name": {}}}}},
    ),
    "no such item": ({"f:spec": {"f:list": {'k:{"name":"z"}': {".": {}}}}}, {}),
    "a member": (
        {"f:spec": {"f:words": {'v:"y"': {}, 'v:"z"': {}}}},
        {"f:spec": {"f:words": {'v:"y"': {}}}},
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_fields_of_a_manifest(name: str) -> None:
    """Of a set, only what the manifest has a value for."""
    fields, expected = HELD[name]
    assert FieldSet(fields).set_by(BODY) == FieldSet(expected)

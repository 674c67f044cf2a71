"""Comparisons for programs: the patch makes one of the other, the list says what it is."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.output.json import changes, json_patch

BODIES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=3,
)


def compared(before: Any, after: Any) -> ObjectDiff:
    """Return the comparison of two states."""
    return ObjectDiff(Ref("", "ConfigMap", "shop", "a"), Fate.CHANGE, before, after)


@settings(deadline=None)
@given(BODIES, BODIES)
def test_patch_turns_before_into_after(before: Any, after: Any) -> None:
    """By an implementation of RFC 6902; and no change means none."""
    one = compared(before, after)
    assert jsonpatch.apply_patch(before, json_patch(one)) == after
    assert bool(changes(one)) == bool(json_patch(one))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"a": 1}, [{"path": "", "kind": "added", "new": {"a": 1}}]),
        ({"a": 1}, None, [{"path": "", "kind": "removed", "old": {"a": 1}}]),
        ({"a": 1}, {"a": 2}, [{"path": "/a", "kind": "changed", "old": 1, "new": 2}]),
        ({"a": 1}, {"a": "1"}, [{"path": "/a", "kind": "changed", "old": 1, "new": "1"}]),
        ({"a": 1}, {"a": True}, [{"path": "/a", "kind": "changed", "old": 1, "new": True}]),
        ({"a/b~": [1]}, {"a/b~": [1, 2]}, [{"path": "/a~1b~0/1", "kind": "added", "new": 2}]),
        (
            {"l": [{"x": 1}, {"y": 2}]},
            {"l": [{"x": 1}]},
            [{"path": "/l/1", "kind": "removed", "old": {"y": 2}}],
        ),
        ({"a": None}, {}, [{"path": "/a", "kind": "removed", "old": None}]),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_every_difference_is_listed(before: Any, after: Any, expected: list[Any]) -> None:
    """With its place and both values."""
    assert changes(compared(before, after)) == expected


def test_created_or_deleted_object_is_a_patch_of_the_whole() -> None:
    """Of an object that is not there nothing else can be said."""
    assert json_patch(compared(None, {"a": 1})) == [{"op": "add", "path": "", "value": {"a": 1}}]
    assert json_patch(compared({"a": 1}, None)) == [{"op": "remove", "path": ""}]

"""What an apply is predicted to leave of a list, whatever the manifest has in its place."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fieldset import FieldSet
from applyprune.planning.comparison import predicted

SET: dict[str, Any] = {'v:"a"': {}}
KEYED: dict[str, Any] = {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:old": {}}}
TAGS, ITEMS = ["a", "theirs"], [{"name": "a", "old": 1, "set": 2}, {"name": "theirs"}]
ROWS: dict[str, tuple[Any, Any, dict[str, Any], Any]] = {
    "a set keeps what is others'": (TAGS, ["b"], SET, ["b", "theirs"]),
    "an item keeps what is others'": (
        ITEMS,
        [{"name": "a", "new": 3}],
        KEYED,
        [{"name": "a", "set": 2, "new": 3}, {"name": "theirs"}],
    ),
    "the same item twice": (ITEMS, [{"name": "b"}] * 2, KEYED, [{"name": "b"}] * 2 + ITEMS[1:]),
    # The server refuses what follows; only its check says so.
    "a mapping in a set": (TAGS, [{"a": "b"}], SET, [{"a": "b"}, "theirs"]),
    "a list in a set": (TAGS, [["a"]], SET, [["a"], "theirs"]),
    "a scalar in a keyed list": (ITEMS, ["a"], KEYED, ["a", *ITEMS[1:]]),
    "null in a keyed list": (ITEMS, [None], KEYED, [None, *ITEMS[1:]]),
    "a list in a keyed list": (ITEMS, [["a"]], KEYED, [["a"], *ITEMS[1:]]),
    "an item without a key": (ITEMS, [{"x": 1}], KEYED, [{"x": 1}, *ITEMS[1:]]),
    "a mapping as a key": (ITEMS, [{"name": {}}], KEYED, [{"name": {}}, *ITEMS[1:]]),
    "a mapping for a set": (TAGS, {"a": {}}, SET, {"a": {}}),
    "a scalar for a keyed list": (ITEMS, "a", KEYED, "a"),
    "a list for a mapping": ({"a": 1}, [{"name": "a"}], {"f:a": {}}, [{"name": "a"}]),
    "a keyed list for a scalar": ("a", [{"name": "a"}], {}, [{"name": "a"}]),
}


@pytest.mark.parametrize("name", ROWS)
def test_prediction(name: str) -> None:
    """A new item comes from the manifest as it is; no shape of it ends the prediction."""
    there, wanted, owned, expected = ROWS[name]
    assert predicted(there, wanted, FieldSet(owned)) == expected

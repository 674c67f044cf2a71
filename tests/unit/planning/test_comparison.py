"""What an apply is predicted to leave of a list, and what counts as a change."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.fieldset import FieldSet
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep
from applyprune.planning.comparison import Comparison, has_changed, predicted
from tests.support.planning import body, desired

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


@pytest.mark.parametrize(
    ("owner", "given", "changes"),
    [
        # The server has made it of the status, which has changed between two requests.
        ("", "", False),
        # Somebody has written it, a webhook during our apply for example.
        ("theirs", "", True),
        # The manifest has it.
        ("", "notes.example.com/a", True),
    ],
)
def test_annotation_that_nobody_has_written_is_no_change(
    owner: str, given: str, changes: bool
) -> None:
    """autoscaling/v1 shows the conditions of an autoscaler as an annotation."""
    notes = {given: "1"} if given else {}
    wanted = desired(body(metadata={"annotations": notes}))
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1"}
    owned: dict[str, Any] = {}
    if owner:
        owned = {"f:metadata": {"f:annotations": {"f:notes.example.com/a": {}}}}
    managers = [{**entry, "fieldsV1": {"f:data": {"f:a": {}}, **owned}}]

    def state(value: str) -> LiveObject:
        named = {"name": "a", "namespace": "home", "annotations": {"notes.example.com/a": value}}
        whole = {**wanted.body, "metadata": {**named, "managedFields": managers}}
        return LiveObject.of(wanted.ref, "u", "1", whole["metadata"], whole)

    step = ApplyStep(wanted, Fate.CHANGE, InventoryEntry(wanted.ref, "configmaps", "v1", None))
    before, after = state("1"), state("2")
    assert has_changed(Comparison(step, before, after.body, after), ()) is changes

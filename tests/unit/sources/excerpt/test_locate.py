"""Paths of fields → lines and columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.sources import excerpt, locate
from applyprune.sources.excerpt import item_lines
from applyprune.sources.yaml import events

TEXT = """\
apiVersion: v1
kind: A
---
# comment
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    containers:
    - name: a
      args: [x, {y: z}]
    - name: b
      image:
        web:1
  y: 1
  "no": 2
  <<: {merged: 1}
"""

PLACES = {
    (): (5, 1),
    ("kind",): (6, 1),
    ("spec", "template"): (8, 3),
    ("spec", "template", "containers", 1): (12, 7),
    ("spec", "template", "containers", 1, "image"): (13, 7),
    ("spec", "template", "containers", 0, "args", 1, "y"): (11, 18),
    ("spec", "true"): (15, 3),
    ("spec", "no"): (16, 3),
    ("spec", "merged"): None,
    ("spec", "missing"): None,
    ("spec", "template", 0): None,
    ("spec", "template", "containers", 2): None,
    ("kind", "a"): None,
}


@pytest.mark.parametrize("path", PLACES, ids=str)
def test_field_is_located(path: tuple[str | int, ...]) -> None:
    assert locate(TEXT, 5, path) == PLACES[path]


def test_list_item_is_located_by_its_line() -> None:
    text = "kind: List\nitems:\n  - kind: A\n    metadata:\n      name: a\n  - kind: B\n"
    assert locate(text, 3, ("metadata", "name")) == (5, 7)
    assert locate(text, 6, ("kind",)) == (6, 5)
    assert locate(text, 6, ("metadata",)) is None


def test_field_is_located_in_json_and_before_a_later_error() -> None:
    text = json.dumps({"a": {"b": [1, {"c": 2}]}}, indent=2)
    assert locate(text, 1, ("a", "b", 1, "c")) == (6, 9)
    assert locate("a: 1\nb: 2\nc: [", 1, ("b",)) == (2, 1)
    assert locate("a: 1\nc: [", 1, ("b",)) is None
    assert locate("", 1, ("a",)) is None
    assert locate("- *x\n- b: 1\n", 1, ("b",)) is None


def test_item_lines_are_found() -> None:
    assert item_lines("kind: List\nitems:\n- a: 1\n  b: 2\n- [x]\n- y\n", 1) == [3, 5, 6]
    assert item_lines("kind: List\nitems: []\n", 1) == []
    assert item_lines("kind: List\nitems:\n  a: 1\n", 1) == []
    assert item_lines("kind: List\n", 1) == []
    assert item_lines("kind: List\nitems:\n- a\n- [", 1) == []


def test_thousands_of_fields_are_found_in_few_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk for each of them would take minutes; of a list, no item is read for another one."""
    began: list[int] = []

    def counted(text: str) -> Any:
        began.append(text.count("\n"))
        return events(text)

    monkeypatch.setattr(excerpt, "events", counted)
    fields = "".join(f"  f{number}: 1\n" for number in range(3000))
    found = [locate(f"data:\n{fields}", 1, ("data", f"f{number}")) for number in range(3000)]
    assert found == [(number + 2, 3) for number in range(3000)]
    assert len(began) <= 4
    began.clear()
    items = "items:\n" + "".join(f"- a: 1\n  b: {number}\n" for number in range(3000))
    assert [locate(items, 2 * number, ("b",)) for number in range(1, 3000)] == [
        (2 * number + 1, 3) for number in range(1, 3000)
    ]
    assert sum(began) <= 3000 * 64


def test_object_is_found_to_its_end_however_long_it_is() -> None:
    """Whatever stands where the first part of it was cut off."""
    text = "a:\n" + "  x: |\n" + "    y\n" * 200 + "b: {c: [\n" + "1,\n" * 600 + "2]}\nd: 1\n"
    assert locate(text, 1, ("b", "c", 600)) == (804, 1)
    assert locate(text, 1, ("d",)) == (805, 1)
    assert locate(text, 1, ("e",)) is None

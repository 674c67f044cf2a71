"""Paths of fields → lines and columns."""

from __future__ import annotations

import json

import pytest

from applyprune.sources import locate
from applyprune.sources.excerpt import item_lines

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

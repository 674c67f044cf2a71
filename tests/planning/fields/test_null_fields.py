"""Which fields of a manifest are null, and so are removed instead of sent."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.planning.fields.null_fields import without_nulls


@pytest.mark.parametrize(
    ("parts", "left", "removed"),
    [
        ({"data": {"a": "1", "b": None}}, {"data": {"a": "1"}}, ("/data/b",)),
        ({"data": None}, {}, ("/data",)),
        ({"spec": {"a": {"x/y": None}}}, {"spec": {"a": {}}}, ("/spec/a/x~1y",)),
        (
            {"spec": {"c": [{"name": "c", "probe": None}, {"port": 1, "host": None}]}},
            {"spec": {"c": [{"name": "c"}, {"port": 1}]}},
            ('/spec/c[name="c"]/probe',),
        ),
        ({"spec": {"args": [None, "a"]}}, {"spec": {"args": [None, "a"]}}, ()),
        (
            {"spec": {"template": {"metadata": {"creationTimestamp": None}}}},
            {"spec": {"template": {"metadata": {}}}},
            (),
        ),
    ],
)
def test_null_is_left_out_and_named(
    parts: dict[str, Any], left: dict[str, Any], removed: tuple[str, ...]
) -> None:
    """An item of a list is named by its name; in a custom resource null may be a value."""
    head = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a"}}
    assert without_nulls({**head, **parts}, custom=False) == ({**head, **left}, removed)
    same = {**head, **parts}
    assert without_nulls(same, custom=True) == (same, ())


def test_of_the_metadata_only_single_labels_and_annotations_are_removed() -> None:
    """Of any kind; the set's own label and annotation are among the others."""
    metadata = {
        "name": "a",
        "creationTimestamp": None,
        "finalizers": None,
        "labels": {"a": None, "b": "1"},
        "annotations": None,
    }
    body, removed = without_nulls({"kind": "Foo", "metadata": metadata}, custom=True)
    assert body["metadata"] == {"name": "a", "labels": {"b": "1"}}
    assert removed == ("/metadata/labels/a",)

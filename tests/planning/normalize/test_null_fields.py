"""Which fields of a manifest are null, and so are removed instead of sent."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.planning.normalize import unnamed_nulls, without_nulls, without_status


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


def test_null_that_removes_nothing_is_named_by_indices() -> None:
    """In an item without a name, unless generators write it there, or it is sent as a value."""
    container = {"name": "c", "ports": [{"containerPort": 1}, {"hostIP": None}], "image": None}
    template = {"metadata": {"creationTimestamp": None}, "status": None}
    spec = {"containers": [container], "templates": [template], "args": [None]}
    body = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    assert unnamed_nulls(body, custom=False) == (("spec", "containers", 0, "ports", 1, "hostIP"),)
    assert unnamed_nulls(body, custom=True) == ()


def test_null_in_the_status_says_nothing() -> None:
    """It is not part of what a manifest sets."""
    assert without_status(("/status", "/status/a", "/statuses", "/a/status")) == (
        "/statuses",
        "/a/status",
    )


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

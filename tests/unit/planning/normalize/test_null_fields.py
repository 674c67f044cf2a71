"""What of a manifest is null, and so left out instead of sent."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.planning.normalize import idle_nulls, without_nulls


@pytest.mark.parametrize(
    ("parts", "left", "idle"),
    [
        ({"data": {"a": "1", "b": None}}, {"data": {"a": "1"}}, (("data", "b"),)),
        ({"data": None}, {}, (("data",),)),
        (
            {"spec": {"c": [{"name": "c", "probe": None}, {"port": 1, "host": None}]}},
            {"spec": {"c": [{"name": "c"}, {"port": 1}]}},
            (("spec", "c", 0, "probe"), ("spec", "c", 1, "host")),
        ),
        ({"spec": {"args": [None, "a"]}}, {"spec": {"args": [None, "a"]}}, ()),
        (
            {"spec": {"template": {"metadata": {"creationTimestamp": None}}, "status": None}},
            {"spec": {"template": {"metadata": {}}}},
            (),
        ),
        ({"status": {"a": None}}, {"status": {}}, ()),
        # The default goes anyway where it excludes what the manifest sets.
        (
            {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
            {"spec": {"strategy": {"type": "Recreate"}}},
            (),
        ),
    ],
)
def test_null_is_left_out_and_named(
    parts: dict[str, Any], left: dict[str, Any], idle: tuple[tuple[Any, ...], ...]
) -> None:
    """Unless nobody would wonder; in a custom resource null may be a value."""
    head = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a"}}
    given = {**head, **parts}
    assert without_nulls(given, custom=False) == {**head, **left}
    assert idle_nulls(given, custom=False) == idle
    assert (without_nulls(given, custom=True), idle_nulls(given, custom=True)) == (given, ())


def test_null_in_the_metadata_is_left_out_of_any_kind() -> None:
    """That of a single label or annotation is named: it would look like a removal."""
    metadata = {
        "name": "a",
        "creationTimestamp": None,
        "finalizers": None,
        "labels": {"a": None, "b": "1"},
        "annotations": None,
    }
    given = {"kind": "Foo", "metadata": metadata}
    for custom in (True, False):
        body = without_nulls(given, custom=custom)
        assert body["metadata"] == {"name": "a", "labels": {"b": "1"}}
        assert idle_nulls(given, custom=custom) == (("metadata", "labels", "a"),)

"""Lists become their items, each with the line that it begins in."""

from __future__ import annotations

import io
import json

import pytest

from applyprune.errors import InputError
from applyprune.sources import read


def objects(text: str) -> list[tuple[str, str, str, int]]:
    """Return apiVersion, kind, name and line of each manifest."""
    return [
        (manifest.gvk.api_version, manifest.gvk.kind, manifest.name, manifest.origin.line)
        for manifest in read(["-"], stdin=io.BytesIO(text.encode()))
    ]


NESTED = """\
# comment
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: v1
  kind: List
  items:
  -
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: b}
  - {apiVersion: v1, kind: Secret, metadata: {name: c}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: d}
"""


def test_list_in_a_list_is_read() -> None:
    assert objects(NESTED) == [
        ("v1", "ConfigMap", "a", 6),
        ("v1", "ConfigMap", "b", 13),
        ("v1", "Secret", "c", 16),
        ("apps/v1", "Deployment", "d", 17),
    ]


def test_items_that_are_aliases_or_json_have_their_lines() -> None:
    text = "apiVersion: v1\nkind: List\nx: &x {apiVersion: v1, kind: A, metadata: {name: a}}\n"
    assert objects(f"{text}items:\n- *x\n") == [("v1", "A", "a", 5)]
    body = {"apiVersion": "v1", "kind": "List", "items": [item("A", "a"), item("B", "b")]}
    assert [each[3] for each in objects(json.dumps(body, indent=2))] == [5, 12]
    assert [each[3] for each in objects(json.dumps(body))] == [1, 1]


def item(kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def test_items_of_a_typed_list_have_its_type() -> None:
    text = """\
apiVersion: rbac.authorization.k8s.io/v1
items:
- metadata: {name: a}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: b}
kind: RoleList
"""
    assert objects(text) == [
        ("rbac.authorization.k8s.io/v1", "Role", "a", 3),
        ("v1", "ConfigMap", "b", 4),
    ]


def test_item_with_half_a_type_is_refused() -> None:
    text = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- kind: ConfigMap\n  metadata: {name: a}\n"
    with pytest.raises(InputError, match=r"^<stdin>:4:3: no apiVersion\n"):
        objects(text)


def test_item_of_an_untyped_list_has_no_type() -> None:
    with pytest.raises(InputError, match="no apiVersion, no kind"):
        objects("apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n")


@pytest.mark.parametrize("items", ["items: []", "items:", "items: null"])
def test_empty_list_is_empty(items: str) -> None:
    assert objects(f"apiVersion: v1\nkind: ConfigMapList\n{items}\n") == []


@pytest.mark.parametrize(
    "more", ["", "items: [{metadata: {name: x}}]\n", "items: {a: b}\n", "spec: {items: []}\n"]
)
def test_kind_that_ends_in_list_may_be_an_object(more: str) -> None:
    """A list has no name: ``IPAllowList`` with one is a custom resource, whatever its fields."""
    text = f"apiVersion: example.com/v1\nkind: IPAllowList\nmetadata: {{name: a}}\n{more}"
    assert objects(text) == [("example.com/v1", "IPAllowList", "a", 1)]

"""Paths to fields: read as the server prints them and as pointers, looked up, left out, put in."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from applyprune.model.fieldset import (
    MISSING,
    FieldSet,
    ListItem,
    Path,
    SetMember,
    from_pointer,
    from_server,
    is_under,
    to_pointer,
    value_at,
    with_value,
    without_fields,
)

WEB = ListItem((("name", "web"),))
PORT = ListItem((("containerPort", 80), ("protocol", "TCP")))
BODY: dict[str, Any] = {
    "metadata": {
        "labels": {"app": "a", "app.kubernetes.io/name": "b", "app.kubernetes": {"io/name": "c"}},
        "finalizers": ["x.io/hold", "y.io/hold"],
    },
    "spec": {
        "replicas": 3,
        "paused": None,
        "containers": [
            {"name": "log", "image": "log:1"},
            {"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]},
        ],
    },
}

PATHS: dict[str, tuple[str, str, Path, Any]] = {
    "a field": (".spec.replicas", "/spec/replicas", ("spec", "replicas"), 3),
    "null is a value": (".spec.paused", "/spec/paused", ("spec", "paused"), None),
    "a label": (".metadata.labels.app", "/metadata/labels/app", ("metadata", "labels", "app"), "a"),
    "a name with dots and a slash": (
        ".metadata.labels.app.kubernetes.io/name",
        "/metadata/labels/app.kubernetes.io~1name",
        ("metadata", "labels", "app.kubernetes.io/name"),
        "b",
    ),
    "a list by one key": (
        '.spec.containers[name="web"].image',
        '/spec/containers[name="web"]/image',
        ("spec", "containers", WEB, "image"),
        "web:1",
    ),
    "a list by two keys, one of them a default": (
        '.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort',
        '/spec/containers[name="web"]/ports[containerPort=80,protocol="TCP"]/containerPort',
        ("spec", "containers", WEB, "ports", PORT, "containerPort"),
        80,
    ),
    "a member of a set": (
        '.metadata.finalizers[="y.io/hold"]',
        '/metadata/finalizers[="y.io/hold"]',
        ("metadata", "finalizers", SetMember("y.io/hold")),
        "y.io/hold",
    ),
    "a list as a whole": (
        ".metadata.finalizers",
        "/metadata/finalizers",
        ("metadata", "finalizers"),
        ["x.io/hold", "y.io/hold"],
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_path_is_parsed_and_looked_up(name: str) -> None:
    """What the server prints, the pointer and the path are one."""
    text, pointer, path, value = PATHS[name]
    assert from_server(text, BODY) == path
    assert from_pointer(pointer) == path
    assert to_pointer(path) == pointer
    assert value_at(BODY, path) == value


@pytest.mark.parametrize(
    "text",
    [
        ".spec.nothing",
        ".spec.replicas.more",
        '.spec.containers[name="none"].image',
        ".spec.containers[0].image",
        '.spec.containers[name="web',
        ".spec.containers[]",
        "spec",
        ".metadata.labels.appl",
    ],
)
def test_missing_value_has_no_path(text: str) -> None:
    """The text is shown then, without values."""
    assert from_server(text, BODY) is None


@pytest.mark.parametrize(
    ("pointer", "why"),
    [
        ("spec/replicas", "must begin with /"),
        ("/", "empty"),
        ("//a", "empty"),
        ("/a/", "empty"),
        ("/a~b", "~0"),
        ("/a~", "~0"),
        ("/a[0]", "by its key"),
        ("/a[", "by its key"),
        ('/a[name="x"', "missing ]"),
        ("/a[name=]", "invalid value"),
        ('/a[name="x"]b', "unexpected"),
        ('/[name="x"]', "empty"),
        ("/a]", "unexpected"),
    ],
)
def test_invalid_pointer_is_explained(pointer: str, why: str) -> None:
    """An index is none: server-side apply does not know items by their place."""
    with pytest.raises(ValueError, match=why):
        from_pointer(pointer)


def test_key_may_be_unquoted() -> None:
    """YAML has enough of them."""
    assert from_pointer("/a[name=web]/b") == from_pointer('/a[name="web"]/b')
    assert from_pointer("/a[on=true]") == ("a", ListItem((("on", True),)))


@pytest.mark.parametrize(
    "path", [("spec", "none"), ("spec", "replicas", "x"), ("spec", "containers", PORT), ("x", WEB)]
)
def test_other_paths_find_nothing(path: Path) -> None:
    """And null is something."""
    assert value_at(BODY, path) is MISSING


LEFT: dict[str, tuple[dict[str, Any], list[str], dict[str, Any]]] = {
    "a field": ({"a": 1, "b": 2}, ["/a"], {"b": 2}),
    "a mapping that it empties goes too": ({"a": {"b": {"c": 1}}, "d": 1}, ["/a/b/c"], {"d": 1}),
    "one that was empty before stays": ({"a": {}, "b": 1}, ["/b"], {"a": {}}),
    "what is not there": ({"a": 1}, ["/b/c", "/a/b", "/a[name=x]"], {"a": 1}),
    "a field of an item: the item stays": (
        {"l": [{"name": "x", "v": 1}, {"name": "y", "v": 2}]},
        ["/l[name=x]/v"],
        {"l": [{"name": "x"}, {"name": "y", "v": 2}]},
    ),
    "an item": ({"l": [{"name": "x"}, {"name": "y"}]}, ["/l[name=x]"], {"l": [{"name": "y"}]}),
    "the only item": ({"l": [{"name": "x"}], "a": 1}, ["/l[name=x]"], {"a": 1}),
    "a member": ({"l": ["x", "y"]}, ['/l[="x"]'], {"l": ["y"]}),
    "all there is": ({"a": 1}, ["/a", "/b"], {}),
}


@pytest.mark.parametrize("name", LEFT)
def test_fields_are_left_out(name: str) -> None:
    """The body itself is left alone."""
    body, pointers, expected = LEFT[name]
    before = deepcopy(body)
    assert without_fields(body, map(from_pointer, pointers)) == expected
    assert body == before


def test_value_is_put() -> None:
    """What leads to a field is made where it is missing; an item is known by its keys."""
    body: dict[str, Any] = {"spec": {"l": [{"name": "x", "v": 1}]}}
    before = deepcopy(body)
    for pointer, value in (
        ("/spec/l[name=x]/w", 2),
        ("/spec/l[name=y]/v", 3),
        ('/spec/s[="m"]', "m"),
        ("/a/b", None),
    ):
        body = with_value(body, from_pointer(pointer), value)
    assert body == {
        "spec": {"l": [{"name": "x", "v": 1, "w": 2}, {"name": "y", "v": 3}], "s": ["m"]},
        "a": {"b": None},
    }
    assert before == {"spec": {"l": [{"name": "x", "v": 1}]}}


@pytest.mark.parametrize(
    ("path", "above", "expected"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/a", "/a/b", False),
        ("/ab", "/a", False),
        ('/a[p=1,q="x"]/b', "/a[p=1]", True),
        ("/a[p=1]/b", '/a[p=1,q="x"]', False),
    ],
)
def test_path_is_under_another(path: str, above: str, expected: bool) -> None:
    """An item is under every name that fits its keys."""
    assert is_under(from_pointer(path), from_pointer(above)) is expected


FIELDS = FieldSet(
    {
        "f:metadata": {
            "f:annotations": {".": {}, "f:note": {}},
            "f:finalizers": {".": {}, 'v:"x.io/hold"': {}},
            "f:labels": {".": {}},
        },
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:containers": {
                'k:{"name":"web"}': {
                    ".": {},
                    "f:name": {},
                    "f:image": {},
                    "f:ports": {
                        'k:{"containerPort":80,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                            "f:protocol": {},
                        }
                    },
                }
            },
        },
    }
)


def test_owned_leaves_are_listed() -> None:
    """The keys of an item only where nothing else of it is owned; no holder by itself."""
    ports = '/spec/containers[name="web"]/ports[containerPort=80,protocol="TCP"]'
    assert sorted(to_pointer(leaf) for leaf in FIELDS.leaves()) == sorted(
        [
            "/metadata/annotations/note",
            '/metadata/finalizers[="x.io/hold"]',
            "/spec/replicas",
            "/spec/selector",
            '/spec/containers[name="web"]/image',
            f"{ports}/containerPort",
            f"{ports}/protocol",
        ]
    )


@pytest.mark.parametrize(
    ("pointer", "owned", "whole"),
    [
        ("/spec/replicas", True, ""),
        ("/spec/selector/matchLabels", True, "/spec/selector"),
        ("/spec/template", False, ""),
        ('/spec/containers[name="web"]/image', True, ""),
        ('/spec/containers[name="web"]/args', False, ""),
        ('/spec/containers[name="log"]', False, ""),
        ('/metadata/finalizers[="x.io/hold"]', True, ""),
        ('/metadata/finalizers[="y.io/hold"]', False, ""),
    ],
)
def test_owned_fields_are_listed(pointer: str, owned: bool, whole: str) -> None:
    """By itself, or as a part of what is owned as a whole."""
    path = from_pointer(pointer)
    assert (path in FIELDS) is owned
    assert to_pointer(FIELDS.whole_above(path)) == whole


def test_owned_parts_are_listed() -> None:
    """Annotations are, a selector is not, and what is not owned is neither."""
    assert FIELDS.is_split(("metadata", "annotations"))
    assert not FIELDS.is_split(("metadata", "labels"))
    assert not FIELDS.is_split(("spec", "selector"))
    assert not FIELDS.is_split(("spec", "template"))


def test_item_with_all_keys_comes_before_one_with_a_default() -> None:
    """Two ports of one number: the second one names its protocol, the first one leaves it out."""
    ports = [
        {"containerPort": 53, "name": "tcp"},
        {"containerPort": 53, "protocol": "UDP", "name": "udp"},
    ]
    for protocol in ("TCP", "UDP"):
        step = ListItem((("containerPort", 53), ("protocol", protocol)))
        assert value_at(ports, (step, "name")) == protocol.lower()

"""Responses as JSON: what is slow to parse gives the same data, and pages stay text."""

from __future__ import annotations

import pytest

from applyprune.cluster.messages import item_of, json_object, json_parts, parts_of

ITEMS = ("items",)
LISTED = '{"kind": "List", "metadata": {"continue": "é"}, "items": [%s]}'


def test_items_of_a_list_stay_text_until_they_are_read() -> None:
    """Each by itself."""
    items = ['{"a": [1, {}]}', "null", '{"b": "}]"}']
    raw = (LISTED % ", ".join(items)).encode()
    body = json_parts(raw, ITEMS)
    assert body is not None
    assert [bytes(item).decode() for item in body["items"]] == items
    read = [item_of(item) for item in body["items"]]
    assert {**body, "items": read} == json_object(raw)


@pytest.mark.parametrize("items", ["null", "{}", '"text"'])
def test_items_that_are_not_a_list_are_read_at_once(items: str) -> None:
    """The caller refuses them; an empty list of metadata comes as null."""
    raw = LISTED.replace("[%s]", items).encode()
    assert json_object(raw) is not None
    assert json_parts(raw, ITEMS) == json_object(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b'{"items": [1,]}', b'{"items": [}', b'{"kind": NaN}', b"\xff"]
)
def test_broken_list_is_not_read(raw: bytes) -> None:
    """As with any other response."""
    assert json_parts(raw, ITEMS) is json_object(raw) is None


def test_item_with_bytes_that_are_not_utf_8_is_not_read() -> None:
    """It fails where it is read: the rest of its page was not looked at."""
    body = json_parts((LISTED % '"?"').encode().replace(b"?", b"\xff"), ITEMS)
    assert body is not None
    with pytest.raises(ValueError, match="utf-8"):
        item_of(body["items"][0])


@pytest.mark.parametrize("item", ['"\\ud800"', "1e999", '{"\\ud800": 1e400}'])
def test_items_that_only_the_standard_library_reads_are_read(item: str) -> None:
    """A half of a surrogate pair is JSON too."""
    raw = (LISTED % item).encode()
    body = json_parts(raw, ITEMS)
    assert body is not None
    assert {**body, "items": [item_of(one) for one in body["items"]]} == json_object(raw)


def test_members_of_members_are_read_one_by_one() -> None:
    """As a document of schemas is: what is no object or list there is read at once."""
    text = '{"paths": {"/a": {"b": 1}, "/c": null}, "components": {"schemas": {"d": [2]}, "e": 3}}'
    body = json_parts(text.encode(), ("paths", "components"))
    assert body is not None
    assert {name: item_of(one) for name, one in body["paths"].items()} == {
        "/a": {"b": 1},
        "/c": None,
    }
    schemas = parts_of(body["components"]["schemas"])
    assert bytes(schemas["d"]) == b"[2]"
    assert item_of(schemas["d"]) == [2]
    assert parts_of(body["components"]["e"]) == 3
    assert parts_of({"e": 3}) == {"e": 3}

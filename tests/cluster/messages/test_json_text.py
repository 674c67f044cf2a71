"""Responses as JSON: what is slow to parse gives the same data, and pages stay text."""

from __future__ import annotations

import pytest

from applyprune.cluster.messages import item_of, json_list, json_object

LISTED = '{"kind": "List", "metadata": {"continue": "é"}, "items": [%s]}'


def test_items_of_a_list_stay_text_until_they_are_read() -> None:
    """Each by itself."""
    items = ['{"a": [1, {}]}', "null", '{"b": "}]"}']
    raw = (LISTED % ", ".join(items)).encode()
    body = json_list(raw)
    assert body is not None
    assert [bytes(item).decode() for item in body["items"]] == items
    read = [item_of(item) for item in body["items"]]
    assert {**body, "items": read} == json_object(raw)


@pytest.mark.parametrize("items", ["null", "{}", '"text"'])
def test_items_that_are_not_a_list_are_read_at_once(items: str) -> None:
    """The caller refuses them; an empty list of metadata comes as null."""
    raw = LISTED.replace("[%s]", items).encode()
    assert json_object(raw) is not None
    assert json_list(raw) == json_object(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b'{"items": [1,]}', b'{"items": [}', b'{"kind": NaN}', b"\xff"]
)
def test_broken_list_is_not_read(raw: bytes) -> None:
    """As with any other response."""
    assert json_list(raw) is json_object(raw) is None


def test_item_with_bytes_that_are_not_utf_8_is_not_read() -> None:
    """It fails where it is read: the rest of its page was not looked at."""
    body = json_list((LISTED % '"?"').encode().replace(b"?", b"\xff"))
    assert body is not None
    with pytest.raises(ValueError, match="utf-8"):
        item_of(body["items"][0])


@pytest.mark.parametrize("item", ['"\\ud800"', "1e999", '{"\\ud800": 1e400}'])
def test_items_that_only_the_standard_library_reads_are_read(item: str) -> None:
    """A half of a surrogate pair is JSON too."""
    raw = (LISTED % item).encode()
    body = json_list(raw)
    assert body is not None
    assert {**body, "items": [item_of(one) for one in body["items"]]} == json_object(raw)

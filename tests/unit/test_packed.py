"""Data that is kept as text: what a value holds is counted, and what it says is the same."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.values import Packed, packed, remembered, replace
from tests.support.held import held
from tests.support.objects import config_map, manifest

REF = Ref("", "ConfigMap", "shop", "settings")
BODY: dict[str, Any] = {
    "metadata": {"name": "settings", "labels": {"a": "b"}},
    "data": {"é": "\u2028\x7f😀", "empty": ""},
    "list": [1, 2**70, -1, 1.0, -0.0, 1e22, 0.1, True, None, [], {}],
}
MANAGERS = [{"manager": "me", "fieldsV1": {"f:data": {".": {}}}}]


def test_text_is_kept_and_the_data_is_read() -> None:
    """Types and order are as they were given."""
    one = packed(BODY)
    assert type(one.kept) is bytes
    assert one.value == BODY
    assert repr(one.value) == repr(BODY)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_data_is_what_was_packed(value: object) -> None:
    """To the bit, with NaN, half characters and numbers of any size."""
    assert repr(packed(value).value) == repr(value)


@pytest.mark.parametrize("value", [None, "null", 5, [], {}, [None]])
def test_any_json_data_is_packed(value: object) -> None:
    """A document may be no object."""
    one = packed(value)
    assert type(one.kept) is bytes
    assert one.value == value


def test_data_is_compared_not_its_text() -> None:
    """The order of keys makes no difference, as for a dict."""
    assert packed(BODY) == packed(dict(reversed(BODY.items()))) == Packed(BODY)
    assert packed(BODY) != packed({**BODY, "data": {}})
    assert packed(BODY) != BODY
    with pytest.raises(TypeError):
        hash(packed(BODY))


def test_data_is_not_shown() -> None:
    """It may be that of a Secret."""
    assert "settings" not in repr(packed(BODY))
    assert "settings" not in repr(Packed(BODY))


@pytest.mark.parametrize(
    "value", ["half a character: \ud800", object(), float("nan"), float("inf"), [None, -1e999]]
)
def test_data_that_no_text_says_exactly_stays_as_it_is(value: object) -> None:
    """It is the very value that was given: who sends it learns that it is not JSON."""
    body = {"data": value}
    assert packed(body).value is body


def test_large_object_is_read_again() -> None:
    """It is as complete as a small one."""
    body = {"data": {f"key-{number}": "value" * 10 for number in range(5000)}}
    assert packed(body).value == body


@pytest.mark.parametrize(
    ("value", "is_mentioned"),
    [
        ({"replicas": 1}, True),
        ({"spec": [{"replicas": None}]}, True),
        ({"note": '"replicas":1', "replicas2": 1, "a": "replicas"}, False),
        ({}, False),
    ],
)
def test_key_is_mentioned_only_where_a_mapping_has_it(value: Any, is_mentioned: bool) -> None:
    """Without parsing; what is kept as it is may have any key."""
    assert packed(value).mentions("replicas") is is_mentioned
    assert Packed(value).mentions("replicas")


def test_result_is_remembered_for_equal_texts() -> None:
    """And for the other arguments; never for data that has no text."""
    calls: list[tuple[object, int]] = []

    @remembered
    def measured(value: list[int], more: int) -> int:
        calls.append((value, more))
        return len(value) + more

    for one in (packed([1, 2]), packed([1, 2]), Packed([1, 2]), Packed([1, 2])):
        assert measured(one, 1) == 3
    assert measured(packed([1, 2]), 2) == 4
    assert calls == [([1, 2], 1)] * 3 + [([1, 2], 2)]


def test_copy_and_pickle_keep_the_text() -> None:
    """A worker process gets the text."""
    one = manifest(config_map("a"))
    for copy in (one, replace(one, name="b"), pickle.loads(pickle.dumps(one))):  # noqa: S301
        assert copy.body == config_map("a")
        assert {dict, list}.isdisjoint(held(copy))
        assert bytes in held(copy)


def test_object_without_a_body_has_none() -> None:
    """None stays None."""
    assert LiveObject.of(REF, "u", "1", {}).body is None


def test_objects_with_the_same_managers_share_their_text() -> None:
    """Most objects of a kind were applied in the same second, with the same fields."""
    metadata = {"name": "settings", "generation": 3, "managedFields": MANAGERS}
    lives = [LiveObject.of(REF, uid, "1", {**metadata, "uid": uid}) for uid in ("u", "v")]
    first, second = (live.packed_managers for live in lives)
    assert first is second
    for live in lives:
        assert live.managed_fields == tuple(MANAGERS)
        assert "managedFields" not in live.metadata
        assert live.generation == 3
    assert LiveObject.of(REF, "u", "1", {"managedFields": []}).managed_fields == ()

"""The splitter of a watch's bytes: however they come, they are the same documents."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.cluster import watch as watching
from applyprune.cluster.watch import event_lines
from applyprune.errors import Unavailable

DOCUMENTS = st.lists(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=10),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    ),
    max_size=8,
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n\n"])


def cut(content: bytes, cuts: list[int]) -> list[bytes]:
    """Return the content in pieces, some of which may be empty."""
    places = sorted(place % (len(content) + 1) for place in cuts)
    bounds = [0, *places, len(content)]
    return [content[start:end] for start, end in pairwise(bounds)]


@given(DOCUMENTS, ENDS, st.lists(st.integers(min_value=0), max_size=20), st.booleans())
def test_chunking_does_not_change_the_documents(
    documents: list[dict[str, Any]], end: bytes, cuts: list[int], ascii_only: bool
) -> None:
    content = b"".join(
        json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") + end
        for document in documents
    )

    found = [json.loads(line) for line in event_lines(cut(content, cuts), "it")]
    assert found == documents


@given(DOCUMENTS, st.lists(st.integers(min_value=0), max_size=20), st.integers(min_value=1))
def test_truncated_line_fails_after_the_lines_before_it(
    documents: list[dict[str, Any]], cuts: list[int], less: int
) -> None:
    last = json.dumps({"last": documents}).encode()
    whole = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    content = whole + last[: 1 + less % len(last)]
    seen: list[Any] = []

    with pytest.raises(Unavailable, match=r"it: .*was cut off in the middle of an event"):
        seen.extend(json.loads(line) for line in event_lines(cut(content, cuts), "it"))
    # What came before the error is there.
    assert seen == documents


def test_line_is_available_as_soon_as_it_is_complete() -> None:
    taken = []

    def chunks() -> Any:
        for chunk in (b'{"a"', b":1}\n{", b'"b":2}', b"\n"):
            taken.append(chunk)
            yield chunk

    found = event_lines(chunks(), "it")
    assert next(found) == b'{"a":1}'
    assert len(taken) == 2
    assert next(found) == b'{"b":2}'
    assert list(found) == []


def test_endless_line_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_MAX_EVENT", 1000)

    with pytest.raises(Unavailable, match="longer than"):
        list(event_lines((b"x" * 100 for _ in range(1000)), "it"))
    assert list(event_lines([b"x" * 999, b"\n"] * 5, "it")) == [b"x" * 999] * 5

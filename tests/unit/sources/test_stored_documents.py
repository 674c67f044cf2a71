"""What another tool has stored as it sent it, read as far as it goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.sources.documents import stored_documents

ALIASES = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 30))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("", []),
        ("---\n# Source: a.yaml\n---\n", []),
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ('{"a": 1}\n{"b": 2}', [{"a": 1}, {"b": 2}]),
        # Helm splits there too.
        ("a: 1\n---b: 2\n", [{"a": 1}, {"b": 2}]),
        ("a: |\n  x\n  ---\n  y\n", [{"a": "x\n---\ny\n"}]),
        # The reader of input refuses these, so each scalar is text.
        ("a: 1\na: 2\nb:\n", [{"a": "2", "b": None}]),
        ("a: x\na: 2\nc: null\nd: 'null'\n", [{"a": "2", "c": None, "d": "null"}]),
        ("a: &x {b: c}\na: [*x, *x]\n", [{"a": [{"b": "c"}, {"b": "c"}]}]),
        ("a: &x [*x]\n", [{"a": [None]}]),
        ("a: !!python/object:os.system x\n", [{"a": "x"}]),
        # And these nothing reads; the other documents are read all the same.
        ("a: [\n---\nb: 2\n", [None, {"b": 2}]),
        ("%YAML 1.1\n---\nb: 2\n", [None, {"b": 2}]),
        ("a: \x01\n", [None]),
        ("a: x\ud800\na: y\ud800\n", [{"a": "y?"}]),
        ("[" * 10_000, [None]),
        (f"a: {'[' * 200}{']' * 200}\n", [None]),
    ],
)
def test_document_is_read_as_far_as_possible(written: str, found: list[Any]) -> None:
    """A tool may have accepted what is refused in an input."""
    assert list(stored_documents(written)) == found


def test_aliases_take_no_memory() -> None:
    """Nine to the power of thirty values, if each was a copy."""
    (found,) = stored_documents(f"a0: &a0 x\n{ALIASES}kind: Web\n")
    assert found["kind"] == "Web"
    assert found["a29"][0] is found["a28"]


@given(st.text(alphabet="ab:-[]{}&*!|>'\"\n #%?,~<\ufeff\x85\r\t", max_size=60))
def test_any_text_is_read_or_left_out(written: str) -> None:
    """No error ends the run."""
    found = list(stored_documents(written))
    assert len(found) <= written.count("---") + written.count("\n") + 1

"""Objects as YAML: read back they are the same, whatever is in them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from applyprune.model.object_yaml import as_yaml

# What YAML 1.1, as Kubernetes reads it, takes for something else unless it is in quotes.
TRAPS = [
    "yes",
    "NO",
    "on",
    "y",
    "012",
    "0x1f",
    "1e3",
    "1_000",
    "12:30:45",
    "~",
    "null",
    "",
    "=",
    "- a",
]
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
LINES = st.lists(TEXTS, max_size=4).map("\n".join)
BODIES = st.dictionaries(
    TEXTS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS | LINES | st.sampled_from(TRAPS),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def read(lines: list[str]) -> Any:
    """Return what the text says."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    return yaml.load(StringIO("\n".join(lines) + "\n"))


@settings(deadline=None)
@given(BODIES)
def test_yaml_round_trips(body: dict[str, Any]) -> None:
    """Not a blank at the end of a line, a carriage return, or an escape."""
    (lines,) = as_yaml(body)
    assert read(lines) == body


@pytest.mark.parametrize("text", TRAPS)
def test_text_reads_as_text(text: str) -> None:
    """In quotes, where it could be taken for a number, a truth value or a time."""
    assert as_yaml({"a": text})[0][0] in {f"a: '{text}'", f'a: "{text}"'}


def test_multi_line_text_is_a_block() -> None:
    """A line of the text is a line of the diff: tabs and other planes of Unicode too."""
    script = "if true; then\n\techo 🎉 \nfi\n"
    assert as_yaml({"a": script})[0] == ["a: |", "  if true; then", "  \techo 🎉 ", "  fi"]


def test_invisible_characters_are_escaped() -> None:
    """A carriage return, which a block would lose, and what would turn the text around."""
    assert as_yaml({"a": "x\r\ny\r\n"})[0] == ['a: "x\\r\\ny\\r\\n"']
    assert as_yaml({"a": "\x1b[31m"})[0] == ['a: "\\e[31m"']


def test_keys_come_in_a_stable_order() -> None:
    """What the object is first, then by the alphabet."""
    one = {"spec": {"b": 1, "a": 2}, "metadata": {"labels": {}, "name": "web"}, "kind": "K"}
    same = {"kind": "K", "metadata": {"name": "web", "labels": {}}, "spec": {"a": 2, "b": 1}}
    lines = ["kind: K", "metadata:", "  name: web", "  labels: {}", "spec:", "  a: 2", "  b: 1"]
    assert as_yaml(one, same, None) == [lines, lines, []]

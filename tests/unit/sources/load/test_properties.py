"""What holds for every text: the same value in every way of writing it, and no traceback ever."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from applyprune.errors import ApplypruneError
from applyprune.sources import read
from tests.support.source_text import values

# What YAML allows in a quoted text as it stands; U+0085, U+2028, U+2029 and U+FEFF want escapes.
PRINTABLE = st.characters(
    codec="utf-8", categories=("L", "M", "N", "P", "S", "Zs"), exclude_characters="\ufeff"
)
TEXTS = st.text(PRINTABLE, max_size=12) | st.sampled_from(
    ["y", "no", "0777", "1e3", "~", "", "null", "<<", "a: b", "- a", "# c", "---", "1:30", "'", '"']
)
SCALARS = (
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: abs(number) < 2**53)
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Writer:
    """Writes JSON data as YAML, each text and collection in a style drawn anew."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def node(self, data: Any, indent: int, *, flow: bool = False) -> str:
        if isinstance(data, dict | list) and data and not flow and self.draw(st.booleans()):
            return self.block(data, indent)
        if isinstance(data, dict):
            entries = (f"{self.text(key)}: {self.node(data[key], 0, flow=True)}" for key in data)
            return "{" + ", ".join(entries) + "}"
        if isinstance(data, list):
            return "[" + ", ".join(self.node(each, 0, flow=True) for each in data) + "]"
        if isinstance(data, str):
            return (
                self.literal(data, indent)
                if not flow and self.draw(st.booleans())
                else self.text(data)
            )
        return json.dumps(data)

    def block(self, data: dict[str, Any] | list[Any], indent: int) -> str:
        deeper = indent + self.draw(st.integers(1, 4))
        before = "\n" + " " * deeper
        if isinstance(data, dict):
            # An empty key is no simple key in every reader; with a question mark it is.
            return "".join(
                f"{before}? {self.text(key)}{before}: {self.node(data[key], deeper)}"
                for key in data
            )
        return "".join(f"{before}- {self.node(each, deeper)}" for each in data)

    def text(self, data: str) -> str:
        style = self.draw(st.sampled_from(["single", "double", "escaped"]))
        if style == "single":
            return "'" + data.replace("'", "''") + "'"
        if style == "escaped":
            return '"' + "".join(f"\\U{ord(char):08x}" for char in data) + '"'
        return json.dumps(data, ensure_ascii=False)

    def literal(self, data: str, indent: int) -> str:
        if not data.strip() or data[0] == " ":
            return self.text(data)
        return f"|-\n{' ' * (indent + 1)}{data}"


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, str]:
    data = draw(DATA)
    return data, Writer(draw).node(data, 0)


@given(written())
@settings(max_examples=150, deadline=None)
def test_every_way_of_writing_data_reads_the_same(pair: tuple[Any, str]) -> None:
    data, text = pair
    expected = [] if data is None else [data]
    assert values(f"---\n{text}\n") == expected


@given(DATA)
@settings(max_examples=100, deadline=None)
def test_json_reads_as_itself_and_as_yaml(data: Any) -> None:
    document = {"data": data}
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False, indent=2)):
        assert values(text) == [document]
        assert values(f"{text}\n{text}") == [document, document]
    assert values(f"---\n{json.dumps(document, ensure_ascii=False)}\n") == [document]


FRAGMENTS = (
    "apiVersion: v1|kind: List|items:|metadata:|name: a|labels:|generateName: x|- |: |:|{|}|[|]|,|"
    "&a |*a|<<: |!!int |!x |'|\"|\\|---|\n---\n|\n...\n|%YAML|\n|\n  |\t|\r\n|\r|"
    "\x00|\x85|\ufeff|\u2028|0x1|1e3|.inf|~|# c|?|? |>-\n|1:2|\\ud83d|NaN|null|y"
)


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(FRAGMENTS.split("|")), max_size=25).map(
        lambda parts: "".join(parts).encode()
    )
)
@settings(max_examples=400, deadline=None)
@example(b"kind: List\napiVersion: v1\nitems:\n- *a\n")
@example(b"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {? y : 1}}\n")
@example(b'{"apiVersion":"v1","kind":"List","items":[{"kind":1},[]]}')
def test_any_bytes_give_manifests_or_our_own_error(data: bytes) -> None:
    try:
        read(["-"], stdin=io.BytesIO(data))
    except ApplypruneError as error:
        message = str(error)
    else:
        return
    assert message.startswith("<stdin>")

"""Text of others cannot move a cursor or colour anything; our own colours come through."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.model.text import visible
from applyprune.output.terminal import Colour, Terminal, cells, cut, rendered, styled, table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("größer 猫", "größer 猫"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m \x7f", r"\u009b31m \u007f"),
        ("\u202eevil\u2069", r"\u202eevil\u2069"),
        ("a\r\nb\tc", r"a\r" + "\n" + r"b\tc"),
        ("two\u2028lines \udcff", r"two\u2028lines \udcff"),
        ("\U000e0001", r"\udb40\udc01"),
    ],
)
def test_terminal_sequences_are_made_visible(text: str, expected: str) -> None:
    """Whether or not the place shows colours; line breaks are ours to keep."""
    assert rendered(text, colour=False) == expected
    assert rendered(text, colour=True) == expected


def test_our_own_colours_are_shown_where_possible() -> None:
    """Within one line with what is made visible."""
    text = f"web\x1b[2J {styled('created', Colour.GREEN)} \x1b[31mx"
    assert rendered(text, colour=True) == "web\\x1b[2J \x1b[32mcreated\x1b[0m \\x1b[31mx"
    assert rendered(text, colour=False) == r"web\x1b[2J created \x1b[31mx"


def test_object_cannot_end_its_colour() -> None:
    """What is painted is text of others as well."""
    assert rendered(styled("a\x1b[0mb", Colour.RED), colour=True) == "\x1b[31ma\\x1b[0mb\x1b[0m"


@given(st.text())
def test_any_text_becomes_printable_lines(text: str) -> None:
    """As many lines as it has line feeds."""
    lines = rendered(text, colour=True).split("\n")
    assert all(line.isprintable() for line in lines)
    assert len(lines) == text.count("\n") + 1


@given(st.text())
def test_json_stays_the_same_json(text: str) -> None:
    """Though it is written unescaped, and the escapes are made by the place that it goes to."""
    written = json.dumps(text, ensure_ascii=False)
    assert json.loads(visible(written)) == text


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("猫猫猫", 5, "猫猫…"),
        ("猫猫猫", 6, "猫猫猫"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("\x1b[2J", 4, r"\x1…"),
        ("x", 0, ""),
    ],
)
def test_line_is_cut_to_columns(text: str, columns: int, expected: str) -> None:
    """Wide characters take two, marks none."""
    assert cut(text, columns) == expected
    assert cells(cut(styled(text, Colour.RED), columns)) <= columns


def test_table_holds_any_cell() -> None:
    """Columns by what is seen; a line feed in a cell makes no row."""
    rows = [(styled("a", Colour.RED), "1"), ("猫", "2"), ("x\ny", "3")]
    assert rendered(table(("N", "V"), rows), colour=False).splitlines() == [
        "N      V",
        "a      1",
        "猫     2",
        r"x\ny   3",
    ]


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
    ],
)
def test_colours_follow_the_users_choice(environ: dict[str, str], coloured: bool) -> None:
    """NO_COLOR counts when it is not empty; a file has none."""
    out, err = Screen(), io.StringIO()
    terminal = Terminal(out, err, {"TERM": "xterm", **environ})
    terminal.out(styled("created", Colour.GREEN))
    terminal.err(styled("created", Colour.GREEN))
    assert ("\x1b[32mcreated" in out.getvalue(), "\x1b" in err.getvalue()) == (coloured, False)


def test_live_lines_are_not_drawn_beside_a_pipe() -> None:
    """What reads it may write to the same terminal; a file cannot."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe, os.fdopen(read):
        drawn = {}
        for name, out in (("pipe", pipe), ("memory", io.StringIO())):
            screen = Screen()
            terminal = Terminal(out, screen, {"TERM": "xterm"})
            assert terminal.live
            terminal.draw(["waiting"])
            drawn[name] = screen.getvalue()
    assert drawn["pipe"] == ""
    assert "waiting" in drawn["memory"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_limited_stream_gets_escapes(encoding: str) -> None:
    """A name in another script is no reason to end a run."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    Terminal(stream, stream, {"TERM": "xterm"}).out("configmap/猫 → created")
    assert raw.getvalue().endswith(b" created\n")
    assert ("猫".encode() in raw.getvalue()) == (encoding == "utf-8")


def test_streams_are_joined_if_they_are_one_file(tmp_path: Path) -> None:
    """As on a terminal and with ``2>&1``; streams without a file are if they are one."""
    one, other = tmp_path / "one", tmp_path / "other"
    with one.open("w") as out, one.open("a") as same, other.open("w") as err:
        assert Terminal(out, same, {}).joined
        assert not Terminal(out, err, {}).joined
        assert not Terminal(out, io.StringIO(), {}).joined
    stream = io.StringIO()
    assert Terminal(stream, stream, {}).joined
    assert not Terminal(stream, io.StringIO(), {}).joined

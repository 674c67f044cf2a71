"""The lines of a log, however its bytes arrive."""

from __future__ import annotations

import pytest

from applyprune.cluster.client import MAX_LINE, whole_lines


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc", b"\n"], ["ab", "c"]),
        ([b"a\n\nb"], ["a", "", "b"]),
        ("ä\n".encode().partition(b"\xa4")[:2], ["ä"]),
        ([b"\xff\n"], ["\ufffd"]),
    ],
)
def test_lines_are_whole(chunks: list[bytes], lines: list[str]) -> None:
    """Also the last one without its end, and one that is not UTF-8."""
    assert list(whole_lines(chunks)) == lines


def test_endless_line_is_cut() -> None:
    """So that a log without line ends does not fill the memory."""
    (line,) = whole_lines([b"x" * MAX_LINE, b"y" * MAX_LINE, b"\n"])
    assert len(line) == MAX_LINE

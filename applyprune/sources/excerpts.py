"""The line of a text that a message is about, with a caret below, as far as it may be shown.

Never a value of a Secret: a line is shown only where the document around it says that it is
something else. What cannot be read and says nothing of the kind may be one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH = 88
"""How many characters of a long line are shown."""
_TAB = "    "
_ALIKE = 0.7
_LONGEST_JSON = 5_000
_KIND = re.compile(r"""\bkind\b["']?[ \t]*:""", re.IGNORECASE)
_PLAIN = re.compile(r"""[ \t]*(["']?)([A-Za-z][A-Za-z0-9]*)\1[ \t]*(?:[\r\n,}#]|$)""")
_TOP_KIND = re.compile(r"^kind[ \t]*:", re.MULTILINE)
# What could write the word in a way that is not to be seen here.
_DISGUISE = re.compile(r"\\[xuU]")
_WORD = re.compile(r"\bSecret(?:List)?\b")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_NO_VALUE = frozenset({"apiVersion", "kind"})
_HARMLESS = (*sorted(_NO_VALUE), "metadata")
_NAME = re.compile(r"[\w./-]{1,60}")
_BEFORE_KEY = re.compile(r"[ ]*(?:-[ ]+)*")


def excerpt(
    text: str, line: int, column: int, *, key: str = "", notes: Sequence[str] = (), gutter: int = 0
) -> str:
    """Return a line of the text and a caret below it; empty where nothing of it may be shown.

    Line and column count from 1. ``key`` is the name of the field that stands there, where that is
    known: it alone may be shown of a Secret. The ``notes`` are written behind carets. ``gutter`` is
    how wide the numbers of lines are written at least.
    """
    lines = lines_of(text)
    if not (0 < line <= len(lines) and column > 0):
        return ""
    whole = lines[line - 1].rstrip("\r")
    if may_be_secret(text, line):
        masked = _masked(whole, column - 1, key)
        if masked is None:
            return ""
        whole = masked
    shown, caret = _cut(whole, column - 1)
    number = str(line).rjust(gutter)
    below = f"{' ' * len(number)} | {' ' * caret}^"
    carets = [f"{below} {note}" for note in notes if note] or [below]
    return "\n".join((f"{number} | {shown}", *carets))


@lru_cache(maxsize=4)
def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines of a text; of the last few texts they are remembered."""
    return tuple(text.split("\n"))


@lru_cache(maxsize=4)
def _separators(text: str) -> tuple[int, ...]:
    return tuple(at for at, line in enumerate(lines_of(text)) if line.startswith("---"))


def document_around(text: str, line: int) -> tuple[int, int]:
    """Return where the lines between two separators begin and end that hold a line, from 0."""
    cuts = _separators(text)
    at = bisect_right(cuts, line - 1)
    return (cuts[at - 1] if at else 0), (cuts[at] if at < len(cuts) else len(lines_of(text)))


def may_be_secret(text: str, line: int) -> bool:
    """Return whether the document that a line is in holds a Secret, or could be one."""
    start, end = document_around(text, line)
    if _may_be_secret(text, start, end):
        return True
    if not _is_json(text, start, end):
        return False
    # A long stream is not read through for each of its messages: its keys alone are shown.
    return line - start > _LONGEST_JSON or not _is_json_with_kind(lines_of(text)[start:line])


@lru_cache(maxsize=256)
def _may_be_secret(text: str, start: int, end: int) -> bool:
    region = "\n".join(lines_of(text)[start:end])
    if _WORD.search(region) or _DISGUISE.search(region):
        return True
    names = [_PLAIN.match(region, found.end()) for found in _KIND.finditer(region)]
    if not names or any(name is None or _names_secret(name[2]) for name in names):
        return True
    return not _is_json(text, start, end) and _TOP_KIND.search(region) is None


def _is_json(text: str, start: int, end: int) -> bool:
    first = next((line for line in lines_of(text)[start:end] if line.strip()), "")
    return first.lstrip().startswith("{")


def _names_secret(kind: str) -> bool:
    """Return whether a kind is that of Secrets, also mistyped or one of somebody's own."""
    word = kind.lower()
    return "secret" in word or SequenceMatcher(None, word, "secret").ratio() > _ALIKE


def _is_json_with_kind(lines: Sequence[str]) -> bool:
    """Return whether the last object that begins in these lines says there what it is."""
    text = "\n".join(lines)
    depth, said = 0, False
    for token in _JSON_TOKEN.finditer(text):
        if token[0] in "{[":
            said = said and depth > 0
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        elif depth == 1 and token[0] == '"kind"' and text[token.end() :].lstrip().startswith(":"):
            said = True
    return said


def _masked(line: str, index: int, key: str) -> str | None:
    """Return the key in a line without its value; None where something else may stand there."""
    if _BEFORE_KEY.fullmatch(line[:index]) is None:
        return None
    for name in (key,) if key else _HARMLESS:
        for written in (name, f'"{name}"', f"'{name}'"):
            rest = line[index + len(written) :].lstrip()
            if line.startswith(written, index) and rest[:1] == ":":
                value = rest[1:].strip()
                shown = value if name in _NO_VALUE and _NAME.fullmatch(value) else "…"
                return f"{line[:index]}{written}: {shown}"
    return None


def _cut(line: str, index: int) -> tuple[str, int]:
    """Return the part of a line around a place, fit to be shown, and how far in the place is."""
    index = min(index, len(line))
    start = 0
    if len(line) > _WIDTH:
        start = max(0, min(index - _WIDTH // 2, len(line) - _WIDTH))
    part = line[start : start + _WIDTH]
    before = "…" if start else ""
    after = "…" if start + _WIDTH < len(line) else ""
    shown = [_visible(char) for char in part]
    left = before + "".join(shown[: index - start])
    return f"{left}{''.join(shown[index - start :])}{after}", sum(map(_columns, left))


def _visible(char: str) -> str:
    if char == "\t":
        return _TAB
    return char if char.isprintable() else ascii(char)[1:-1]


def _columns(char: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1

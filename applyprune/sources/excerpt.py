"""The line of a text that a message is about, with a caret below, and where its field is.

A value of a Secret is never shown: a line is shown only where its document states another kind, and
has no `stringData`. A document that cannot be read and states no kind may be a Secret.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamStartEvent,
)

from applyprune.sources.yaml import YAMLFault, events, resolve_key
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    Take = Callable[[], Any]


def excerpt(
    text: str, line: int, column: int, *, key: str = "", notes: Sequence[str] = (), gutter: int = 0
) -> str:
    """Return a line of the text and a caret below it; empty where the line must not be shown.

    Line and column count from 1. ``key`` is the name of the field at that place, if known: it is
    the only part of a Secret that may be shown. Each of ``notes`` follows a caret of its own.
    ``gutter`` is the minimum width of the line numbers.
    """
    lines = lines_of(text)
    if not (0 < line <= len(lines) and column > 0):
        return ""
    whole = lines[line - 1].rstrip("\r")
    if line_may_be_secret(text, line):
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
    """Return the lines of a text; the lines of the last few texts are cached."""
    return tuple(text.split("\n"))


def document_around(text: str, line: int) -> tuple[int, int]:
    """Return the first line, from 0, of the document that contains ``line``, and the line after."""
    cuts = _separators(text)
    at = bisect_right(cuts, line - 1)
    return (cuts[at - 1] if at else 0), (cuts[at] if at < len(cuts) else len(lines_of(text)))


@lru_cache(maxsize=4)
def _separators(text: str) -> tuple[int, ...]:
    return tuple(at for at, line in enumerate(lines_of(text)) if line.startswith("---"))


_WIDTH = 88
"""The maximum number of characters to show of a long line."""


def _cut(line: str, index: int) -> tuple[str, int]:
    """Return the printable part of a line around an index, and the column of the index in it."""
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
        return "    "
    return char if char.isprintable() else ascii(char)[1:-1]


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# Whether a line may be shown.


_LONGEST_JSON = 5_000
_KIND = pattern(r"""\bkind\b["']?[ \t]*:""", re.IGNORECASE)
_PLAIN = pattern(r"""[ \t]*(["']?)([A-Za-z][A-Za-z0-9]*)\1[ \t]*(?:[\r\n,}#]|$)""")
_TOP_KIND = pattern(r"^kind[ \t]*:", re.MULTILINE)
# Escapes that could spell `Secret` without the letters.
_DISGUISE = pattern(r"\\[xuU]")
# `stringData` stands for a Secret whose kind is mistyped.
_WORD = pattern(r"\b(?:Secret(?:List)?|stringData)\b")
_ALIKE = 0.7
_JSON_TOKEN = pattern(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_COLON = pattern(r"\s*:")
_NO_VALUE = frozenset({"apiVersion", "kind"})
_HARMLESS = (*sorted(_NO_VALUE), "metadata")
_NAME = pattern(r"[\w./-]{1,60}")
_BEFORE_KEY = pattern(r"[ ]*(?:-[ ]+)*")


def line_may_be_secret(text: str, line: int) -> bool:
    """Return whether the document that contains a line holds a Secret, or could be a Secret."""
    start, end = document_around(text, line)
    if _may_be_secret(text, start, end):
        return True
    if not _is_json(text, start, end):
        return False
    # Parsing a long stream for each of its messages would be slow: only its keys are shown.
    return line - start > _LONGEST_JSON or not _kinds_stated(text, start, end)[line - start - 1]


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
    lines = lines_of(text)
    first = next((lines[at] for at in range(start, end) if lines[at].strip()), "")
    return first.lstrip().startswith("{")


def _names_secret(kind: str) -> bool:
    """Return whether a kind means Secret: also a mistyped or a custom kind."""
    word = kind.lower()
    return "secret" in word or SequenceMatcher(None, word, "secret").ratio() > _ALIKE


@lru_cache(maxsize=4)
def _kinds_stated(text: str, start: int, end: int) -> tuple[bool, ...]:
    """Return for each line whether the last object that begins up to there states its kind."""
    stated: list[bool] = []
    depth, has_kind = 0, False
    for line in lines_of(text)[start : min(end, start + _LONGEST_JSON)]:
        for token in _JSON_TOKEN.finditer(line):
            if token[0] in "{[":
                has_kind = has_kind and depth > 0
                depth += 1
            elif token[0] in "}]":
                depth -= 1
            elif depth == 1 and token[0] == '"kind"' and _COLON.match(line, token.end()):
                has_kind = True
        stated.append(has_kind)
    return tuple(stated)


def _masked(line: str, index: int, key: str) -> str | None:
    """Return the key in a line without its value; None where the line may hold something else."""
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


# Find the places of fields in their text, only when a message needs one.
#
# All fields of an object are found in one walk over its events, and kept: an object may have
# thousands of faults. A field that comes from an alias or a merge has no place of its own.


_FIRST_LINES = 64
"""How many lines are searched first for the end of an object."""
_LONGEST = 50_000
"""How many lines of an object are searched for a field; the longest CRDs have half as many."""


def locate(text: str, line: int, path: Sequence[str | int]) -> tuple[int, int] | None:
    """Return the line and column of ``path`` in the object that begins in ``line``.

    Both count from 1. The place of a field is that of its key; the place of a list item is that of
    the item. Return None where the object has no such field, or its place is unknown.
    """
    known, place = nearest(text, line, path)
    return place if known == len(path) else None


def nearest(text: str, line: int, path: Sequence[str | int]) -> tuple[int, tuple[int, int] | None]:
    """Return how many steps of ``path`` the object in ``line`` has, and the place of the last."""
    node = _fields_of(text, line) if 0 < line <= len(lines_of(text)) else None
    if node is None:
        return 0, None
    for known, step in enumerate(path):
        inner = node.inner.get(step) if node.inner else None
        if inner is None:
            return known, (node.line + line, node.column)
        node = inner
    return len(path), (node.line + line, node.column)


class _Place(Struct):
    """A field, an item or an object: where it begins, and what is in it."""

    line: int
    """From the first line of the object, which is 0."""
    column: int
    """From 1."""
    inner: dict[str | int, _Place] | None = None
    """The fields of a mapping by their names, the items of a list by their numbers."""


@lru_cache(maxsize=4)
def _fields_of(text: str, line: int) -> _Place | None:
    """Return the places of all fields of the object that begins in a line; None for no object."""
    lines, above = lines_of(text), line - 1
    _, end = document_around(text, line)
    most = _FIRST_LINES
    while True:
        # The rest of a List with many items is not parsed for each of them.
        part = lines[above : min(end, above + most)]
        found, last = _places_in("\n".join(part))
        if last < len(part) - 1 or above + most >= end or most == _LONGEST:
            return found
        most = min(most * 8, _LONGEST)


def _places_in(text: str) -> tuple[_Place | None, int]:
    """Return the places of the first object of a text, and the line in which it ends.

    That line is far below if the text ends before the object, or is broken.
    """
    found = _first_mapping(text, 1)
    if found is None:
        return None, _LONGEST
    take, event = found
    top = _place_of(event)
    try:
        end = _note_places(take, event, top)
    except (YAMLError, RecursionError):
        return top, _LONGEST
    return top, end.start_mark.line


def _place_of(event: Any) -> _Place:
    return _Place(event.start_mark.line, event.start_mark.column + 1)


def _note_places(take: Take, event: Any, node: _Place) -> Any:
    """Note the places of all that is in the node that ``event`` begins; return its last event."""
    form = type(event)
    inner: dict[str | int, _Place] = {}
    if form is MappingStartEvent:
        node.inner = inner
        while type(event := take()) is not MappingEndEvent:
            place = _place_of(event)
            if type(event) is ScalarEvent:
                for name in _names_of(event):
                    inner.setdefault(name, place)
            else:
                _skip(take, event)
            _note_places(take, take(), place)
    elif form is SequenceStartEvent:
        node.inner = inner
        while type(event := take()) is not SequenceEndEvent:
            place = inner[len(inner)] = _place_of(event)
            _note_places(take, event, place)
    return event


def _names_of(key: Any) -> Iterator[str]:
    """Yield the names that a key may have: ``on`` is ``true`` too."""
    yield key.value
    if not key.style and key.tag is None:
        with suppress(YAMLFault):
            yield resolve_key(key.value)


def item_lines(text: str, line: int) -> list[int]:
    """Return the lines of the ``items`` of the list object that begins in ``line``.

    Return [] where they are unknown.
    """
    found = _first_mapping(text, line)
    lines: list[int] = []
    try:
        take = found[0] if found else None
        if take is None or type(_enter(take, "items")) is not SequenceStartEvent:
            return []
        while type(event := take()) is not SequenceEndEvent:
            lines.append(event.start_mark.line + line)
            _skip(take, event)
    except YAMLError:
        return []
    return lines


def _first_mapping(text: str, line: int) -> tuple[Take, Any] | None:
    """Read from ``line`` up to the object there, which may be an item of a list."""
    take = events(text.split("\n", line - 1)[-1])
    before = (StreamStartEvent, DocumentStartEvent, SequenceStartEvent)
    try:
        while type(event := take()) in before:
            pass
    except YAMLError:
        return None
    return (take, event) if type(event) is MappingStartEvent else None


def _enter(take: Take, name: str) -> Any:
    """Enter a field of a mapping; return its first event, None if there is none."""
    while type(key := take()) is not MappingEndEvent:
        if type(key) is ScalarEvent and key.value == name:
            return take()
        _skip(take, key)
        _skip(take, take())
    return None


def _skip(take: Take, event: Any) -> None:
    """Read the rest of the node that ``event`` begins."""
    depth = 0
    while True:
        if type(event) in {MappingStartEvent, SequenceStartEvent}:
            depth += 1
        elif type(event) in {MappingEndEvent, SequenceEndEvent}:
            depth -= 1
        if depth == 0:
            return
        event = take()

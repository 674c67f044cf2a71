"""Colours in text, as marks that untrusted text cannot contain.

Printed text contains names and messages from the cluster, so ``rendered`` escapes control
characters in it. Our own colours are marks with a random number; ``rendered`` turns them into
escape sequences if the stream can show colours.
"""

from __future__ import annotations

import os
from enum import StrEnum

from applyprune.model.text.display import visible
from applyprune.patterns import pattern

_OURS = f"\x1b{os.urandom(8).hex()}"
_MARK = pattern(f"{_OURS}([0-9;]*)m")


class Colour(StrEnum):
    """The colours in use, as parameters of the ECMA-48 sequence that selects them."""

    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    MAGENTA = "35"
    CYAN = "36"
    BOLD = "1"
    FAINT = "2"


def styled(text: str, colour: Colour | None) -> str:
    """Return the text with marks for a colour."""
    return f"{_OURS}{colour}m{text}{_OURS}0m" if colour and text else text


def rendered(text: str, *, colour: bool) -> str:
    """Return lines for a terminal: marks become colours or vanish, the rest is escaped."""
    if text.isprintable():
        return text
    return "\n".join(_line(line, colour=colour) for line in text.split("\n"))


def cells(text: str) -> int:
    """Return how many columns of a terminal one line takes."""
    plain = rendered(text, colour=False)
    return len(plain) if plain.isascii() else sum(map(_cells, plain))


def cut(text: str, columns: int) -> str:
    """Return the text without marks, cut to ``columns``; a cut text ends in ``…``."""
    plain = rendered(text, colour=False)
    if cells(plain) <= columns:
        return plain
    kept, left = "", columns - 1
    for char in plain:
        left -= _cells(char)
        if left < 0:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


def _cells(char: str) -> int:
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _line(line: str, *, colour: bool) -> str:
    # Every second piece is the content of a mark.
    pieces = _MARK.split(line)
    pieces[::2] = map(visible, pieces[::2])
    pieces[1::2] = (f"\x1b[{code}m" if colour else "" for code in pieces[1::2])
    return "".join(pieces)

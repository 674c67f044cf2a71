"""libyaml's events, by ruamel.yaml's C extension, and its errors in our words.

Only events: ruamel's own loading takes five times as long and reads scalars by other rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

# ruamel.yaml.cyaml picks the C extension that is installed, in 0.18 and in 0.19.
from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]

from applyprune.sources.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from ruamel.yaml.error import YAMLError

# libyaml 0.1 (which the extension holds) takes a colon inside an unquoted text in brackets, as in
# `args: [--listen=:80]`, for a mistake; later ones, and Go, for a part of the text.
_COLON_PROBLEM = "found unexpected ':'"
# What libyaml says of text after `...`, and of text that is indented less than the document.
_SECOND_DOCUMENT = "did not find expected <document start>"
_DROPPED = "kubectl would silently drop it; begin the next document with a line ---."
_TABS = "Indent with blanks."
_ADVICE = {
    "mapping values are not allowed in this context": (
        "Quote a text that holds a colon and a blank; or is the line indented too far?"
    ),
    "found unexpected end of stream": "A quote or a bracket is not closed.",
    "could not find expected ':'": "A key needs a colon and a blank behind it.",
    "did not find expected key": "Are the lines indented alike?",
    "found character that cannot start any token": "Quote a text that begins with @, ` or %.",
}
# What stands for such a colon while libyaml reads; from the private-use areas of Unicode.
_STAND_INS = "\ue0c0\uf8c0\U0010fff0"
# A colon that ends no key: text follows it at once, and before it is no begin or end of anything.
_COLON_INSIDE = re.compile(r"""(?<=[^\s,?\[\]{}"']):(?=\S)""")

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def events(text: str) -> Callable[[], Any]:
    """Return the function that gives the next event of the stream each time it is called.

    It raises YAMLError, which ``refusal_of`` translates; past the stream's end it returns None.
    """
    take: Callable[[], Any] = CParser(text).get_event
    return take


def refusal_of(error: YAMLError, text: str) -> Refused:
    """Return libyaml's error without a word of the text; the line counts within ``text``."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        forbidden = _FORBIDDEN.search(text)
        if forbidden is None:
            return Refused("not valid YAML")
        problem = f"the character U+{ord(forbidden[0]):04X} is not allowed in YAML"
        return Refused(problem, *place_in(text, forbidden.start()))
    line, column = _place_of(mark, text)
    problem = f"not valid YAML: {getattr(error, 'problem', None) or 'it cannot be read'}"
    if getattr(error, "problem", None) == _SECOND_DOCUMENT:
        return Refused("text after the end of the document", line, column, hint=_DROPPED)
    hint = _ADVICE.get(str(getattr(error, "problem", "")), "")
    context = getattr(error, "context", None)
    if not context:
        return Refused(problem, line, column, hint=hint)
    if text.split("\n", line)[line - 1][column - 1 : column] == "\t":
        return Refused("a tab where YAML takes only blanks", line, column, hint=_TABS)
    start = getattr(error, "context_mark", None)
    since = (0, 0)
    if start is not None and start.line + 1 < line:
        since = (start.line + 1, start.column + 1)
    return Refused(f"{problem}, {context}", line, column, since=since, hint=hint)


def place_in(text: str, index: int) -> tuple[int, int]:
    """Return line and column of the character at an index, from 1."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _place_of(mark: Any, text: str) -> tuple[int, int]:
    """Return a mark's line and column; an end that is missing shows behind the last word.

    libyaml puts that past the last line, where nobody can look.
    """
    words = text.rstrip()
    last = words.count("\n")
    if mark.line <= last:
        return mark.line + 1, mark.column + 1
    return place_in(words, len(words))


def without_flow_colons(text: str, error: YAMLError) -> tuple[str, str] | None:
    """Return ``text`` with the colons that only libyaml 0.1 minds replaced, and the replacement.

    None where ``error`` is about something else. Lines and columns stay as they are. Colons in
    other texts are replaced as well: they too come back when the stand-in becomes a colon again.
    """
    if getattr(error, "problem", None) != _COLON_PROBLEM:
        return None
    stand_in = next((char for char in _STAND_INS if char not in text), None)
    return (_COLON_INSIDE.sub(stand_in, text), stand_in) if stand_in else None

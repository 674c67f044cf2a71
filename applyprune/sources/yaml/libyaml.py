"""Read libyaml's events through ruamel.yaml's C extension, and reword its errors.

Only events are used: ruamel's own loader takes five times as long and reads scalars by other rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]

from applyprune.sources.yaml.error import YAMLFault
from applyprune.values import pattern

if TYPE_CHECKING:
    from ruamel.yaml.error import YAMLError

# ruamel.yaml.cyaml selects the installed C extension, in 0.18 and in 0.19.


# libyaml 0.1 (the extension contains it) rejects a colon inside an unquoted text in brackets, as in
# `args: [--listen=:80]`; later versions, and Go, read it as part of the text.
_COLON_PROBLEM = "found unexpected ':'"
# libyaml's error for text after `...`, and for text that is indented less than the document.
_SECOND_DOCUMENT = "did not find expected <document start>"
_DROPPED = "kubectl would silently ignore it; start the next document with a line ---."
_TABS = "Indent with spaces."
_ADVICE = {
    "mapping values are not allowed in this context": (
        "Quote a string that contains a colon and a space, or check the indentation."
    ),
    "found unexpected end of stream": "A quote or a bracket is not closed.",
    "could not find expected ':'": "A key must be followed by a colon and a space.",
    "did not find expected key": "Check that the lines have the same indentation.",
    "found character that cannot start any token": "Quote a string that begins with @, ` or %.",
}
# What replaces such a colon while libyaml reads; from the private-use areas of Unicode.
_STAND_INS = "\ue0c0\uf8c0\U0010fff0"
# A colon that does not end a key: text follows directly, and no delimiter precedes it.
_COLON_INSIDE = pattern(r"""(?<=[^\s,?\[\]{}"']):(?=\S)""")

_FORBIDDEN = pattern("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def events(text: str) -> Callable[[], Any]:
    """Return a function that returns the next event of the stream on each call.

    It raises YAMLError, which ``refusal_of`` translates. After the stream's end it returns None.
    """
    take: Callable[[], Any] = CParser(text).get_event
    return take


def refusal_of(error: YAMLError, text: str) -> YAMLFault:
    """Return libyaml's error without any part of the text; the line is a line of ``text``."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        forbidden = _FORBIDDEN.search(text)
        if forbidden is None:
            return YAMLFault("not valid YAML")
        problem = f"the character U+{ord(forbidden[0]):04X} is not allowed in YAML"
        return YAMLFault(problem, *place_in(text, forbidden.start()))
    line, column = _place_of(mark, text)
    problem = f"not valid YAML: {getattr(error, 'problem', None) or 'it cannot be parsed'}"
    if getattr(error, "problem", None) == _SECOND_DOCUMENT:
        return YAMLFault("text after the end of the document", line, column, hint=_DROPPED)
    hint = _ADVICE.get(str(getattr(error, "problem", "")), "")
    context = getattr(error, "context", None)
    if not context:
        return YAMLFault(problem, line, column, hint=hint)
    if text.split("\n", line)[line - 1][column - 1 : column] == "\t":
        return YAMLFault("tab used for indentation", line, column, hint=_TABS)
    start = getattr(error, "context_mark", None)
    since = (0, 0)
    if start is not None and start.line + 1 < line:
        since = (start.line + 1, start.column + 1)
    return YAMLFault(f"{problem}, {context}", line, column, since=since, hint=hint)


def place_in(text: str, index: int) -> tuple[int, int]:
    """Return the line and column of the character at an index, from 1."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _place_of(mark: Any, text: str) -> tuple[int, int]:
    """Return a mark's line and column; a missing end is placed after the last word.

    libyaml places a missing end after the last line, where there is nothing to show.
    """
    words = text.rstrip()
    last = words.count("\n")
    if mark.line <= last:
        return mark.line + 1, mark.column + 1
    return place_in(words, len(words))


def without_flow_colons(text: str, error: YAMLError) -> tuple[str, str] | None:
    """Replace the colons that only libyaml 0.1 rejects; return the text and the replacement.

    Return None where ``error`` has another cause. Lines and columns do not change. Colons in other
    texts are replaced too: they are restored in the same way, when the events are read.
    """
    if getattr(error, "problem", None) != _COLON_PROBLEM:
        return None
    stand_in = next((char for char in _STAND_INS if char not in text), None)
    return (_COLON_INSIDE.sub(stand_in, text), stand_in) if stand_in else None

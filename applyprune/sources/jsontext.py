"""Parse JSON as strictly as the YAML dialect: no duplicate keys, no lost digits or half characters.

Most JSON is YAML too, but not surrogate pairs, keys beyond 1024 characters, or documents without a
separator between them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from applyprune.sources.dialect import MAX_DEPTH, TOO_DEEP, shown
from applyprune.sources.refusal import YAMLFault
from applyprune.sources.scalars import shape, whole_number

_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TWICE = "kubectl would silently use the last value; remove the duplicate."


def skip_space(text: str, start: int) -> int:
    """Return the index of the next character that is not JSON white space, or the text's end."""
    space = _SPACE.match(text, start)
    return space.end() if space else start


def read_value(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value at ``start`` and the index after it.

    Raises ``json.JSONDecodeError`` where the text is not JSON, and Refused, without a line, for
    unsupported JSON.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise YAMLFault(TOO_DEEP) from None
    _check_depth(value)
    # Half of a surrogate pair is not a character: Go silently replaces it with U+FFFD.
    if "\\u" in text[start:end] and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise YAMLFault("unpaired surrogate escape (\\uD800 to \\uDFFF)")
    return value, end


def end_of_value(text: str, start: int) -> int:
    """Return the index after a value that ``read_value`` rejected; the text's end if unknown."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return len(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise YAMLFault(f"duplicate key {shown(key)}", hint=_TWICE)
        seen.add(key)
    return result


def _float(literal: str) -> int | float:
    return shape(float(literal))


def _constant(_name: str) -> Any:
    raise YAMLFault("JSON cannot represent infinity or NaN")


def _check_depth(value: Any) -> None:
    """Raise Refused where collections nest deeper than the dialect allows."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for collection in level
            if isinstance(collection, dict | list)
            for inner in (collection.values() if isinstance(collection, dict) else collection)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise YAMLFault(TOO_DEEP)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=_float,
    parse_int=whole_number,
    parse_constant=_constant,
)

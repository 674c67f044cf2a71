"""Split bytes into documents of JSON or YAML, as kubectl does, with the faults of each document.

kubectl splits a stream at the lines that begin with ``---`` and reads the first document of each
piece. It silently ignores the rest of a piece; here that is an error.
"""

from __future__ import annotations

import codecs
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from applyprune.sources.yaml import (
    MAX_DEPTH,
    TOO_DEEP,
    Allowance,
    AllowanceSpent,
    Document,
    YAMLFault,
    document_of,
    duplicate_key,
    events,
    json_number,
    parse_integer,
    place_in,
    read_stream,
    without_flow_colons,
    yaml_fault,
)
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class NumberedDocument(Struct, frozen=True):
    """A document of a stream, or its fault, with its number."""

    number: int
    """The number of the document, from 1; documents without content (comments) do not count."""
    content: Document | YAMLFault


def read_documents(data: bytes, allowance: Allowance | None = None) -> list[NumberedDocument]:
    """Return every document of a stream in order; a broken document as its fault.

    ``allowance`` is what is left for this load; when it is spent, the rest is not read.
    """
    found: list[Document | YAMLFault]
    allowance = allowance or Allowance()
    try:
        allowance.take(0, len(data))
        text = _decode(data)
    except AllowanceSpent as refused:
        found = [refused.at(1, 1)]
    except YAMLFault as refused:
        found = [refused]
    else:
        is_json = text.lstrip().startswith("{")
        found = _read_json(text, allowance) if is_json else _read_yaml(text, 0, allowance)
    return [NumberedDocument(number, content) for number, content in enumerate(found, 1)]


# libyaml skips a byte order mark at the start of any line, Go only at the start of a document.
_INNER_MARK = pattern("(?:\\A|[\n\r\x85\u2028\u2029])\ufeff")
# Files of Windows that were joined: the mark of the next one is before its separator, or after it.
_MARK_OF_A_DOCUMENT = pattern(
    "((?:\\A|(?<=[\n\ufeff]))---[ \t]*(?:#[^\n]*|\r)?\n)\ufeff|(?:\\A|(?<=\n))\ufeff(?=---)"
)
_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def text_in(data: bytes) -> str:
    """Return the text of a file without the marks of its encoding, so that it can be shown."""
    return _without_marks(data.decode(_encoding(data), "replace"))


def utf8(data: bytes) -> bytes:
    """Return the data of a file in UTF-8: editors and shells of Windows also write UTF-16."""
    return data if _encoding(data) == "utf-8" else text_in(data).encode()


def _encoding(data: bytes) -> str:
    # The mark of UTF-32 begins like that of UTF-16.
    return "utf-16" if data.startswith(_UTF_16) and not data.startswith(_UTF_32) else "utf-8"


def _without_marks(text: str) -> str:
    text = text.removeprefix("\ufeff")
    return _MARK_OF_A_DOCUMENT.sub(r"\1", text) if "\ufeff" in text else text


def _decode(data: bytes) -> str:
    encoding = _encoding(data)
    if data.startswith(_UTF_32):
        raise YAMLFault(
            "the text is UTF-32, not UTF-8", hint="Save it as UTF-8; kubectl rejects it too."
        )
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        problem = f"the text is not {encoding.upper()}"
        raise YAMLFault(problem, *place_in(before, len(before))) from None
    text = _without_marks(text)
    if "\ufeff" in text and (inner := _INNER_MARK.search(text)):
        place = place_in(text, inner.end() - 1)
        raise YAMLFault("a byte order mark (U+FEFF) inside the text", *place, hint="Remove it.")
    # kubectl reads lines: it turns CR LF into LF before YAML sees it (CR CR LF then has a line end
    # less). It also adds a missing line end to the last line, which becomes part of a block scalar.
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text if text.endswith("\n") else f"{text}\n"


# YAML, piece by piece.


# Each pattern begins with a line end: searching for a fixed text is ten times as fast.
_SEPARATOR = pattern(r"\n---")
_NO_SEPARATOR = pattern("\n---(?![ \t]*(?:#[^\r\n\x85\u2028\u2029]*)?\n)|\n---#")
_HIDDEN_SEPARATOR = pattern("[\r\x85\u2028\u2029]---")
# Possessive: the engine would keep a way back for each of a million comments.
_DIRECTIVE = pattern(r"(?:[ \t]*+(?:#[^\n]*+)?+\n)*+%")
_DROPPED = "kubectl would silently ignore what follows it; end each line with a line feed."
_ONLY = "Only a comment may follow ---; kubectl rejects it too."


def _read_yaml(
    text: str, above: int, allowance: Allowance, before: int = 0
) -> list[Document | YAMLFault]:
    """Read YAML that begins ``above`` lines down in the stream, at column ``before`` from 0.

    Read everything in a single pass if there is no fault; else piece by piece, so that a fault
    hides only its own document.
    """
    left, found = allowance.memory, list[Document | YAMLFault]()
    try:
        return [replace(each, line=each.line + above) for each in _read_piece(text, allowance)]
    except AllowanceSpent as refused:
        return [refused.moved(above, before)]
    except (YAMLFault, YAMLError):
        allowance.memory = left
    faults = 0
    cuts = [0, *(match.start() + 1 for match in _SEPARATOR.finditer(text)), len(text)]
    for start, end in pairwise(cuts):
        piece = text[start:end]
        try:
            documents = _read_with_colons(piece, allowance)
        except YAMLFault as refused:
            found.append(refused.moved(above, before))
            if isinstance(refused, AllowanceSpent) or (faults := faults + 1) >= allowance.errors:
                break
        else:
            found += [replace(each, line=each.line + above) for each in documents]
        above += piece.count("\n")
        before = 0
    return found


def _read_with_colons(text: str, allowance: Allowance) -> list[Document]:
    """Read one piece; accept the colons that only libyaml rejects; raise YAMLFault for a fault."""
    left = allowance.memory
    try:
        return _read_piece(text, allowance)
    except YAMLError as error:
        allowance.memory = left
        mended = without_flow_colons(text, error)
        if mended is None:
            raise yaml_fault(error, text) from None
    try:
        return _read_piece(mended[0], allowance, mended[1])
    except YAMLError as error:
        raise yaml_fault(error, text) from None


def _read_piece(text: str, allowance: Allowance, stand_in: str = "") -> list[Document]:
    """Read a text; raises YAMLError where libyaml does, and YAMLFault for any other fault."""
    if false := _NO_SEPARATOR.search(f"\n{text}" if text.startswith("---") else text):
        line = text.count("\n", 0, false.start() + 1) + 1
        problem = "a line that begins with --- contains more than the separator"
        raise YAMLFault(problem, line, 1, hint=_ONLY)
    if _DIRECTIVE.match(text):
        raise YAMLFault(
            "YAML directives (%YAML, %TAG) are not supported",
            1,
            1,
            hint="Remove it; kubectl rejects it too.",
        )
    documents, marked = read_stream(text, stand_in, allowance)
    # libyaml also treats a lone carriage return and U+2028 as line ends; kubectl sees no --- there.
    if marked != text.count("\n---") + text.startswith("---"):
        hidden = _HIDDEN_SEPARATOR.search(text)
        place = place_in(text, hidden.start() + 1) if hidden else (0, 0)
        raise YAMLFault("kubectl does not see this --- as a separator", *place, hint=_DROPPED)
    return documents


# JSON, as strict as the YAML dialect: no duplicate keys, no lost digits or half characters.
#
# Most JSON is YAML too, but not surrogate pairs, keys beyond 1024 characters, or documents without
# a separator between them.


_YAML_FOLLOWS = pattern(r"[ \t\r]*[\n#]")
_SPACE = pattern(r"[ \t\r\n]*")
_SURROGATE = pattern("[\ud800-\udfff]")


def _read_json(text: str, allowance: Allowance) -> list[Document | YAMLFault]:
    """Read JSON documents, one after the other, or with YAML from the second on, as kubectl does.

    A text that only looks like JSON (``{a: b}``) is YAML.
    """
    found: list[Document | YAMLFault] = []
    end, above, faults = 0, 0, 0
    while (place := skip_space(text, end)) < len(text) and faults < allowance.errors:
        above += text.count("\n", end, place)
        try:
            value, after, values = read_value(text, place)
        except json.JSONDecodeError as error:
            # After two JSON documents, kubectl also reads the rest of the stream as JSON.
            if len(found) > 1 or (found and not _YAML_FOLLOWS.match(text, end)):
                problem = f"not valid JSON: {error.msg}"
                return [
                    *found,
                    YAMLFault(problem, *place_in(text, min(error.pos, len(text.rstrip())))),
                ]
            return found + _read_yaml(text[place:], above, allowance, _before(text, place))
        except YAMLFault as refused:
            after = end_of_value(text, place)
            # The YAML reader fails at the same place, and knows its line.
            again = _read_yaml(text[place:after], above, Allowance(), _before(text, place))
            places = [(item.line, item.column) for item in again if isinstance(item, YAMLFault)]
            faults += 1
            found.append(refused.at(*places[0]) if places else refused.at(above + 1))
        else:
            try:
                allowance.take(values)
            except AllowanceSpent as refused:
                return [*found, refused.at(above + 1, _before(text, place) + 1)]
            # kubectl skips a null, as it skips an empty YAML document.
            found += [document_of(value, above + 1, text)] if value is not None else []
        above += text.count("\n", place, after)
        end = after
    return found


def _before(text: str, place: int) -> int:
    """Return how many characters precede an index in its line."""
    return place - text.rfind("\n", 0, place) - 1


def skip_space(text: str, start: int) -> int:
    """Return the index of the next character that is not JSON white space, or the text's end."""
    space = _SPACE.match(text, start)
    return space.end() if space else start


def read_value(text: str, start: int) -> tuple[Any, int, int]:
    """Return the JSON value at ``start``, the index after it, and how many values it holds.

    Raises ``json.JSONDecodeError`` where the text is not JSON, and YAMLFault, without a line, for
    unsupported JSON.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise YAMLFault(TOO_DEEP) from None
    values = _values(value)
    # Half of a surrogate pair is not a character: Go silently replaces it with U+FFFD.
    if "\\u" in text[start:end] and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise YAMLFault("unpaired surrogate escape (\\uD800 to \\uDFFF)")
    return value, end, values


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
            raise duplicate_key(key)
        seen.add(key)
    return result


def _constant(_name: str) -> Any:
    raise YAMLFault("JSON cannot represent infinity or NaN")


def _values(value: Any) -> int:
    """Return how many values there are; raise YAMLFault where they nest deeper than allowed."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    found = 1
    for _ in range(MAX_DEPTH):
        found += sum(map(len, level))
        level = [
            inner
            for collection in level
            if isinstance(collection, dict | list)
            for inner in (collection.values() if isinstance(collection, dict) else collection)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return found
    raise YAMLFault(TOO_DEEP)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=lambda literal: json_number(float(literal)),
    parse_int=parse_integer,
    parse_constant=_constant,
)


# What another tool has stored as it sent it: it may have accepted what is refused in an input.


_BEGINS = pattern(r"(?:\A|(?<=\n))---")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


def stored_documents(text: str) -> Iterator[Any]:
    """Yield each document as plain data; None for one that nothing reads.

    Where the reader of input finds a fault, such as a duplicate key, the last value of a key counts
    and each scalar is text: that is enough to see which object it is.
    """
    allowance = Allowance()
    # JSON may hold half a character.
    for piece in _BEGINS.split(text.encode("utf-8", "replace").decode()):
        for one in read_documents(piece.encode(), allowance):
            yield one.content.value if isinstance(one.content, Document) else _loosely(piece)


def _loosely(piece: str) -> Any:
    try:
        take = events(piece)
        while type(event := take()) in {StreamStartEvent, DocumentStartEvent}:
            pass
        return None if type(event) is StreamEndEvent else _node(take, event, {}, 1)
    except (YAMLError, YAMLFault):
        return None


def _node(take: Callable[[], Any], event: Any, anchors: dict[str, Any], depth: int) -> Any:
    """Return the value that begins with an event; an alias is the same value, not a copy."""
    kind = type(event)
    if kind is AliasEvent:
        return anchors.get(event.anchor)
    if depth > MAX_DEPTH:
        raise YAMLFault(TOO_DEEP)
    value: Any
    if kind is ScalarEvent:
        value = None if not event.style and event.value in _NOTHING else event.value
    elif kind is SequenceStartEvent:
        value = []
        while type(item := take()) is not SequenceEndEvent:
            value.append(_node(take, item, anchors, depth + 1))
    else:
        value = {}
        while type(key := take()) is not MappingEndEvent:
            name = _node(take, key, anchors, depth + 1)
            value[str(name)] = _node(take, take(), anchors, depth + 1)
    if event.anchor is not None:
        anchors[event.anchor] = value
    return value

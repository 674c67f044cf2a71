"""Bytes → documents: what is JSON, what is YAML, where a document ends, and where it is broken.

kubectl cuts a stream at the lines that begin with ``---`` and reads the first document of each
piece; whatever else stands in a piece it drops without a word. Here that is an error.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from itertools import pairwise

from ruamel.yaml.error import YAMLError

from applyprune.sources.dialect import Document, read_stream
from applyprune.sources.events import place_in, refusal_of, without_flow_colons
from applyprune.sources.jsontext import end_of_value, read_value, skip_space
from applyprune.sources.refusal import Refused

# Each begins with a line end, so that the search is for a fixed text, ten times as fast.
_SEPARATOR = re.compile(r"\n---")
_NO_SEPARATOR = re.compile("\n---(?![ \t]*(?:#[^\r\n\x85\u2028\u2029]*)?\n)|\n---#")
_HIDDEN_SEPARATOR = re.compile("[\r\x85\u2028\u2029]---")
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%")
# libyaml skips a byte order mark at the begin of any line, Go only that of the stream.
_INNER_MARK = re.compile("(?:\\A|[\n\r\x85\u2028\u2029])\ufeff")
_OTHER_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_YAML_FOLLOWS = re.compile(r"[ \t\r]*[\n#]")
_DROPPED = "kubectl would silently drop what follows it; end lines with a line feed."
_ONLY = "kubectl refuses it too: after --- only a comment may follow."


@dataclass(frozen=True, slots=True)
class Numbered:
    """A document, or what is wrong with it, and which one of the stream it is, from 1.

    Documents without content (comments only) are not counted.
    """

    number: int
    content: Document | Refused


def read_documents(data: bytes) -> list[Numbered]:
    """Return every document of a stream in order; broken ones as what is wrong with them."""
    found: list[Document | Refused]
    try:
        text = _decode(data)
    except Refused as refused:
        found = [refused]
    else:
        found = _read_json(text) if text.lstrip().startswith("{") else _read_yaml(text, 0)
    return [Numbered(number, content) for number, content in enumerate(found, 1)]


def _decode(data: bytes) -> str:
    for mark, name in _OTHER_ENCODINGS:
        if data.startswith(mark):
            raise Refused(f"the text is {name}", hint="Save it as UTF-8; kubectl refuses it too.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise Refused("the text is not UTF-8", *place_in(before, len(before))) from None
    text = text.removeprefix("\ufeff")
    if "\ufeff" in text and (inner := _INNER_MARK.search(text)):
        place = place_in(text, inner.end() - 1)
        raise Refused("a byte order mark (U+FEFF) inside the text", *place, hint="Take it out.")
    # kubectl reads lines: CR LF becomes LF before YAML sees it (CR CR LF is one line end less), and
    # the last line gets an end where it has none, which a block scalar then ends with, too.
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text if text.endswith("\n") else f"{text}\n"


def _read_json(text: str) -> list[Document | Refused]:
    """Read JSON documents, one after the other or with YAML from the second one on, as kubectl.

    A text that only looks like JSON (``{a: b}``) is YAML.
    """
    found: list[Document | Refused] = []
    end, above = 0, 0
    while (place := skip_space(text, end)) < len(text):
        above += text.count("\n", end, place)
        try:
            value, after = read_value(text, place)
        except json.JSONDecodeError as error:
            # After two JSON documents kubectl, too, takes the stream for JSON to its end.
            if len(found) > 1 or (found and not _YAML_FOLLOWS.match(text, end)):
                what = f"not valid JSON: {error.msg}"
                return [*found, Refused(what, *place_in(text, min(error.pos, _end(text))))]
            return found + _read_yaml(text[place:], above, _before(text, place))
        except Refused as refused:
            after = end_of_value(text, place)
            # YAML's reader stumbles over the same place, and knows its line.
            again = _read_yaml(text[place:after], above, _before(text, place))
            places = [(item.line, item.column) for item in again if isinstance(item, Refused)]
            found.append(refused.at(*places[0]) if places else refused.at(above + 1))
        else:
            # kubectl passes over a null, as over an empty YAML document.
            found += [Document(value, above + 1)] if value is not None else []
        above += text.count("\n", place, after)
        end = after
    return found


def _before(text: str, place: int) -> int:
    """Return how many characters stand before a place in its line."""
    return place - text.rfind("\n", 0, place) - 1


def _end(text: str) -> int:
    return len(text.rstrip())


def _read_yaml(text: str, above: int, before: int = 0) -> list[Document | Refused]:
    """Read YAML that stands ``above`` lines down in the stream, ``before`` characters in.

    All of it at one go where it is without a fault, else piece by piece, so that a fault hides only
    the document that it is in.
    """
    try:
        return [Document(each.value, each.line + above) for each in _read_piece(text)]
    except (Refused, YAMLError):
        found: list[Document | Refused] = []
    cuts = [0, *(match.start() + 1 for match in _SEPARATOR.finditer(text)), len(text)]
    for start, end in pairwise(cuts):
        piece = text[start:end]
        try:
            documents = _read_mended(piece)
        except Refused as refused:
            found.append(refused.moved(above, before))
        else:
            found += [Document(each.value, each.line + above) for each in documents]
        above += piece.count("\n")
        before = 0
    return found


def _read_mended(text: str) -> list[Document]:
    """Read one piece, past what only libyaml minds; raises Refused for every fault."""
    try:
        return _read_piece(text)
    except YAMLError as error:
        mended = without_flow_colons(text, error)
        if mended is None:
            raise refusal_of(error, text) from None
    try:
        return _read_piece(*mended)
    except YAMLError as error:
        raise refusal_of(error, text) from None


def _read_piece(text: str, stand_in: str = "") -> list[Document]:
    """Read a text; raises YAMLError where libyaml does, and Refused for any other fault."""
    if false := _NO_SEPARATOR.search(f"\n{text}" if text.startswith("---") else text):
        line = text.count("\n", 0, false.start() + 1) + 1
        what = "a line that begins with --- holds more than a separator"
        raise Refused(what, line, 1, hint=_ONLY)
    if _DIRECTIVE.match(text):
        raise Refused(
            "a directive (%YAML, %TAG)", 1, 1, hint="kubectl refuses it too; take it out."
        )
    documents, marked = read_stream(text, stand_in)
    # libyaml takes a lone carriage return and U+2028 for line ends too; kubectl sees no --- there.
    if marked != text.count("\n---") + text.startswith("---"):
        hidden = _HIDDEN_SEPARATOR.search(text)
        place = place_in(text, hidden.start() + 1) if hidden else (0, 0)
        raise Refused("a --- that kubectl does not see", *place, hint=_DROPPED)
    return documents

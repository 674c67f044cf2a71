"""Parse Kubernetes' YAML dialect: a stream of libyaml's events → documents of plain JSON data.

Input that Go's reader (sigs.k8s.io/yaml) accepts gets the value that Go gives it. What Go loses
silently is a fault: duplicate keys (compared as text: 1 and "1" are the same key), a merge (``<<``)
that changes what an earlier key holds, tags without a meaning in JSON, and integers beyond 64 bits.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from msgspec import Struct
from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from applyprune.model.problem import MOST_ERRORS, ChangedKey, Field
from applyprune.values import Packed, packed, pattern

if TYPE_CHECKING:
    from ruamel.yaml.error import YAMLError


MAX_DEPTH = 100
"""How deep mappings and sequences may nest; Kubernetes objects stay below 40."""
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_MERGE = "<<"
Scalar: TypeAlias = "str | int | float | bool | None"


class Document(Struct, frozen=True):
    """One document that is not empty."""

    packed: Packed
    """The plain JSON data."""
    line: int
    """The line of the text in which the document begins, from 1."""
    changed_keys: tuple[ChangedKey, ...] = ()
    """The keys of which YAML makes another text."""

    @property
    def value(self) -> Any:
        """Return the plain JSON data."""
        return self.packed.value


_LONG = 2**20


def document_of(
    value: Any, line: int, text: str, changed_keys: tuple[ChangedKey, ...] = ()
) -> Document:
    """Return a document of a text; of a long one, there may be many, so each is packed at once."""
    return Document(packed(value) if len(text) > _LONG else Packed(value), line, changed_keys)


def read_stream(
    text: str, stand_in: str = "", allowance: Allowance | None = None
) -> tuple[list[Document], int]:
    """Return the documents that are not empty, and how many began with ``---``.

    ``stand_in`` replaces a colon, see ``without_flow_colons``. Raises YAMLFault at the
    first unsupported place, and ruamel's YAMLError where libyaml cannot continue.
    """
    builder = _Builder(text, stand_in, allowance or Allowance())
    documents: list[Document] = []
    marked = 0
    while (start := builder.take()) is not None:
        kind = type(start)
        if kind is StreamEndEvent:
            break
        if kind is not DocumentStartEvent:
            continue
        if start.version or start.tags:
            raise YAMLFault("YAML directives (%YAML, %TAG) are not supported", *place(start))
        marked += bool(start.explicit)
        first = builder.take()
        value = builder.document(first)
        builder.take()
        if value is not None:
            changed = builder.changed_keys(value)
            documents.append(document_of(value, first.start_mark.line + 1, text, changed))
    return documents, marked


_MERGED = "YAML readers disagree on whether << or the key wins; put << first, or remove either."


class _Builder:
    """Build one document after the other; all share the cache of scalars and the allowance."""

    def __init__(self, text: str, stand_in: str, allowance: Allowance) -> None:
        self.take = events(text)
        if stand_in:
            take = self.take
            self.take = lambda: _with_colons(take(), stand_in)
        self._plain: _ScalarCache[Scalar] = _ScalarCache(resolve_scalar)
        self._changes: list[str] = []
        # Not a method: a builder that refers to itself would keep its text until a collection.
        self._keys: _ScalarCache[str] = _ScalarCache(partial(_key, self._changes))
        self._anchors: dict[str, _Anchor] = {}
        self._allowance = allowance
        self._nodes = 0
        self._aliased = 0

    def document(self, first: Any) -> Any:
        """Return the value that begins with the event ``first``."""
        self._anchors = {}
        # Go counts the document as a node.
        self._nodes, self._aliased = 1, 0
        value = self._node(first, 1)
        try:
            self._allowance.take(self._nodes - self._aliased)
        except YAMLFault as refused:
            raise refused.at(*place(first)) from None
        return value

    def changed_keys(self, value: Any) -> tuple[ChangedKey, ...]:
        """Return the keys of a document that the YAML changes, in its order; take their memory."""
        if not self._changes:
            return ()
        found = tuple(_changed_keys(value, ()))
        self._allowance.take(sum(2 + len(one.place) for one in found))
        return found

    def _node(self, event: Any, depth: int) -> Any:
        """Return the value of any node; ``depth`` is its depth if it is a collection."""
        kind = type(event)
        try:
            if kind is AliasEvent:
                return self._alias(event, depth).value
            self._nodes += 1
            if event.anchor is None:
                return self._content(event, depth)
            anchor = self._anchors[event.anchor] = _Anchor()
            before = self._nodes - 1
            anchor.value = self._content(event, depth)
            anchor.nodes = self._nodes - before
            anchor.open = False
        except YAMLFault as refused:
            raise refused.at(*place(event)) from None
        else:
            return anchor.value

    def _content(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is ScalarEvent:
            if event.ctag is not None:
                return resolve_tagged(event.tag, event.value)
            return event.value if event.style else self._plain[event.value]
        if depth > MAX_DEPTH:
            raise YAMLFault(TOO_DEEP)
        if kind is MappingStartEvent:
            if event.ctag is not None:
                check_collection_tag(event.tag, "map")
            return self._mapping(depth)
        if event.ctag is not None:
            check_collection_tag(event.tag, "seq")
        return self._sequence(depth)

    def _sequence(self, depth: int) -> list[Any]:
        take, plain = self.take, self._plain
        result: list[Any] = []
        while True:
            event = take()
            kind = type(event)
            if kind is SequenceEndEvent:
                return result
            if kind is ScalarEvent and event.ctag is None and event.anchor is None:
                self._nodes += 1
                if event.style:
                    result.append(event.value)
                    continue
                try:
                    result.append(plain[event.value])
                except YAMLFault as refused:
                    raise refused.at(*place(event)) from None
            else:
                result.append(self._node(event, depth + 1))

    def _mapping(self, depth: int) -> dict[str, Any]:
        """Build a mapping: this is the hot loop, so other methods handle the rare cases.

        ``ctag`` is the tag as the event stores it. ``tag`` is a property: a call for each scalar.
        """
        take, plain, keys = self.take, self._plain, self._keys
        result: dict[str, Any] = {}
        merged: set[str] = set()
        while True:
            event = take()
            kind = type(event)
            if kind is MappingEndEvent:
                return result
            try:
                if kind is ScalarEvent and event.ctag is None and event.anchor is None:
                    if event.style:
                        key = event.value
                    elif event.value == _MERGE:
                        self._merge(take(), depth, result, merged)
                        continue
                    else:
                        key = keys[event.value]
                    self._nodes += 2
                else:
                    key = self._rare_key(event, depth)
                    self._nodes += 1
                if key in result:
                    _override(key, merged)
                event = take()
                if type(event) is ScalarEvent and event.ctag is None and event.anchor is None:
                    result[key] = event.value if event.style else plain[event.value]
                    continue
            except YAMLFault as refused:
                raise refused.at(*place(event)) from None
            self._nodes -= 1
            result[key] = self._node(event, depth + 1)

    def _rare_key(self, event: Any, depth: int) -> str:
        if type(event) is AliasEvent:
            value = self._alias(event, depth).value
        elif type(event) is not ScalarEvent:
            raise YAMLFault("a mapping or a list cannot be a key")
        elif event.value == _MERGE and not (event.ctag is None and event.style):
            raise YAMLFault("the key << cannot have a tag or an anchor")
        elif event.ctag is None and not event.style:
            # The anchor keeps the value, which may differ from the key: 1.0 has the value 1 and the
            # key "1".
            value = self._node(event, depth)
            return self._keys[event.value]
        else:
            value = self._node(event, depth)
        if not isinstance(value, str):
            if type(event) is AliasEvent:
                raise YAMLFault("an alias used as a key must refer to a string")
            key = key_text(value)
            return key if key == event.value else _changed(self._changes, key, event.value)
        return value

    def _merge(self, event: Any, depth: int, result: dict[str, Any], merged: set[str]) -> None:
        """Add what ``<<`` brings to ``result``, and its keys to ``merged``."""
        line, column = place(event)
        if type(event) is SequenceStartEvent:
            brought: dict[str, Any] = {}
            while type(event := self.take()) is not SequenceEndEvent:
                # Earlier mappings win: all readers share this rule.
                brought = {**self._merge_source(event, depth), **brought}
        else:
            brought = self._merge_source(event, depth)
        for key, value in brought.items():
            if key not in result:
                merged.add(key)
                result[key] = value
            elif not _same(result[key], value):  # guard: merge-overwrites-a-key never
                problem = f"<< overwrites the key {shown_key(key)}, which comes before it"
                raise YAMLFault(problem, line, column, hint=_MERGED)

    def _merge_source(self, event: Any, depth: int) -> dict[str, Any]:
        value = self._node(event, depth + 1)
        if not isinstance(value, dict):
            raise YAMLFault("<< needs a mapping or a list of mappings", *place(event))
        return value

    def _alias(self, event: Any, depth: int) -> _Anchor:
        """Return a copy of the node that an alias refers to; count its nodes as Go does."""
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            raise YAMLFault(
                "an alias refers to an anchor that is not defined before it in this document"
            )
        if anchor.open:
            raise YAMLFault("an alias is inside the node that it refers to")
        self._nodes += 1 + anchor.nodes
        self._aliased += anchor.nodes
        if (
            self._aliased > _FEW_ALIASED
            and self._nodes > _FEW_READ
            and self._aliased / self._nodes > _allowed_ratio(self._nodes)
        ):
            raise YAMLFault("the document contains excessive aliasing")
        if anchor.size is None:
            anchor.size = _height(anchor.value), _text(anchor.value)
        height, text = anchor.size
        self._allowance.take(anchor.nodes, text)
        if depth - 1 + height > MAX_DEPTH:
            raise YAMLFault(TOO_DEEP)
        return _Anchor(_copy(anchor.value))


class _Changed(str):
    """A key whose text in the file is another one; copies of a mapping keep it."""

    __slots__ = ("written",)
    written: str


def _key(changes: list[str], text: str) -> str:
    key = resolve_key(text)
    return key if key == text else _changed(changes, key, text)


def _changed(changes: list[str], key: str, written: str) -> str:
    """Return a key that remembers what stands in the text, which is another text; note it."""
    changes.append(written)
    changed = _Changed(key)
    changed.written = written
    return changed


def _changed_keys(value: Any, above: Field) -> Iterator[ChangedKey]:
    if isinstance(value, dict):
        for key, inner in value.items():
            place = (*above, str(key))
            if isinstance(key, _Changed):
                yield ChangedKey(place, key.written)
            yield from _changed_keys(inner, place)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _changed_keys(item, (*above, index))


_T = TypeVar("_T", bound=Scalar)
_LONGEST_REMEMBERED = 64


class _ScalarCache(dict[str, _T], Generic[_T]):
    """A cache of plain scalars and their values: most texts of a manifest occur many times."""

    __slots__ = ("_resolve",)

    def __init__(self, resolve_text: Callable[[str], _T]) -> None:
        super().__init__()
        self._resolve = resolve_text

    def __missing__(self, text: str) -> _T:
        value = self._resolve(text)
        if len(text) <= _LONGEST_REMEMBERED:
            self[text] = value
        return value


class _Anchor(Struct):
    """The node that an anchor names."""

    value: Any = None
    """The value of the node."""
    nodes: int = 0
    """How many nodes it contains."""
    size: tuple[int, int] | None = None
    """How many levels it has, and how many characters; None until an alias refers to it."""
    open: bool = True
    """Whether the end of the node has not been read yet."""


def place(event: Any) -> tuple[int, int]:
    """Return the line and column where an event begins, from 1."""
    return event.start_mark.line + 1, event.start_mark.column + 1


def _override(key: str, merged: set[str]) -> None:
    """Let a key override an earlier merge once: this is the purpose of merges."""
    if key not in merged:
        raise duplicate_key(key)
    merged.discard(key)


def duplicate_key(key: str) -> YAMLFault:
    """Return the fault of a key that occurs again."""
    hint = "kubectl would silently use the last value; remove the duplicate."
    return YAMLFault(f"duplicate key {shown_key(key)}", hint=hint)


def _with_colons(event: Any, stand_in: str) -> Any:
    if type(event) is ScalarEvent and stand_in in event.value:
        event.value = event.value.replace(stand_in, ":")
    return event


# Go's limit for alias bombs (yaml.v2, decode.go): the share of nodes that may come from aliases.
_FEW_ALIASED, _FEW_READ = 100, 1000
_RATIO_FALLS_FROM, _RATIO_FALLS_TO = 400_000, 4_000_000
_HIGHEST_RATIO, _LOWEST_RATIO = 0.99, 0.10


def _allowed_ratio(nodes: int) -> float:
    if nodes <= _RATIO_FALLS_FROM:
        return _HIGHEST_RATIO
    if nodes >= _RATIO_FALLS_TO:
        return _LOWEST_RATIO
    fallen = (nodes - _RATIO_FALLS_FROM) / (_RATIO_FALLS_TO - _RATIO_FALLS_FROM)
    return _HIGHEST_RATIO - (_HIGHEST_RATIO - _LOWEST_RATIO) * fallen


def _height(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_height, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_height, value), default=0)
    return 0


def _text(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _text(inner) for key, inner in value.items())
    return sum(map(_text, value)) if isinstance(value, list) else 0


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: to Python, true is 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value


def shown_key(key: str) -> str:
    """Return a key for a message: quoted, on one line, and short."""
    return ascii(key if len(key) <= 60 else f"{key[:57]}...")


# Read one scalar as Kubernetes does: by the rules of sigs.k8s.io/yaml, in part YAML 1.1.
#
# ``y`` and ``on`` are booleans and ``0777`` is 511, but ``1:30`` and ``2001-01-01`` are text.
# ``fixtures/yaml/go-parity.jsonl`` checks this against Go.


_TAG = "tag:yaml.org,2002:"
_STANDARD_TAGS = frozenset(
    {"binary", "bool", "float", "int", "map", "null", "omap", "pairs", "seq", "set", "str"}
    | {"timestamp", "merge", "value", "yaml"}
)
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = pattern(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0(?:[oO]([0-7]+)|([0-7]*))|([1-9][0-9]*))"
)
# A bug in Go's reader: the sign may also follow the 0b.
_SIGNED_BINARY = pattern(r"0b[-+][01]{1,63}")
_BASES = (16, 2, 8, 8, 10)
_DIGITS = pattern(r"[-+]?[0-9]+")
_FLOAT = pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = pattern(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
# The largest literal that fits has 64 binary digits; longer literals need no conversion.
_LONGEST_LITERAL = 66
# A float holds every integer up to here exactly.
_EXACT = 2**53
# From here on, Go also writes a float with an exponent.
_WRITTEN_OUT = 1e21
# Where Go's shortest "%g" changes from 0.0001 to 1e-05, and from 100000 to 1e+06.
_LEAST_PLAIN, _LEAST_SCIENTIFIC = -4, 6
_FLOAT32 = struct.Struct("f")
_LOSSY_KEY = "a float used as a key would lose digits"


def resolve_scalar(text: str) -> Scalar:
    """Return the value of a plain scalar without a tag; raise YAMLFault where JSON has no value."""
    value = _resolve(text)
    return json_number(value) if isinstance(value, float) else value


def resolve_key(text: str) -> str:
    """Return the JSON key for a plain scalar; raise YAMLFault where it cannot be a key."""
    return key_text(_resolve(text))


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with an explicit ``tag``, with or without quotes.

    Raises YAMLFault where text and tag disagree, and for every tag that is not a JSON type: Go
    ignores such tags, but the author meant something by them.
    """
    if tag in {"!", f"{_TAG}str"}:
        return text
    if tag == f"{_TAG}binary":
        return _decode_binary(text)
    value = _resolve(text)
    if tag == f"{_TAG}float" and isinstance(value, int | float) and not isinstance(value, bool):
        return json_number(float(value))
    kinds: dict[str, type] = {"int": int, "bool": bool, "null": type(None)}
    name = tag.removeprefix(_TAG)
    if not tag.startswith(_TAG) or name not in {*kinds, "float"}:
        raise _unknown_tag(tag)
    if type(value) is not kinds.get(name):
        raise YAMLFault(f"the value does not match its tag !!{name}")
    return value


def check_collection_tag(tag: str, expected: str) -> None:
    """Raise YAMLFault unless ``tag`` fits the collection: ``expected`` is ``map`` or ``seq``."""
    if tag not in {"!", f"{_TAG}{expected}"}:
        raise _unknown_tag(tag)


def _unknown_tag(tag: str) -> YAMLFault:
    # An unquoted value that begins with !, such as a password, is read as a tag: so the message
    # contains only YAML's own names.
    name = tag.removeprefix(_TAG)
    which = f" !!{name}" if tag.startswith(_TAG) and name in _STANDARD_TAGS else ""
    return YAMLFault(f"unsupported tag{which}", hint="Quote a string that begins with !.")


def _resolve(text: str) -> Scalar:
    """Resolve a plain scalar; keep an integral float as a float, and infinities and NaN."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first in "0123456789+-":
        return _resolve_number(text)
    if first == "." and _POINT_FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def _resolve_number(text: str) -> Scalar:
    """Read a scalar that begins like a number; it is text if it is not a number."""
    plain = text.replace("_", "")
    if match := _INTEGER.fullmatch(plain):
        sign = match[1]
        for digits, base in zip(match.groups()[1:], _BASES, strict=True):
            if digits is not None and len(digits) <= _LONGEST_LITERAL:
                value = int(digits or "0", base)
                value = -value if sign == "-" else value
                # Go tries an unsigned integer only without a sign.
                if _INT64_MIN <= value <= (_INT64_MAX if sign else _UINT64_MAX):
                    return value
    if _SIGNED_BINARY.fullmatch(plain):
        return int(plain.removeprefix("0b"), base=2)
    if _DIGITS.fullmatch(plain):
        # 08 and 0899 are not octal: Go reads them as floats, with the values 8 and 899.
        value = parse_integer(plain)
        if abs(value) > _EXACT:
            raise YAMLFault(
                "an integer that Go reads as a float would lose digits", hint="Quote it."
            )
        return float(value)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return number if math.isfinite(number) else text
    return text


def parse_integer(text: str) -> int:
    """Return the value of a decimal literal; YAMLFault beyond 64 bits: Go would lose digits."""
    if len(text) <= _LONGEST_LITERAL and _INT64_MIN <= (value := int(text)) <= _UINT64_MAX:
        return value
    raise YAMLFault(
        "an integer beyond 64 bits would lose digits", hint="Quote it if it is a string."
    )


def json_number(number: float) -> int | float:
    """Return ``number`` as Go's JSON writes it: an integral value below 1e21 as an integer."""
    if not math.isfinite(number):
        raise YAMLFault("JSON cannot represent infinity or NaN")
    if not number.is_integer() or abs(number) >= _WRITTEN_OUT:
        return number
    if abs(number) < _EXACT:
        return int(number)
    # The shortest digits that mean this number, padded with zeros: Go writes 1e19 + 2048 this way.
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    scale: int = 10 ** (int(exponent or 0) - len(fraction))
    return int(whole + fraction) * scale


def key_text(value: Scalar) -> str:
    """Return the JSON key that Go writes for ``value``; YAMLFault where Go or we reject it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise YAMLFault("null cannot be a key", hint="Quote it.")
    if isinstance(value, float):
        return _float_key(value)
    if value > _INT64_MAX:
        raise YAMLFault("an integer beyond 63 bits cannot be a key", hint="Quote it.")
    return str(value)


def _float_key(value: float) -> str:
    """Format a float as Go's ``strconv.FormatFloat(value, 'g', -1, 32)`` does.

    sigs.k8s.io/yaml uses 32 bits. A key that would lose digits is rejected.
    """
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    try:
        single = _as_float32(value)
    except OverflowError:
        raise YAMLFault(_LOSSY_KEY, hint="Quote it.") from None
    # The fewest digits that identify this number among the 32-bit floats; nine always suffice.
    digits = next(n for n in range(9) if _as_float32(float(f"{single:.{n}e}")) == single)
    scientific = f"{single:.{digits}e}"
    if float(scientific) != value:
        raise YAMLFault(_LOSSY_KEY, hint="Quote it.")
    exponent = int(scientific.partition("e")[2])
    if _LEAST_PLAIN <= exponent < _LEAST_SCIENTIFIC:
        return f"{value:.{max(0, digits - exponent)}f}"
    return scientific


def _as_float32(value: float) -> float:
    """Round to the nearest 32-bit float; raise OverflowError beyond the largest."""
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


def _decode_binary(text: str) -> str:
    """Return the text of a ``!!binary``; reject bytes that are not UTF-8: they would be lost."""
    try:
        raw = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        return raw.decode()
    except (binascii.Error, ValueError):
        raise YAMLFault("!!binary must be the base64 of UTF-8 text") from None


# Libyaml's events, through ruamel.yaml's C extension, and its errors in our words.
#
# Only events are used: ruamel's own loader takes five times as long and reads scalars by other
# rules.


_DROPPED = "kubectl would silently ignore it; start the next document with a line ---."
# libyaml's error for text after `...`, and for text that is indented less than the document.
_SECOND_DOCUMENT = "did not find expected <document start>"
_ADVICE = {
    "mapping values are not allowed in this context": (
        "Quote a string that contains a colon and a space, or check the indentation."
    ),
    "found unexpected end of stream": "A quote or a bracket is not closed.",
    "could not find expected ':'": "A key must be followed by a colon and a space.",
    "did not find expected key": "Check that the lines have the same indentation.",
    "found character that cannot start any token": "Quote a string that begins with @, ` or %.",
}
_FORBIDDEN = pattern("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# libyaml 0.1 (the extension contains it) rejects a colon inside an unquoted text in brackets, as in
# `args: [--listen=:80]`; later versions, and Go, read it as part of the text.
_COLON_PROBLEM = "found unexpected ':'"
# What replaces such a colon while libyaml reads; from the private-use areas of Unicode.
_STAND_INS = "\ue0c0\uf8c0\U0010fff0"
# A colon that does not end a key: text follows directly, and no delimiter precedes it.
_COLON_INSIDE = pattern(r"""(?<=[^\s,?\[\]{}"']):(?=\S)""")


def events(text: str) -> Callable[[], Any]:
    """Return a function that returns the next event of the stream on each call.

    It raises YAMLError, which ``yaml_fault`` translates. After the stream's end it returns None.
    """
    take: Callable[[], Any] = CParser(text).get_event
    return take


def yaml_fault(error: YAMLError, text: str) -> YAMLFault:
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
        return YAMLFault("tab used for indentation", line, column, hint="Indent with spaces.")
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


# The fault of a parser; ``load`` turns it into an ``InputError``.


class YAMLFault(Exception):
    """A fault in the text of the input.

    ``problem`` names keys and types, never a value: the text may be a Secret. ``line`` and
    ``column`` count from 1 within the given text; 0 if unknown. ``since`` is the line and column
    where the broken node begins; zeros if it is the same line.
    """

    def __init__(
        self,
        problem: str,
        line: int = 0,
        column: int = 0,
        *,
        since: tuple[int, int] = (0, 0),
        hint: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column
        self.since = since
        self.hint = hint

    def moved(self, lines: int, columns: int = 0) -> Self:
        """Return the fault relative to a larger text, in which this text begins further down.

        ``columns`` is the offset to the right; it applies only to the first line of this text.
        """
        line = self.line + lines if self.line else 0
        column = self.column + columns if self.column and self.line == 1 else self.column
        since = (self.since[0] + lines, self.since[1]) if self.since[0] else self.since
        return type(self)(self.problem, line, column, since=since, hint=self.hint)

    def at(self, line: int, column: int = 0) -> Self:
        """Return the fault with a place, unless its own place is known."""
        return self if self.line else type(self)(self.problem, line, column, hint=self.hint)


# What the documents of one load may take together: memory, and errors.
#
# A document of a few hundred bytes may stand for millions of values by its aliases, and a stream
# may have a hundred thousand documents. So no limit begins again with the next document or file.


MOST_MEMORY = 2**30
"""Bytes for all values of one load, by the measure below; 100,000 Deployments take 700 MB."""
_BYTES_PER_VALUE = 64


class AllowanceSpent(YAMLFault):
    """No further document of the load is read."""


class Allowance(Struct):
    """What is left for the rest of one load."""

    memory: int = MOST_MEMORY
    """Bytes: 64 for each mapping, list and scalar, the text of each alias, and the input itself."""
    errors: int = MOST_ERRORS
    _limit: int = 0
    _reported: int = 0

    def __post_init__(self) -> None:
        self._limit = self.memory

    @property
    def spent(self) -> bool:
        """Return whether nothing more is read."""
        return self.memory < 0 or self.errors <= 0

    def take(self, values: int, text: int = 0) -> None:
        """Take the memory for some values and their text; raise AllowanceSpent beyond the limit."""
        self.memory -= values * _BYTES_PER_VALUE + text
        if self.memory < 0:  # guard: memory-of-a-load never
            raise AllowanceSpent(
                f"the input is too large: up to here, with all aliases expanded, it takes more "
                f"than {self._limit >> 20} MiB of memory",
                hint="Write fewer or smaller aliases, or split the input into several sets.",
            )

    def take_error(self) -> None:
        """Count an error that is reported; raise AllowanceSpent after the last one."""
        self.errors -= 1
        self._reported += 1
        if self.errors <= 0:  # guard: errors-of-a-load never
            raise AllowanceSpent(
                f"there may be more errors than these {self._reported}", hint="Correct these first."
            )

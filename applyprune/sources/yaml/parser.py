"""Parse Kubernetes' YAML dialect: a stream of events → documents of plain JSON data.

Input that Go's reader accepts gets the value that Go gives it. The parser also rejects what Go
loses silently: duplicate keys (compared as text: 1 and "1" are the same key), a merge (``<<``)
that overwrites an earlier key, tags without a meaning in JSON, and integers beyond 64 bits. It
rejects nesting beyond 100 levels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

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

from applyprune.sources.yaml.allowance import Allowance
from applyprune.sources.yaml.error import YAMLFault
from applyprune.sources.yaml.libyaml import events
from applyprune.sources.yaml.scalars import (
    Scalar,
    check_collection_tag,
    key_text,
    resolve_key,
    resolve_scalar,
    resolve_tagged,
)
from applyprune.values import Packed, dataclass, packed

MAX_DEPTH = 100
"""How deep mappings and sequences may nest; Kubernetes objects stay below 40."""

TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

_MERGE = "<<"
_LONGEST_REMEMBERED = 64

# Go's limit for alias bombs (yaml.v2, decode.go): the share of nodes that may come from aliases.
_FEW_ALIASED, _FEW_READ = 100, 1000
_RATIO_FALLS_FROM, _RATIO_FALLS_TO = 400_000, 4_000_000
_HIGHEST_RATIO, _LOWEST_RATIO = 0.99, 0.10

_LONG = 2**20
_T = TypeVar("_T", bound=Scalar)


@dataclass(frozen=True, slots=True)
class Document:
    """One document that is not empty."""

    packed: Packed
    """The plain JSON data."""
    line: int
    """The line of the text in which the document begins, from 1."""

    @property
    def value(self) -> Any:
        """Return the plain JSON data."""
        return self.packed.value


def document_of(value: Any, line: int, text: str) -> Document:
    """Return a document of a text; of a long one, there may be many, so each is packed at once."""
    return Document(packed(value) if len(text) > _LONG else Packed(value), line)


class _Remembered(dict[str, _T], Generic[_T]):
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


@dataclass(slots=True)
class _Anchor:
    """The node that an anchor names."""

    value: Any = None
    """The value of the node."""
    nodes: int = 0
    """How many nodes it contains."""
    size: tuple[int, int] | None = None
    """How many levels it has, and how many characters; None until an alias refers to it."""
    open: bool = True
    """Whether the end of the node has not been read yet."""


def read_stream(
    text: str, stand_in: str = "", allowance: Allowance | None = None
) -> tuple[list[Document], int]:
    """Return the documents that are not empty, and how many began with ``---``.

    ``stand_in`` replaces a colon, see ``libyaml.without_flow_colons``. Raises YAMLFault at the
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
            documents.append(document_of(value, first.start_mark.line + 1, text))
    return documents, marked


_SELF = "an alias is inside the node that it refers to"
_BOMB = "the document contains excessive aliasing"
_TWICE = "kubectl would silently use the last value; remove the duplicate."
_MERGED = "YAML readers disagree on whether << or the key wins; put << first, or remove either."


class _Builder:
    """Build one document after the other; all share the cache of scalars and the allowance."""

    def __init__(self, text: str, stand_in: str, allowance: Allowance) -> None:
        self.take = events(text)
        if stand_in:
            take = self.take
            self.take = lambda: _with_colons(take(), stand_in)
        self._plain: _Remembered[Scalar] = _Remembered(resolve_scalar)
        self._keys: _Remembered[str] = _Remembered(resolve_key)
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
            return key_text(value)
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
        if clash := next((key for key in brought if key in result), None):
            problem = f"<< overwrites the key {shown(clash)}, which comes before it"
            raise YAMLFault(problem, line, column, hint=_MERGED)
        result.update(brought)
        merged.update(brought)

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
            raise YAMLFault(_SELF)
        self._nodes += 1 + anchor.nodes
        self._aliased += anchor.nodes
        if (
            self._aliased > _FEW_ALIASED
            and self._nodes > _FEW_READ
            and self._aliased / self._nodes > _allowed_ratio(self._nodes)
        ):
            raise YAMLFault(_BOMB)
        if anchor.size is None:
            anchor.size = _height(anchor.value), _text(anchor.value)
        height, text = anchor.size
        self._allowance.take(anchor.nodes, text)
        if depth - 1 + height > MAX_DEPTH:
            raise YAMLFault(TOO_DEEP)
        return _Anchor(_copy(anchor.value))


def place(event: Any) -> tuple[int, int]:
    """Return the line and column where an event begins, from 1."""
    return event.start_mark.line + 1, event.start_mark.column + 1


def _override(key: str, merged: set[str]) -> None:
    """Let a key override an earlier merge once: this is the purpose of merges."""
    if key not in merged:
        raise YAMLFault(f"duplicate key {shown(key)}", hint=_TWICE)
    merged.discard(key)


def _with_colons(event: Any, stand_in: str) -> Any:
    if type(event) is ScalarEvent and stand_in in event.value:
        event.value = event.value.replace(stand_in, ":")
    return event


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


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value


def shown(key: str) -> str:
    """Return a key for a message: quoted, on one line, and short."""
    return ascii(key if len(key) <= 60 else f"{key[:57]}...")

"""Read the syntax tree of a compiled CEL expression from its serialized form.

The library hands out the tree only as a ``cel.expr.CheckedExpr`` of protobuf. Few of its fields are
needed, so they are read here; the numbers are those of cel-spec's ``syntax.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from applyprune.values import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; ``text`` is that of a string."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of a value, or the test whether it exists."""

    operand: Node
    field: str
    is_test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator; the receiver of a method is the first argument."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """A list, a map or a message that is written out; ``parts`` are its keys and values."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """What a macro such as ``all`` or ``map`` stands for: a fold over a list or a map."""

    variables: tuple[str, ...]
    over: Node
    result_name: str
    begin: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = Constant | Name | Select | Call | Collection | Loop

_Fields: TypeAlias = Mapping[int, Sequence["int | bytes"]]


def syntax_tree(serialized: bytes) -> Node:
    """Return the tree in a serialized expression; raise ValueError if it cannot be read."""
    # An Any, its value; a CheckedExpr, its expr.
    try:
        return _node(_message(_message(serialized), 2, 4))
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("its syntax tree cannot be read") from error


def _node(expr: _Fields) -> Node:
    if 3 in expr:
        constant = _message(expr, 3)
        return Constant(_text(constant, 6) or _text(constant, 7))
    if 4 in expr:
        return Name(_text(_message(expr, 4), 1))
    if 5 in expr:
        select = _message(expr, 5)
        return Select(_node(_message(select, 1)), _text(select, 2), 3 in select)
    if 6 in expr:
        call = _message(expr, 6)
        arguments = [*_messages(call, 1), *_messages(call, 3)]
        return Call(_text(call, 2), tuple(map(_node, arguments)))
    if 7 in expr:
        return Collection(tuple(map(_node, _messages(_message(expr, 7), 1))))
    if 8 in expr:
        entries = _messages(_message(expr, 8), 2)
        found = [part for entry in entries for part in (*_messages(entry, 3), _message(entry, 4))]
        return Collection(tuple(map(_node, found)))
    if 9 in expr:
        return _loop(_message(expr, 9))
    raise ValueError("its syntax tree has an unknown part")


def _loop(fold: _Fields) -> Loop:
    return Loop(
        variables=tuple(filter(None, (_text(fold, 1), _text(fold, 8)))),
        over=_node(_message(fold, 2)),
        result_name=_text(fold, 3),
        begin=_node(_message(fold, 4)),
        condition=_node(_message(fold, 5)),
        step=_node(_message(fold, 6)),
        result=_node(_message(fold, 7)),
    )


def _message(of: bytes | _Fields, *path: int) -> _Fields:
    fields = _fields(of) if isinstance(of, bytes) else of
    for number in path:
        fields = _messages(fields, number)[0]
    return fields


def _messages(fields: _Fields, number: int) -> list[_Fields]:
    return [_fields(one) for one in fields.get(number, ()) if isinstance(one, bytes)]


def _text(fields: _Fields, number: int) -> str:
    value = fields.get(number, (b"",))[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _fields(data: bytes) -> _Fields:
    """Return the values of a message by the numbers of their fields."""
    found: dict[int, list[int | bytes]] = {}
    reader = _Reader(data)
    for number, value in reader.fields():
        found.setdefault(number, []).append(value)
    return found


class _Reader:
    """Reads protobuf's wire format."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int | bytes]]:
        while self._at < len(self._data):
            key = self._varint()
            number, kind = key >> 3, key & 7
            if kind == 0:
                yield number, self._varint()
            elif kind == 2:
                yield number, self._take(self._varint())
            elif kind in {1, 5}:
                yield number, self._take(8 if kind == 1 else 4)
            else:
                raise ValueError("its syntax tree cannot be read")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _take(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        return self._data[start : self._at]

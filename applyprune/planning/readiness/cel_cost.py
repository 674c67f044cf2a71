"""Bound what the evaluation of a CEL expression costs on one value, before it begins.

The library limits the depth of an expression and the iterations of its macros, but not the memory:
lists and strings that a macro builds grow with each iteration, and one evaluation holds the
interpreter. The bound follows from the expression and from the lengths in the value. It is the idea
of the cost limit that the API server has for CEL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from applyprune.planning.readiness.cel_syntax import (
    Call,
    Collection,
    Constant,
    Loop,
    Name,
    Node,
    Select,
)
from applyprune.values import dataclass, field

MOST_COST = 50_000_000
"""Bytes written or read by one evaluation, about: it takes a fraction of a second then."""

_ITERATIONS = 10_000
"""The library's own limit for all macros of one evaluation."""
_STEP = 64
_SLOT = 32
_REGEX = 100_000
"""What it costs to compile a regular expression."""
_NUMBER = 400
"""The most characters that a number has as text."""
_VALUE = 16
_FIELDS_PER_BYTE = 8
_MOST_KNOWN = 1000
_MOST_VISITS = 20_000


@dataclass(frozen=True, slots=True)
class Size:
    """What a value cannot exceed."""

    items: int = 0
    """The length of the longest list or map in it."""
    text: int = 0
    """The length of the longest string in it."""
    total: int = _VALUE
    """The characters of all strings in it, and a few more for each value."""

    def __or__(self, other: Size) -> Size:
        return Size(
            max(self.items, other.items), max(self.text, other.text), max(self.total, other.total)
        )

    def __add__(self, other: Size) -> Size:
        return Size(self.items + other.items, self.text + other.text, self.total + other.total)


_SCALAR = Size()
_EMPTY = Collection(())


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may return: one of some known values, or anything up to a size."""

    size: Size = _SCALAR
    known: tuple[Any, ...] | None = None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SCALARS = _words("_&&_ _||_ !_ @not_strictly_false -_ _-_ _*_ _/_ _%_ type hasValue optional.none")
"""They look at no text and at no list."""
_PASSING = _words(
    "dyn value orValue or optional.of optional.ofNonZeroValue optional.unwrap unwrap unwrapOpt "
    "first last"
)
"""They return one of their arguments, or a part of it."""
_COMPARING = _words("_==_ _!=_ _<_ _<=_ _>_ _>=_")
_INDEXING = _words("_[_] _[?_] _?._")
_READING = _words(
    "size startsWith endsWith int uint double bool timestamp duration getDate getDayOfMonth "
    "getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds"
)
"""They read their arguments once, and return a number or a bool."""
_SEARCHING = _words("contains indexOf lastIndexOf matches")
_COPYING = _words("string bytes charAt lowerAscii upperAscii substring trim reverse strings.quote")
"""They return a text that is not much longer than their arguments."""
_BUILDING = _words("_+_ join split replace format")
_KNOWN = frozenset(
    {"_?_:_", "@in", *_SCALARS, *_PASSING, *_COMPARING, *_INDEXING, *_READING, *_SEARCHING}
    | _COPYING
    | _BUILDING
)


def unknown_in(node: Node) -> str:
    """Return a function of an expression whose cost is unknown; empty if there is none."""
    parts: Iterable[Node] = ()
    match node:
        case Select(operand=operand):
            parts = (operand,)
        case Call(function=function, arguments=parts):
            if function not in _KNOWN:
                return function
        case Collection(parts=parts):
            pass
        case Loop():
            # What only names a value, or what a macro makes: a result that begins with @.
            is_macro = node.result_name.startswith("@") and (
                isinstance(node.begin, Constant) or node.begin == _EMPTY
            )
            if not is_macro and node.over != _EMPTY:
                return node.result_name
            parts = (node.over, node.begin, node.condition, node.step, node.result)
        case _:
            pass
    return next(filter(None, map(unknown_in, parts)), "")


def cost_of(expression: Node, value: Any) -> int:
    """Return the most that an evaluation may cost with ``value`` as ``self``."""
    estimate = _Estimate()
    try:
        estimate.value(expression, {"self": Value(known=(value,))}, 1)
    except (_TooLong, RecursionError):
        return MOST_COST + 1
    return estimate.cost


class _TooLong(Exception):
    """The estimate itself takes too long."""


@dataclass(slots=True)
class _Estimate:
    """Adds up what each part of an expression costs, times how often it is evaluated."""

    cost: int = 0
    _visits: int = 0
    _measured: dict[int, Size] = field(default_factory=dict)

    def value(self, node: Node, names: Mapping[str, Value], times: int) -> Value:
        """Return the bound of a part's value, and add its cost."""
        self._visits += 1
        if self._visits > _MOST_VISITS:
            raise _TooLong
        self.cost += _STEP * times
        match node:
            case Constant(text=text):
                return Value(known=(text,))
            case Name(name=name):
                return names.get(name, Value())
            case Select(operand=operand, field=name, is_test=is_test):
                within = self.value(operand, names, times)
                self.cost += _length(within) // _FIELDS_PER_BYTE * times
                return Value() if is_test else _selected(within, name)
            case Collection(parts=parts):
                sizes = [self._size(self.value(part, names, times)) for part in parts]
                self.cost += _SLOT * len(parts) * times
                inner = _largest(sizes)
                total = _VALUE + sum(size.total for size in sizes)
                return Value(Size(max(inner.items, len(parts)), inner.text, total))
            case Call(function="_[_]" | "_[?_]" | "_?._", arguments=(operand, Constant(text=name))):
                # Another index than a text may be that of any item.
                within = self.value(operand, names, times)
                return _selected(within, name) if name else self._element(within)
            case Call(function=function, arguments=arguments):
                found = [self.value(argument, names, times) for argument in arguments]
                return self._call(function, found, times)
            case Loop():
                return self._loop(node, names, times)

    def _call(self, function: str, found: list[Value], times: int) -> Value:
        if function in _INDEXING:
            return self._element(found[0])
        if function in _SCALARS:
            return Value()
        sizes = [self._size(value) for value in found]
        if function == "_?_:_":
            return Value(sizes[1] | sizes[2])
        if function in _PASSING:
            return Value(_largest(sizes))
        work, result = _work(function, sizes)
        self.cost += work * times
        return Value(result)

    def _loop(self, node: Loop, names: Mapping[str, Value], times: int) -> Value:
        over = self.value(node.over, names, times)
        begin = self.value(node.begin, names, times)
        length = 0 if node.over == _EMPTY else _length(over)
        self.cost += _SLOT * length * times
        inside = {**names, **dict.fromkeys(node.variables, self._element(over))}
        inside[node.result_name] = begin
        if count := min(length, _ITERATIONS):
            if node.begin == _EMPTY:
                # Only macros build loops, and each iteration of theirs adds one item or none.
                before = self.cost
                added = self._size(self.value(node.step, inside, 0))
                self.cost = before
                end = Size(max(count, added.items), added.text, added.total * count)
                inside[node.result_name] = Value(end)
            iterations = min(times * count, _ITERATIONS)
            self.value(node.condition, inside, iterations)
            self.value(node.step, inside, iterations)
        return self.value(node.result, inside, times)

    def _element(self, value: Value) -> Value:
        """Return what any item of a list, or any key or value of a map, may be."""
        if value.known is None:
            return value
        items: list[Any] = []
        for one in value.known:
            if isinstance(one, dict):
                items += [*one, *one.values()]
            elif isinstance(one, list):
                items += one
        if len(items) <= _MOST_KNOWN:
            return Value(known=tuple(items))
        return Value(self._sizes(items)[0])

    def _size(self, value: Value) -> Size:
        if value.known is None:
            return value.size
        return self._sizes(value.known)[0]

    def _sizes(self, values: Iterable[Any]) -> tuple[Size, int]:
        """Return what none of some values exceeds, and the sum of their totals.

        There may be a million, so this does not call anything for a number or a string.
        """
        items = text = largest = every = 0
        for value in values:
            if isinstance(value, str | bytes):
                text = max(text, len(value))
                total = len(value) + _VALUE
            elif isinstance(value, dict | list):
                size = self._collection(value)
                items, text, total = max(items, size.items), max(text, size.text), size.total
            else:
                total = _VALUE
            largest = max(largest, total)
            every += total
        return Size(items, text, largest), every

    def _collection(self, value: dict[str, Any] | list[Any]) -> Size:
        if (measured := self._measured.get(id(value))) is not None:
            return measured
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        inner, every = self._sizes(parts)
        size = Size(max(inner.items, len(value)), inner.text, every + _VALUE)
        self._measured[id(value)] = size
        return size


def _work(function: str, sizes: list[Size]) -> tuple[int, Size]:
    """Return the cost of a call, and the size of its result."""
    first, texts = sizes[0], [size.text for size in sizes]
    everything = sum(size.total for size in sizes)
    if function in _COMPARING:
        return min(size.total for size in sizes), _SCALAR
    if function in _SEARCHING:
        # The search for a text may begin again at each of its characters.
        regex = _REGEX if function == "matches" else 0
        return regex + everything + (texts[0] + 1) * (texts[1] + 1), _SCALAR
    if function in _READING or function == "@in":
        return everything, _SCALAR
    if function == "_+_":
        added = _largest((first + sizes[1],))
        return _SLOT * added.items + added.text, added
    if function == "split":
        count = texts[0] + 1
        return _STEP * count * (texts[1] + 1), Size(count, texts[0], (_VALUE + 1) * count)
    if function in _COPYING:
        text = 6 * max(texts) + _NUMBER
    elif function == "join":
        text = first.items * (first.text + max(texts[1:], default=0))
    elif function == "replace":
        text = texts[0] + (texts[0] + 1) * (texts[1] + texts[2] + 1)
    else:
        text = _NUMBER * everything
    return text, Size(0, text, text + _VALUE)


def _selected(value: Value, name: str) -> Value:
    if value.known is None:
        return value
    return Value(
        known=tuple(one[name] for one in value.known if isinstance(one, dict) and name in one)
    )


def _largest(sizes: Iterable[Size]) -> Size:
    largest = _SCALAR
    for size in sizes:
        largest |= size
    return largest


def _length(value: Value) -> int:
    if value.known is None:
        return value.size.items
    return max((len(one) for one in value.known if isinstance(one, dict | list)), default=0)

"""Evaluate a user's readiness rule for a custom kind: CEL (cel.dev), bounded before it begins.

``self`` is the object, as in a CRD's validation rules. The library is the CEL team's own, over
their C++ implementation; it checks names and types before anything is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from applyprune.errors import InputError, UsageError
from applyprune.model.events import Readiness, current, failed, in_progress
from applyprune.model.live import one_line
from applyprune.values import dataclass, field

_SELF = "self"
_QUOTED = 200
_LONGEST = 10_000
_LONGEST_ERROR = 300
# The library puts this code before and after an error.
_CODE = "INVALID_ARGUMENT"
_TOO_COSTLY = "LIMIT: it would cost too much memory or time on an object of this size"
_TOO_MANY = "LIMIT: its loops would take more than 10,000 steps on an object of this size"
_ITERATED = "Iteration budget exceeded"
_ABSENT = ("Key not found", "Index error")


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule."""

    text: str
    """The CEL expression."""
    where: str
    """The place that it was read from."""
    _expression: Any = field(repr=False, compare=False)
    _tree: Node = field(repr=False, compare=False)

    def holds(self, value: Any) -> bool | None:
        """Return whether the rule holds for a value; None if it cannot be evaluated."""
        kind, result = self._evaluated(value)
        return bool(result) if kind == "BOOL" else None

    def judge(self, body: Mapping[str, Any]) -> Readiness:
        """Return Current for true, InProgress for false or for a rule that cannot be evaluated yet.

        A missing field is not a failure: the controller will write it. A result that is not a bool
        is a failure: no later state of the object changes that.
        """
        kind, value = self._evaluated(body)
        if kind == "BOOL":
            if value:
                return current(f"the rule {self._quoted} holds")
            return in_progress(f"the rule {self._quoted} does not hold yet")
        if kind != "ERROR":
            return failed(f"the rule {self._quoted} returns {_article(kind)}, not a bool")
        return in_progress(f"the rule {self._quoted} cannot be evaluated yet{_why(value, body)}")

    def _evaluated(self, value: Any) -> tuple[str, Any]:
        """Return the type of the result, and the result if it is a bool; for ERROR, its text."""
        if cost_of(self._tree, value) > MOST_COST:  # guard: rule-cost
            return "ERROR", _TOO_COSTLY
        try:
            result = self._expression.eval(data={_SELF: value})
            kind = result.type().name()
            # Another value may share its parts a million times: it is never written out.
            return kind, result.value() if kind in {"BOOL", "ERROR"} else None
        except (RuntimeError, TypeError, ValueError) as error:
            if _ITERATED in str(error):
                return "ERROR", _TOO_MANY
            # C++ cannot represent the value, such as a lone surrogate; the error would show it.
            return "ERROR", "the object has a value that CEL cannot represent"

    @property
    def _quoted(self) -> str:
        return _quote(self.text)


def _why(error: object, body: Mapping[str, Any]) -> str:
    # An error may quote computed values, which may be values of a Secret.
    if body.get("kind") == "Secret":
        return ""
    code, _, message = one_line(str(error)[:_LONGEST_ERROR]).partition(": ")
    if any(message.startswith(words) for words in _ABSENT):
        return f": {message.replace(' : ', ': ')}"
    return f": {message or code}"


def compile_rule(text: str, *, where: str) -> Rule:
    """Compile a CEL expression; raise InputError if it is invalid or cannot return a bool."""
    try:
        # Imported here: most runs have no rule, and the library has 50 MB of C++.
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional, ext_strings
    except ImportError as error:
        raise UsageError(
            "ready-when rules are not available",
            location=where,
            reason=f"the package cel-expr-python is not installed ({error})",
            hint="Run: pip install 'applyprune[cel]'. There are wheels for Linux with glibc, macOS "
            "and Windows on x86_64 and arm64.",
        ) from error
    # Kubernetes' own rules have these two extensions too: `self.?status.?phase.orValue('')`.
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    environment = cel.NewEnv(variables={_SELF: cel.Type.DYN}, extensions=extensions)
    if len(text) > _LONGEST:  # guard: longest-rule
        raise _refused(text, where, f"it is longer than {_LONGEST} characters")
    try:
        expression = environment.compile(text)
    except TypeError as error:
        raise _refused(text, where, "it contains invalid characters") from error
    except RuntimeError as error:
        raise _refused(text, where, _reason(str(error))) from error
    kind = expression.return_type().name()
    if kind not in {"BOOL", "DYN"}:
        raise _refused(text, where, f"it returns {_article(kind)}, not a bool")
    try:
        tree = syntax_tree(expression.serialize())
    except (RuntimeError, ValueError) as error:
        raise _refused(text, where, str(error)) from error
    if unknown := unknown_in(tree):
        raise _refused(text, where, f"applyprune does not know what {unknown} costs")
    return Rule(text, where, expression, tree)


def _refused(text: str, where: str, reason: str) -> InputError:
    return InputError(
        f"the rule {_quote(text)} is not a CEL expression that returns a bool",
        location=where,
        reason=reason,
        hint="The live object is self: self.status.phase == 'Ready'. See cel.dev.",
    )


def _quote(text: str) -> str:
    line = one_line(text)
    return f"“{line[:_QUOTED]}…”" if len(line) > _QUOTED else f"“{line}”"


def _reason(error: str) -> str:
    """Return the library's message without its codes and its drawing of the place."""
    first = error.removeprefix(f"{_CODE}: ").partition("\n")[0]
    return one_line(
        first.removeprefix("ERROR: ")
        .removeprefix("<input>:")
        .removesuffix(f"[{_CODE}]")
        .removesuffix(" (in container '')")
    )


def _article(kind: str) -> str:
    name = kind.lower()
    return f"an {name}" if name.startswith(("i", "e", "a", "o", "u")) else f"a {name}"


# The syntax tree of a compiled expression. The library hands it out only as a serialized
# `cel.expr.CheckedExpr`; the numbers of its fields are those of cel-spec's `syntax.proto`.


_Fields: TypeAlias = Mapping[int, Sequence["int | bytes"]]


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


def _text(fields: _Fields, number: int) -> str:
    value = fields.get(number, (b"",))[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _message(of: bytes | _Fields, *path: int) -> _Fields:
    fields = _fields(of) if isinstance(of, bytes) else of
    for number in path:
        fields = _messages(fields, number)[0]
    return fields


def _messages(fields: _Fields, number: int) -> list[_Fields]:
    return [_fields(one) for one in fields.get(number, ()) if isinstance(one, bytes)]


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


# What an evaluation costs on one value, known before it begins.
#
# The library limits the depth of an expression and the iterations of its macros, but not the
# memory, and one evaluation holds the interpreter. The API server bounds CEL in the same way.


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
_EMPTY = Collection(())


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


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may return: one of some known values, or anything up to a size."""

    size: Size = _SCALAR
    known: tuple[Any, ...] | None = None


class _TooLong(Exception):
    """The estimate itself takes too long."""


def cost_of(expression: Node, value: Any) -> int:
    """Return the most that an evaluation may cost with ``value`` as ``self``."""
    estimate = _Estimate()
    try:
        estimate.value(expression, {"self": Value(known=(value,))}, 1)
    except (_TooLong, RecursionError):
        return MOST_COST + 1
    return estimate.cost


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


def _length(value: Value) -> int:
    if value.known is None:
        return value.size.items
    return max((len(one) for one in value.known if isinstance(one, dict | list)), default=0)


def _selected(value: Value, name: str) -> Value:
    if value.known is None:
        return value
    return Value(
        known=tuple(one[name] for one in value.known if isinstance(one, dict) and name in one)
    )


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


def _largest(sizes: Iterable[Size]) -> Size:
    largest = _SCALAR
    for size in sizes:
        largest |= size
    return largest


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

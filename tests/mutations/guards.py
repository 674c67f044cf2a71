"""The guards of the package: each is named once, where it stands, with how it is taken out.

``# guard: NAME [ACTION] [with NAME]`` stands at the end of a line, or alone above a statement. It
marks the largest node that lies wholly on its line: the test of an ``if`` or a ``while``, an ``if``
of a comprehension, an operand, an argument, an item of a display, an exception type, what a ``for``
or a ``with`` is about, or a statement. If none does, it marks the statement that begins there.
The action takes the guard out:

``never``, ``always``
    A test is false, or true. It must say which.
``drop``
    An operand, an argument, an item or a statement goes. That is the default.
``-> CODE``
    An expression or a simple statement stands in its place. An expression is the new right-hand
    side of an assignment, and what a ``return`` returns.
``with NAME``
    Another guard goes at the same time: one alone changes nothing.

A test that fails without the guard has ``@pytest.mark.holds("NAME")``.
"""

from __future__ import annotations

import ast
import re
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
_MARK = re.compile(
    r"# guard: (?P<name>[a-z][a-z-]*)(?: (?P<action>never|always|drop|-> .+?))?"
    r"(?: with (?P<also>[a-z-]+))?$"
)
_COMPOUND: Final = (
    ast.If, ast.While, ast.For, ast.With, ast.Try, ast.Match, ast.FunctionDef, ast.ClassDef,
)  # fmt: skip
_DROPPED: Final = {"statement", "exception", "operand", "argument", "item"}


class WrongMark(ValueError):
    """A mark that says nothing, or two things."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A mark in a module."""

    name: str
    action: str
    """Empty for the default."""
    also: str
    """The guard that is taken out with it; empty for none."""
    module: str
    """The path of its module, from the root of the project."""
    line: int
    """The marked line, from 1: that of the comment, or the one below it."""
    is_above: bool
    """Whether the comment stands alone above a statement."""


@cache
def guards() -> Mapping[str, Guard]:
    """Return the guards of the package by name; raises WrongMark."""
    found: dict[str, Guard] = {}
    for path in sorted((ROOT / "applyprune").rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        for guard in marks(path.read_text(encoding="utf-8"), module):
            if guard.name in found:
                raise WrongMark(f"two guards are named {guard.name}")
            found[guard.name] = guard
    return found


def marks(source: str, module: str) -> Iterator[Guard]:
    """Yield the guards of a module; raises WrongMark."""
    for number, line in enumerate(source.splitlines(), 1):
        if "# guard:" not in line:
            continue
        found = _MARK.search(line)
        if found is None:
            raise WrongMark(f"{module}:{number}: {line.strip()}")
        above = line.strip().startswith("#")
        action, also = found["action"] or "", found["also"] or ""
        yield Guard(found["name"], action, also, module, number + above, above)


def taken_out_with(guard: Guard) -> list[Guard]:
    """Return what is taken out for a guard: itself, and the one that it names."""
    return [guard, *([guards()[guard.also]] if guard.also else [])]


def without(source: str, guards: Iterable[Guard]) -> str:
    """Return a module's source without some of its guards, line for line; raises WrongMark."""
    # From the last line up: the positions above stay.
    for guard in sorted(guards, key=lambda one: -one.line):
        source = _without(source, guard)
    return source


def _without(source: str, guard: Guard) -> str:
    tree = ast.parse(source)
    spot = _marked(tree, guard)
    change = _change(spot, guard)
    if ast.dump(change) == ast.dump(spot.whole):
        raise WrongMark(f"{guard.name}: nothing changes without it")
    new = _written(source, spot.whole, ast.unparse(change))
    expected = _Swap(spot.whole, change).visit(tree)
    if ast.dump(ast.parse(new)) != ast.dump(expected):
        raise WrongMark(f"{guard.name}: more than the marked node would change")
    return new


def _written(source: str, node: ast.expr | ast.stmt, code: str) -> str:
    """Return a source with other code in the place of a node, and as many lines."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
    more = "\n" * (node.end_lineno - node.lineno)
    code = f"({code}{more})" if isinstance(node, ast.expr) else code + more
    text = first[: node.col_offset] + code.encode() + last[node.end_col_offset :]
    lines[node.lineno - 1 : node.end_lineno] = [text]
    return b"".join(lines).decode()


class _Swap(ast.NodeTransformer):
    """Another node in the place of one."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        """Return what stands in the place of a node."""
        return self._new if node is self._old else self.generic_visit(node)


# The marked node.


@dataclass(frozen=True, slots=True)
class _Spot:
    """A node that a mark may mean."""

    role: str
    node: ast.AST
    whole: ast.expr | ast.stmt
    """What is written anew: the node itself, or the expression that it is a part of."""
    begin: tuple[int, int]
    end: tuple[int, int]
    header_of: int = 0
    """The line of the statement in whose header it stands."""
    at: int = 0
    """Which part of the whole it is."""

    def holds(self, other: _Spot) -> bool:
        """Return whether another one lies in it."""
        return self.begin <= other.begin and other.end <= self.end


def _spot(role: str, node: Any, whole: ast.expr | ast.stmt, **facts: Any) -> _Spot:
    begin, end = facts.pop("span", (node, node))
    return _Spot(
        role,
        node,
        whole,
        (begin.lineno, begin.col_offset),
        (end.end_lineno, end.end_col_offset),
        **facts,
    )


def _marked(tree: ast.Module, guard: Guard) -> _Spot:
    """Return the node that a mark means; raises WrongMark."""
    spots = list(_spots(tree, guard.line))
    starting = [spot for spot in spots if _starts(spot, guard.line)]
    if guard.is_above and starting:
        return starting[0]
    on_line = [spot for spot in spots if spot.begin[0] == spot.end[0] == guard.line]
    largest: list[_Spot] = []
    # An outer node comes first, and before an inner one of the same extent.
    for spot in on_line:
        if not any(other.holds(spot) for other in largest):
            largest.append(spot)
    if len(largest) > 1:
        raise WrongMark(f"{guard.name}: {len(largest)} nodes of line {guard.line} may be meant")
    found = largest or starting
    if not found:
        raise WrongMark(f"{guard.name}: nothing on line {guard.line} can be taken out")
    return found[0]


def _starts(spot: _Spot, line: int) -> bool:
    """Return whether it is the statement that begins on a line, or stands in its header."""
    return spot.header_of == line or (spot.role == "statement" and spot.begin[0] == line)


def _spots(node: ast.AST, line: int) -> Iterator[_Spot]:
    """Yield what a mark of a line may mean, outer nodes first."""
    yield from _spots_of(node)
    for inner in ast.iter_child_nodes(node):
        is_elsewhere = not getattr(inner, "lineno", 0) <= line <= getattr(inner, "end_lineno", line)
        # Python 3.11 does not know what lies where in an f-string.
        if not (is_elsewhere or isinstance(inner, ast.JoinedStr)):
            yield from _spots(inner, line)


def _spots_of(node: ast.AST) -> Iterator[_Spot]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield _spot("test", test, test, header_of=node.lineno)
        case ast.For(iter=values):
            yield _spot("header", values, values, header_of=node.lineno)
        case ast.With(items=items):
            for context in (one.context_expr for one in items):
                yield _spot("header", context, context, header_of=node.lineno)
        case ast.stmt() if not isinstance(node, _COMPOUND):
            yield _spot("statement", node, node)
        case ast.comprehension(ifs=tests):
            for one in tests:
                yield _spot("test", one, one)
        case ast.ExceptHandler(type=ast.expr() as error):
            yield _spot("exception", error, error)
        case ast.expr():
            yield from _spots_in(node)


def _spots_in(node: ast.expr) -> Iterator[_Spot]:
    match node:
        case ast.IfExp(test=test):
            yield _spot("test", test, test)
        case ast.BoolOp(values=parts):
            yield from _parts("operand", node, parts)
        case ast.Call(args=parts, keywords=named):
            yield from _parts("argument", node, [*parts, *named])
        case ast.List(elts=parts) | ast.Set(elts=parts) | ast.Tuple(elts=parts, ctx=ast.Load()):
            yield from _parts("item", node, parts)
        case ast.Dict(keys=keys, values=parts):
            for at, (key, value) in enumerate(zip(keys, parts, strict=True)):
                yield _spot("item", value, node, span=(key or value, value), at=at)


def _parts(role: str, whole: ast.expr, parts: Sequence[ast.AST]) -> Iterator[_Spot]:
    for at, one in enumerate(parts):
        yield _spot(role, one, whole, at=at)


# What stands in its place.


def _change(spot: _Spot, guard: Guard) -> ast.expr | ast.stmt:
    """Return what is written in the place of the whole; raises WrongMark."""
    action = guard.action or "drop"
    if action in {"never", "always"} and isinstance(spot.node, ast.expr):
        return _decided(spot, ast.Constant(action == "always"))
    if action == "drop" and spot.role in _DROPPED:
        return _without_part(spot)
    if action.startswith("-> "):
        return _replacement(spot, action.removeprefix("-> "), guard)
    raise WrongMark(f"{guard.name}: {action} says nothing about the {spot.role} on its line")


def _decided(spot: _Spot, answer: ast.Constant) -> ast.expr | ast.stmt:
    """Return the whole with a test that has one answer; what the test names is still known."""
    test = spot.node
    assert isinstance(test, ast.expr)
    if any(isinstance(one, ast.NamedExpr) for one in ast.walk(test)):
        asked = ast.BoolOp(ast.Or() if answer.value else ast.And(), [test, answer])
        return _with_part(spot, asked)
    return _with_part(spot, answer)


def _replacement(spot: _Spot, code: str, guard: Guard) -> ast.expr | ast.stmt:
    parsed = ast.parse(code).body
    if len(parsed) != 1 or isinstance(parsed[0], _COMPOUND):
        raise WrongMark(f"{guard.name}: {code} is not one expression or simple statement")
    new = parsed[0]
    if not isinstance(new, ast.Expr):
        if spot.role != "statement":
            raise WrongMark(f"{guard.name}: {code} is not an expression")
        return new
    if isinstance(spot.node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return):
        changed = copy(spot.node)
        changed.value = new.value
        return changed
    return new if spot.role == "statement" else _with_part(spot, new.value)


def _with_part(spot: _Spot, new: ast.expr) -> ast.expr | ast.stmt:
    """Return the whole with another node in the place of the marked one."""
    if spot.node is spot.whole:
        return new
    if isinstance(spot.node, ast.keyword):
        return _edited(spot, [ast.keyword(spot.node.arg, new)])
    return _edited(spot, [new])


def _without_part(spot: _Spot) -> ast.expr | ast.stmt:
    """Return the whole without the marked node."""
    if spot.role == "statement":
        return ast.Pass()
    if spot.role == "exception":
        return ast.Tuple([], ast.Load())
    changed = _edited(spot, [])
    if isinstance(changed, ast.BoolOp) and len(changed.values) == 1:
        return changed.values[0]
    return changed


def _edited(spot: _Spot, parts: list[Any]) -> ast.expr | ast.stmt:
    """Return a copy of the whole with these in the place of the marked part."""
    changed = copy(spot.whole)
    part = slice(spot.at, spot.at + 1)
    match changed:
        case ast.BoolOp():
            changed.values = [*changed.values]
            changed.values[part] = parts
        case ast.Call():
            both: list[Any] = [*changed.args, *changed.keywords]
            both[part] = parts
            changed.args = [one for one in both if not isinstance(one, ast.keyword)]
            changed.keywords = [one for one in both if isinstance(one, ast.keyword)]
        case ast.Dict():
            changed.keys, changed.values = [*changed.keys], [*changed.values]
            changed.values[part] = parts
            changed.keys[part] = changed.keys[part][: len(parts)]
        case ast.List() | ast.Set() | ast.Tuple():
            changed.elts = [*changed.elts]
            changed.elts[part] = parts
    return changed

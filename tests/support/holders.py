"""Which tests hold which guard: ``@pytest.mark.holds("NAME")``.

The mark is on a test, or on one row of its table (``pytest.param``). Where the rows are not written
out, ``row`` is the id of one: ``@pytest.mark.holds("NAME", row="the id")``. Each test with the mark
fails by an assertion of its own if the guard is taken out: see ``tests/mutations/guards.py``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
ANY = "any"


def held_by(item: pytest.Item) -> frozenset[str]:
    """Return the guards that a test holds."""
    row = _row(item)
    marks = [mark for mark in item.iter_markers("holds") if mark.kwargs.get("row", row) == row]
    return frozenset(guard for mark in marks for guard in mark.args)


def holders(items: Iterable[pytest.Item], guard: str) -> list[pytest.Item]:
    """Return the tests that hold a guard, or any; raises UsageError for a row that is not there."""
    rows: dict[tuple[str, str], bool] = defaultdict(bool)
    found = []
    for item in items:
        for mark in item.iter_markers("holds"):
            named = mark.kwargs.get("row")
            if named is not None:
                rows[item.nodeid.partition("[")[0], named] |= named == _row(item)
        held = held_by(item)
        if guard in held or (guard == ANY and held):
            found.append(item)
    wrong = [f"{test} has no row {row}" for (test, row), is_there in rows.items() if not is_there]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))
    return found


def _row(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else str(callspec.id)


@cache
def files_of_guards() -> Mapping[str, list[str]]:
    """Return the files whose tests hold each guard."""
    found: dict[str, set[str]] = defaultdict(set)
    for file, tree in marked_files():
        for guard in _named_in(tree):
            found[guard].add(file)
    return {guard: sorted(files) for guard, files in found.items()}


def marked_files() -> Iterator[tuple[str, ast.Module]]:
    """Yield each file of tests that has such marks, parsed, in the order of their names."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if ".holds(" in text:
            yield path.relative_to(ROOT).as_posix(), ast.parse(text)


def _named_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="holds"), args=names):
                yield from (str(one.value) for one in names if isinstance(one, ast.Constant))

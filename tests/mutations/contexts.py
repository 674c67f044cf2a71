"""``python -m tests.mutations.contexts [ARGUMENT…]``: which test executes which line and branch.

It runs pytest with the arguments, or the whole suite, and writes ``build/coverage`` (SQLite) with a
context for each test. pytest-cov does that rather than coverage's own ``test_function``: a context
is then a node id, each case of a table has its own, and the fixtures of a test count as the test.

Not measured is what runs in another process: workers of the controller, and commands. A line in a
thread counts as the test that runs at the time, and what is cached as the first that asks for it.
"""

from __future__ import annotations

import ast
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutations.guards import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DATABASE = ROOT / "build" / "coverage"
_EACH_ARC = """
SELECT path, fromno, tono, max(context_id IN (SELECT id FROM named)),
  max(context_id NOT IN (SELECT id FROM named))
FROM arc JOIN file ON file.id = file_id
GROUP BY file_id, fromno, tono
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A line that only some tests execute; or a branch: the way from a line to another one."""

    module: str
    line: int
    to: int | None = None

    def __str__(self) -> str:
        """Return it as editors do: ``applyprune/values.py:12 → 14``."""
        if self.to is None:
            return f"{self.module}:{self.line}"
        return f"{self.module}:{self.line} → {self.to if self.to > 0 else 'exit'}"


def main(arguments: Sequence[str]) -> int:
    """Run pytest under coverage; return its exit code."""
    DATABASE.parent.mkdir(exist_ok=True)
    parallel = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    coverage = ("--cov=applyprune", "--cov-branch", "--cov-context=test", "--cov-report=")
    command = [sys.executable, "-m", "pytest", "-q", *parallel, *coverage, *arguments]
    environment = {**os.environ, "COVERAGE_FILE": str(DATABASE)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def test_of(context: str) -> str:
    """Return the test of a context: ``NODE-ID|run``. What runs at import has none."""
    return context.rpartition("|")[0]


def is_part_of(test: str, named: str) -> bool:
    """Whether a test is the named one, a case of it, or in the named file or folder."""
    return test == named or test.startswith((f"{named}[", f"{named}::", f"{named.rstrip('/')}/"))


def tests_in(database: Path) -> set[str]:
    """Return the tests that were measured."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT context FROM context")
        return {test_of(context) for (context,) in found} - {""}


def executing(database: Path, module: str, lines: range) -> set[str]:
    """Return the tests that execute one of the lines."""
    query = """
        SELECT DISTINCT context FROM arc JOIN context ON context.id = context_id
        WHERE file_id = (SELECT id FROM file WHERE path LIKE ?)
        AND (tono BETWEEN ? AND ? OR fromno BETWEEN ? AND ?)
    """
    bounds = (lines.start, lines.stop - 1)
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute(query, (f"%/{module}", *bounds, *bounds))
        return {test_of(context) for (context,) in found} - {""}


def executed_by(database: Path, is_named: Callable[[str], bool]) -> dict[str, set[int]]:
    """Return the lines of each module that the tests execute."""
    found: dict[str, set[int]] = defaultdict(set)
    for module, start, end, is_own, _ in _arcs(database, is_named):
        if is_own:
            found[module] |= {start, end}
    return found


def only_executed_by(database: Path, is_named: Callable[[str], bool]) -> list[Place]:
    """Return the lines and branches in functions that no other test executes."""
    own: dict[str, set[tuple[int, int]]] = defaultdict(set)
    others: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for module, start, end, is_own, is_others in _arcs(database, is_named):
        if is_others:
            others[module].add((start, end))
        elif is_own:
            own[module].add((start, end))
    return [place for module in sorted(own) for place in _places(module, own, others)]


def _arcs(
    database: Path, is_named: Callable[[str], bool]
) -> Iterator[tuple[str, int, int, bool, bool]]:
    """Yield each way from a line to another: whether the tests go it, and whether others do."""
    with closing(sqlite3.connect(database)) as connection:
        contexts = connection.execute("SELECT id, context FROM context").fetchall()
        connection.execute("CREATE TEMP TABLE named (id INTEGER PRIMARY KEY)")
        named = [(key,) for key, context in contexts if is_named(test_of(context))]
        connection.executemany("INSERT INTO named VALUES (?)", named)
        for path, *arc in connection.execute(_EACH_ARC):
            start, end, is_own, is_others = arc
            yield f"applyprune/{path.rpartition('/applyprune/')[2]}", start, end, is_own, is_others


def _places(
    module: str,
    own: dict[str, set[tuple[int, int]]],
    others: dict[str, set[tuple[int, int]]],
) -> list[Place]:
    in_functions = lines_in_functions((ROOT / module).read_text(encoding="utf-8"))
    held = {line for arc in others[module] for line in arc}
    lines = {line for arc in own[module] for line in arc if line > 0} - held
    branches = [(start, end) for start, end in own[module] if start in held and end not in lines]
    places = [Place(module, line) for line in lines]
    places += [Place(module, start, end) for start, end in branches if start > 0]
    places = [one for one in places if one.line in in_functions]
    return sorted(places, key=lambda one: (one.line, one.to or 0))


def lines_in_functions(source: str) -> set[int]:
    """Return the lines that no import executes."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, functions)
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    }


def statement(source: str, line: int) -> range:
    """Return the lines of the statement that a line belongs to; of a block, its first lines."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or 0
            lines = range(node.lineno, max(node.lineno, last) + 1)
            # An inner one comes after the outer one.
            found = lines if line in lines else found
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

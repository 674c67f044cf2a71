"""The law of reasons: a test that takes long says why."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.durations import Record

ROOT = Path(__file__).parents[2]
REASON = "Slow: "


def test_slow_test_says_why_it_takes_that_long() -> None:
    """In a sentence of its docstring; the record is that of the last recorded run."""
    silent = [name for name in Record.read().slow if REASON not in _docstring(name)]
    assert silent == []


def _docstring(name: str) -> str:
    file, _, rest = name.partition("::")
    if not (ROOT / file).exists():
        return REASON  # it was merged into another since
    function = rest.rpartition("::")[2]
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return ast.get_docstring(node) or ""
    return REASON  # it was renamed since

"""What tests share is in ``tests/support``: nobody looks for a helper in a test module."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def _imports(path: Path) -> set[str]:
    """Return every module that a file imports, and every name that may be one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{'.' * node.level}{node.module or ''}"
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def test_no_module_imports_a_test_module_or_a_conftest() -> None:
    """Renaming or deleting a test must not break another one."""
    wrong = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in sorted(_imports(path))
        if name.startswith(("tests.", "."))
        and any(part == "conftest" or part.startswith("test_") for part in name.split("."))
    ]
    assert wrong == []


def test_support_has_no_tests() -> None:
    """A test there would run in no folder that a person thinks of."""
    names = [path.name for path in (TESTS / "support").rglob("*.py")]
    assert names != []
    assert [name for name in names if name.startswith("test_") or name == "conftest.py"] == []

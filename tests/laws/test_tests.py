"""Tests can be read and moved: shared code is in ``tests/support``, a name says what holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from applyprune.model.kinds import KINDS
from tests.support.targets import LINT, STORIES

TESTS = Path(__file__).parents[1]
FILLER = re.compile(r"test_(a|an|the|what|who|whose|it|its|this|there)_")
OLD_WORDS = re.compile(r"(abandon|anew|bears|is_none|is_told|let_go|newcomer|stands)")


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


def test_test_modules_and_conftests_are_never_imported() -> None:
    """Renaming or deleting a test must not break another one."""
    wrong = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in sorted(_imports(path))
        if name.startswith(("tests.", "."))
        and any(part == "conftest" or part.startswith("test_") for part in name.split("."))
    ]
    assert wrong == []


def test_support_contains_no_tests() -> None:
    """A test there would run in no folder that a person thinks of."""
    names = [path.name for path in (TESTS / "support").rglob("*.py")]
    assert names != []
    assert [name for name in names if name.startswith("test_") or name == "conftest.py"] == []


def test_names_of_tests_begin_with_their_subject() -> None:
    """``test_<subject>_<behaviour>``, so that a list of failures reads as a list of facts."""
    wrong = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and (FILLER.match(node.name) or OLD_WORDS.search(node.name))
    ]
    assert wrong == []


def test_files_of_targets_exist() -> None:
    """A file that was moved would be in `make test` again."""
    named = (*LINT, *STORIES)
    assert [path for path in named if not (TESTS.parent / path).exists()] == []


NO_KINDS = re.compile(
    "[A-Z]+|Accept|Cluster|ConfigMapp|Delete|Forbidden|Ignore|Lease|Never|NodePort|None"
    "|ReadWriteOnce|Recreate|True|Webhook"
)
"""Other words that are written like the kind of a CRD."""


def test_kinds_of_crds_are_of_one_file() -> None:
    """The files of a process share a plane, where a CRD stays and belongs to the set that made it.

    Which files meet there is chance.
    """
    files: dict[str, set[str]] = {}
    for path in sorted((TESTS / "stories").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        if "tests.support.objects.crd" not in _imports(path):
            continue
        for node in ast.walk(tree):
            word = node.value if isinstance(node, ast.Constant) else None
            if isinstance(word, str) and re.fullmatch(r"[A-Z][A-Za-z]+", word):
                files.setdefault(word, set()).add(path.name)
    assert "Joint" in files
    built_in = {one.kind for one in KINDS}
    wrong = {
        kind: sorted(names)
        for kind, names in files.items()
        if len(names) > 1 and kind not in built_in and not NO_KINDS.fullmatch(kind)
    }
    assert wrong == {}

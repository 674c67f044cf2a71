"""The output is a contract of its own: it does not change when a class gets another name."""

from __future__ import annotations

import ast
import io
import os
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

from applyprune.output.json import KEYS
from tests.support.output.printed import FILES, FIXTURES

ROOT = Path(__file__).parents[4]
PRINT = """
import sys
from tests.support.output.printed import printed
sys.stdout.write(printed(sys.argv[1]))
"""


def test_renamed_class_changes_no_output(tmp_path: Path) -> None:
    """In a copy of the program every class that is shown gets a new name; nobody can tell."""
    new_names = {kind.__name__: f"Renamed{number}" for number, kind in enumerate(KEYS)}
    _copy(ROOT / "applyprune", tmp_path / "applyprune", new_names)
    _copy(ROOT / "tests" / "support", tmp_path / "tests" / "support", new_names)
    (tmp_path / "tests" / "__init__.py").touch()
    renamed = (tmp_path / "applyprune" / "model" / "events.py").read_text(encoding="utf-8")
    classes = {one.name for one in ast.parse(renamed).body if isinstance(one, ast.ClassDef)}
    assert not classes & new_names.keys()
    for form in ("json", "jsonl"):
        ended = subprocess.run(
            [sys.executable, "-c", PRINT, form],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert ended.stderr == ""
        assert ended.stdout == (FIXTURES / FILES[form]).read_text(encoding="utf-8")


def _copy(source: Path, target: Path, new_names: dict[str, str]) -> None:
    """Copy a folder, with classes renamed wherever the code, not a text, names them."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for file in target.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        # From the end of each line, so that what is before stays where it is.
        for token in reversed(list(tokens)):
            if token.type == tokenize.NAME and token.string in new_names:
                row, start, end = token.start[0] - 1, token.start[1], token.end[1]
                lines[row] = lines[row][:start] + new_names[token.string] + lines[row][end:]
        file.write_text("".join(lines), encoding="utf-8")

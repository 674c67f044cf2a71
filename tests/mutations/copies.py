"""A copy of the project without a guard, and Python in it."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.waiting import HANG_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mutations.mutations import Mutation

ROOT = Path(__file__).parents[2]
HANG = "60"
"""Seconds after which a test gives up that waits for what does not come without the guard."""
GUARD = re.compile(r"# guard: ([a-z-]+)$", re.MULTILINE)
_SECONDS = itertools.count(1)
"""Each is the time of one change."""
COPIED = ("applyprune", "tests", "fixtures", "deploy", "pyproject.toml")


def copy(folder: Path) -> Path:
    """Copy what the tests need."""
    leftovers = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=leftovers)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def python(
    folder: Path, *arguments: str, within: float | None = 300, hang: str = HANG
) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy; the copied package takes precedence over the installed one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PY")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        # As on a build server, so that pytest does not cut its summary to the terminal's width.
        env={**environment, "CI": "true", HANG_VARIABLE: hang},
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


@contextmanager
def taken_out(folder: Path, mutation: Mutation) -> Iterator[None]:
    """Change the marked lines in a copy, and give it back as it was.

    The times of the files are those of before as well: their bytecode counts again.
    """
    paths = {guard: source_of(folder, guard) for guard in mutation.guards}
    sound = {path: (path.stat(), read(path)) for path in paths.values()}
    for guard, path in paths.items():
        path.write_text(without(read(path), guard, mutation), encoding="utf-8")
        # Python knows bytecode by the second and the size of its source: two guards of one module
        # may be taken out in the same second, and leave the same size.
        second = next(_SECONDS)
        os.utime(path, (second, second))
    try:
        yield
    finally:
        for path, (stat, source) in sound.items():
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def sources(folder: Path) -> list[Path]:
    """Return the modules of the package."""
    return sorted((folder / "applyprune").rglob("*.py"))


def read(path: Path) -> str:
    """Return what a module says."""
    return path.read_text(encoding="utf-8")


def source_of(folder: Path, guard: str) -> Path:
    """Return the module that has the mark."""
    (path,) = [path for path in sources(folder) if guard in GUARD.findall(read(path))]
    return path


def marked_line(source: str, guard: str) -> int:
    """Return the index of the line that a mark is on, or stands above."""
    lines = source.splitlines()
    (at,) = [at for at, line in enumerate(lines) if guard in GUARD.findall(line)]
    return at + 1 if lines[at].strip().startswith("#") else at


def without(source: str, guard: str, mutation: Mutation) -> str:
    """Return a module's source with the marked line changed, and the same number of lines."""
    lines = source.splitlines(keepends=True)
    at = marked_line(source, guard)
    found = re.fullmatch(r"(\s*)(.*?)(\s*#.*)?\n", lines[at])
    assert found is not None
    code = re.sub(mutation.pattern, mutation.replacement, found[2], count=1)
    lines[at] = f"{found[1]}{code}{found[3] or ''}\n"
    return "".join(lines)

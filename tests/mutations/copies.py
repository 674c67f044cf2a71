"""A copy of the project without a guard, and Python in it."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.mutations.guards import ROOT, taken_out_with, without
from tests.support.waiting import HANG_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mutations.guards import Guard

HANG = "60"
"""Seconds after which a test gives up that waits for what does not come without the guard."""
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
def taken_out(folder: Path, guard: Guard) -> Iterator[None]:
    """Take a guard out in a copy, and give it back as it was.

    The times of the files are those of before as well: their bytecode counts again.
    """
    parts = taken_out_with(guard)
    sound = {path: (path.stat(), read(path)) for path in {folder / one.module for one in parts}}
    for path, (_, source) in sound.items():
        own = [one for one in parts if folder / one.module == path]
        path.write_text(without(source, own), encoding="utf-8")
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


def read(path: Path) -> str:
    """Return what a module says."""
    return path.read_text(encoding="utf-8")

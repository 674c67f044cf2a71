"""``python -m tests.oracle.freeze COMMIT``: keep the planner of a commit as ``planner.zip``."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("planner.zip")
NAME = "frozen_planner"
PARTS = ("_version.py", "clock.py", "errors.py", "model", "planning", "values.py")
_IMPORT = re.compile(r"^(\s*(?:from|import) )applyprune\b", re.MULTILINE)
_WHEN = (2026, 1, 1, 0, 0, 0)


def freeze(commit: str) -> None:
    """Write the archive; the same commit gives the same bytes."""
    listed = _git(
        "ls-tree", "-r", "--name-only", commit, "--", *(f"applyprune/{one}" for one in PARTS)
    )
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in ["applyprune/__init__.py", *listed.split()]:
            text = "" if path == "applyprune/__init__.py" else _git("show", f"{commit}:{path}")
            renamed = _IMPORT.sub(rf"\1{NAME}", text)
            archive.writestr(
                zipfile.ZipInfo(path.replace("applyprune", NAME, 1), _WHEN),
                renamed,
                zipfile.ZIP_DEFLATED,
            )


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    freeze(sys.argv[1])

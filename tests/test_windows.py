"""Native Windows: one error, before anything is imported that is missing there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ERROR = (
    "applyprune does not run on Windows: it needs the file locks, process groups and limits of "
    "Linux or macOS\n  Run it in WSL, the Windows Subsystem for Linux.\n"
)
# Python runs this before anything else.
AS_WINDOWS = """
import sys
sys.platform = "win32"
for name in ("_posixsubprocess", "fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # an import of it fails
"""
SCRIPTS = Path(sys.executable).parent
COMMANDS = (
    (sys.executable, "-m", "applyprune", "version"),
    (SCRIPTS / "applyprune", "diff", "web"),
    (SCRIPTS / "kubectl-applyprune", "--help"),
    (SCRIPTS / "kubectl_complete-applyprune", ""),
)
IMPORTS = ("applyprune", "applyprune.api.sets", "applyprune.system.processes")


def as_windows(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(AS_WINDOWS)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environ = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_command_ends_with_an_error_that_says_what_to_do(
    tmp_path: Path, command: tuple[str | Path, ...]
) -> None:
    """In the form of all others, and with the code of a wrong call: 1 would mean differences."""
    reply = as_windows(tmp_path, *command)
    assert (reply.returncode, reply.stdout, reply.stderr) == (2, "", f"error: {ERROR}")


@pytest.mark.parametrize("name", IMPORTS)
def test_import_fails_with_the_same_words(tmp_path: Path, name: str) -> None:
    """A program may go on without applyprune."""
    code = f"try:\n    import {name}\nexcept ImportError as error:\n    print(error)"
    reply = as_windows(tmp_path, sys.executable, "-c", code)
    assert (reply.returncode, reply.stdout, reply.stderr) == (0, ERROR, "")

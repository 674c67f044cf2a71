"""A terminal with few characters: no text that it lacks ends a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NAME = "łü😀"
BROKEN = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {NAME}, nonsense: {NAME}}}\ndata: [\n"
GOOD = f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: "{NAME}"}}\n'
NARROW = ("cp1252", "cp437", "ascii")


def run(folder: Path, *arguments: str, encoding: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a folder whose streams have that encoding, and refuse what it lacks."""
    return subprocess.run(
        [sys.executable, "-m", "applyprune", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONIOENCODING": f"{encoding}:strict",
            "PYTHONUTF8": "0",
            "KUBECONFIG": str(folder / "none"),
        },
        cwd=folder,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("encoding", NARROW)
def test_help_is_printed(tmp_path: Path, encoding: str) -> None:
    """``apply --help`` has an ellipsis, which cp437 lacks; click writes UTF-8 in place of ASCII."""
    reply = run(tmp_path, "apply", "--help", encoding=encoding)
    assert (reply.returncode, reply.stderr) == (0, b"")
    assert reply.stdout.startswith(b"Usage: applyprune apply")


@pytest.mark.parametrize("encoding", NARROW)
def test_error_with_other_characters_is_printed(tmp_path: Path, encoding: str) -> None:
    """The name of a file, and its text."""
    (tmp_path / f"{NAME}.yaml").write_text(BROKEN, encoding="utf-8")
    reply = run(tmp_path, "push", "oci://h/x:1", "-f", ".", "--dry-run", encoding=encoding)
    assert (reply.returncode, reply.stdout) == (2, b"")
    shown = NAME.encode(encoding, "backslashreplace").decode(encoding)
    assert f"{shown}.yaml:4" in reply.stderr.decode(encoding)
    assert "UnicodeEncodeError" not in reply.stderr.decode(encoding)


@pytest.mark.parametrize("encoding", NARROW)
def test_wrong_call_with_other_characters_is_printed(tmp_path: Path, encoding: str) -> None:
    """What the user typed is in the message."""
    reply = run(tmp_path, "apply", "web", f"--{NAME}", encoding=encoding)
    assert reply.returncode == 2
    assert reply.stderr.startswith(b"error: ")
    assert b"--\\u0142" in reply.stderr


@pytest.mark.parametrize("encoding", NARROW)
def test_json_stays_json(tmp_path: Path, encoding: str) -> None:
    """Its own escapes are what every reader knows."""
    (tmp_path / f"{NAME}.yaml").write_text(BROKEN, encoding="utf-8")
    call = ("plan", "web", "-f", f"{NAME}.yaml", "-o", "json")
    reply = run(tmp_path, *call, encoding=encoding)
    document = json.loads(reply.stdout or b"null")
    assert f"{NAME}.yaml" in json.dumps(document, ensure_ascii=False)


def test_written_files_are_utf_8(tmp_path: Path) -> None:
    """Whatever the terminal has: other programs read them."""
    (tmp_path / f"{NAME}.yaml").write_text(GOOD, encoding="utf-8")
    reply = run(tmp_path, "init", "web", "-f", f"{NAME}.yaml", encoding="cp1252")
    assert reply.returncode == 0, reply.stderr
    assert NAME in (tmp_path / "applyprune.yaml").read_text(encoding="utf-8")

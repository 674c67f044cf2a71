"""The file that a command starts on Windows, as kubectl finds it there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from applyprune.system.processes import (
    command_line,
    fault_for_batch_file,
    find_program,
    windows_files,
)

FOLDER = r"C:\Users\me\.kube"
SEARCHED = {"PATH": r'C:\bin;.;;"C:\Program Files\x";tools', "PATHEXT": ".EXE;.CMD"}
FILES = (
    ("aws", [r"C:\bin\aws.exe", r"C:\bin\aws.cmd", r"C:\Program Files\x\aws.exe"]),
    ("aws.exe", [r"C:\bin\aws.exe", r"C:\bin\aws.exe.exe"]),
    ("AWS.EXE", [r"C:\bin\AWS.EXE", r"C:\bin\AWS.EXE.exe"]),
    # Not an extension of a program: the file with it comes first, and only.
    ("tool.v2", [r"C:\bin\tool.v2.exe", r"C:\bin\tool.v2.cmd"]),
    (r".\bin\login", [rf"{FOLDER}\bin\login.exe", rf"{FOLDER}\bin\login.cmd"]),
    ("bin/login.cmd", [rf"{FOLDER}\bin\login.cmd", rf"{FOLDER}\bin\login.cmd.exe"]),
    (r"D:\login.exe", [r"D:\login.exe", r"D:\login.exe.exe"]),
    (r"\\host\share\login.cmd", [r"\\host\share\login.cmd"]),
)
ARGUMENTS = (
    (r"C:\bin\login.exe", ["a&b", '"'], ""),
    (r"C:\bin\login.cmd", ["get-token", "--id", "a b=c"], ""),
    (r"C:\bin\login.CMD", ["get-token", "a&calc"], "'&' in argument 2"),
    (r"C:\bin\login.bat", ["%PATH%"], "'%' in argument 1"),
    (r"C:\bin\login.bat", ['a"b'], "'\"' in argument 1"),
    (r"C:\bin\login.bat", ["a\nb"], "'\\n' in argument 1"),
)


@pytest.mark.parametrize(("command", "files"), FILES, ids=[one for one, _ in FILES])
def test_command_of_windows_is_looked_for_in_order(command: str, files: list[str]) -> None:
    """Extensions are tried in turn, and a relative folder of PATH is never looked into."""
    found = list(windows_files(command, FOLDER, SEARCHED))
    assert found[: len(files)] == files
    assert [one for one in found if "tools" in one or one.startswith((".", "a"))] == []


def test_command_of_windows_has_the_usual_extensions() -> None:
    """Where PATHEXT is not set."""
    found = list(windows_files("x", FOLDER, {"PATH": r"C:\b"}))
    assert found == [rf"C:\b\x{one}" for one in (".com", ".exe", ".bat", ".cmd")]


@pytest.mark.parametrize(("program", "arguments", "fault"), ARGUMENTS)
def test_batch_file_gets_its_arguments_as_they_are_or_is_not_run(
    program: str, arguments: list[str], fault: str
) -> None:
    """A program of the kubeconfig must not start another one by an argument."""
    found = fault_for_batch_file(program, arguments)
    assert found.endswith(fault) if fault else found == ""


def test_command_stays_as_it_is_elsewhere(tmp_path: Path) -> None:
    """The system looks for it, in its own way."""
    assert command_line(["aws", "a&b"], tmp_path, {}) == ["aws", "a&b"]


def test_program_is_found_in_the_path(tmp_path: Path) -> None:
    """A file that may be run."""
    (tmp_path / "tool").touch(mode=0o755)
    (tmp_path / "text").touch(mode=0o644)
    environ = {"PATH": os.pathsep.join(["/nonexistent", str(tmp_path)])}
    assert find_program("tool", environ) == str(tmp_path / "tool")
    assert find_program("text", environ) is None

"""Errors that nobody foresaw: their kind and place are told, never their words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from applyprune.cli.crash import BUG
from applyprune.cli.main import exit_code_of


def _because(error: Exception, cause: Exception) -> Exception:
    error.__context__ = cause
    return error


ACCIDENTS: dict[str, tuple[Exception, int, str]] = {
    "a mistake": (ValueError("hunter2"), BUG, "ValueError at "),
    "too deep": (RecursionError("hunter2"), BUG, "RecursionError at "),
    "no memory": (MemoryError(), 3, "out of memory"),
    "no memory for the system": (OSError(12, "Cannot allocate memory"), 3, "out of memory"),
    "no memory for a thread": (RuntimeError("can't start new thread"), 3, "out of memory"),
    "no memory for a module": (
        ImportError("x.so: failed to map segment from shared object"),
        3,
        "out of memory",
    ),
    "no memory before": (_because(SystemError("hunter2"), MemoryError()), 3, "out of memory"),
    "a full disk": (OSError(28, "No space left on device"), 3, "No space left on device"),
}


@pytest.mark.parametrize("name", ACCIDENTS)
def test_unforeseen_error_is_reported_as_a_bug(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind of error and its place, to be reported; never its words, they may be a secret."""
    error, code, words = ACCIDENTS[name]

    def work() -> int:
        raise error

    assert exit_code_of(work) == code
    said = capsys.readouterr().err
    assert words in said
    assert "hunter2" not in said
    assert "Traceback" not in said


def test_current_folder_that_is_gone_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the command does with a relative path; a file that is gone is another thing."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()

    def missing() -> int:
        return len(Path("a.yaml").read_text(encoding="utf-8"))

    assert exit_code_of(lambda: len(os.path.realpath("a.yaml"))) == 2
    assert "error: the current folder no longer exists\n" in capsys.readouterr().err
    assert exit_code_of(missing) == BUG


def test_traceback_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an environment variable that the message names."""
    monkeypatch.setenv("APPLYPRUNE_TRACEBACK", "1")
    error, _, _ = ACCIDENTS["a mistake"]

    def work() -> int:
        raise error

    assert exit_code_of(work) == BUG
    assert "Traceback (most recent call last)" in capsys.readouterr().err

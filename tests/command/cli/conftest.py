"""A working directory of the test's own, and no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.cli.main import cli, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; the kubeconfig that counts is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return tmp_path


@pytest.fixture
def wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls in this process that end with 2 and without data; they return the error."""

    def call(*words: str) -> str:
        assert exit_code_of(lambda: cli.main(list(words), "applyprune", standalone_mode=False)) == 2
        told = capsys.readouterr()
        assert (told.out, "Traceback" in told.err) == ("", False)
        return told.err

    return call

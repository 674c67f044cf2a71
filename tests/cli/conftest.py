"""A working directory of the test's own, and no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from applyprune.cli.main import cli, exit_code_of

if TYPE_CHECKING:
    from pathlib import Path


class Wrong(Protocol):
    """Returns what a wrong call says on standard error."""

    def __call__(self, *words: str) -> str: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; the kubeconfig that counts is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return tmp_path


@pytest.fixture
def wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> Wrong:
    """Calls in this process, without a cluster, that end with 2 and without data."""

    def call(*words: str) -> str:
        assert exit_code_of(lambda: cli.main(list(words), "applyprune", standalone_mode=False)) == 2
        told = capsys.readouterr()
        assert (told.out, "Traceback" in told.err) == ("", False)
        return told.err

    return call

"""Options that say what the input is, and which of it is meant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
import pytest

from applyprune.cli.main import cli
from applyprune.errors import InputError, UsageError
from tests.support.settings import settings
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Binaries


def call(*arguments: str) -> object:
    """Call in this process, and return the exit code; what is wrong with the call is raised."""
    return cli.main(list(arguments), standalone_mode=False)


def test_input_summary_is_reported(
    folder: Path,
    binaries: Binaries,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a warning, also when something else in the input is wrong."""
    (folder / "bin").mkdir()
    (folder / "bin/kubectl").symlink_to(binaries.kubectl)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
    write(
        folder,
        {
            "k/kustomization.yaml": "resources: [a.yaml]\n"
            "vars: [{name: UNUSED, objref: {apiVersion: v1, kind: ConfigMap, name: a}}]\n",
            "k/a.yaml": config_map("a"),
            "broken.yaml": "a: [",
        },
    )
    assert call("apply", "web", "-k", "k", "-f", "broken.yaml") == 2
    warning, error = capsys.readouterr().err.split("error: ", 1)
    assert warning.startswith("warning: k (kustomize): ")
    assert "UNUSED" in warning
    assert error.startswith("broken.yaml")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("apply", "web"), "no input given"),
        (("apply", "-f", "x"), "no set given"),
        (("apply", "web", "-f", "x", "-l", "a=b", "--prune"), "--prune and --selector exclude"),
        (("apply", "web", "-f", "x", "-l", "a in"), "invalid label selector 'a in'"),
        (("apply", "web", "-f", "x", "-l", ""), "invalid label selector ''"),
        (("delete", "web", "-n", "", "--yes"), "empty value for --namespace"),
        (("delete", "web", "--context", "", "--yes"), "empty value for --context"),
        (("status", "web", "--kubeconfig="), "empty value for --kubeconfig"),
    ],
)
def test_contradictory_calls_are_refused(
    folder: Path,
    arguments: tuple[str, ...],
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Told by the error that ends the call, or on standard error by its reporting."""
    try:
        assert call(*arguments) == 2
        told = capsys.readouterr().err
    except UsageError as error:
        told = str(error)
    assert expected in told


def test_partial_input_is_never_pruned(folder: Path) -> None:
    """``prune`` takes no selector: what a selector leaves out would be deleted."""
    with pytest.raises(click.NoSuchOption):
        call("prune", "web", "-f", "x", "-l", "a=b")
    given = settings(folder, namespace_override="A_B")
    with pytest.raises(InputError, match="is not a valid namespace name"):
        call("prune", "web", "-f", "x", *map(str, given))

"""`kubectl applyprune`: run, named and completed by kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune import __version__
from applyprune.cli.main import PLUGIN, PROGRAM, VERBS, as_called

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Binaries, Plane

    Run = Callable[..., subprocess.CompletedProcess[str]]

INSTALLED = Path(sys.executable).parent


@pytest.fixture
def run(binaries: Binaries, tmp_path: Path) -> Run:
    """Run the embedded kubectl; the programs of this environment are in its PATH."""

    def call(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [binaries.kubectl, *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{INSTALLED}:{os.environ['PATH']}",
                "KUBECONFIG": str(kubeconfig or tmp_path / "none"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_kubectl_runs_the_plugin(run: Run) -> None:
    told = run(PROGRAM, "--version")
    assert (told.returncode, told.stdout) == (0, f"applyprune, version {__version__}\n")
    assert f"{INSTALLED / PLUGIN}\n" in run("plugin", "list").stdout


def test_plugin_applies_to_the_cluster_of_kubectl(
    run: Run, plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """It reads the same kubeconfig."""
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    words = ("apply", "web", "-n", namespace, "-f", "a.yaml")
    ended = run(PROGRAM, *words, kubeconfig=plane.kubeconfig)
    assert ended.returncode == 0, ended.stderr
    assert "configmap/a created" in ended.stdout
    shown = run("get", "configmap/a", "-n", namespace, "-o", "name", kubeconfig=plane.kubeconfig)
    assert shown.stdout == "configmap/a\n"


def test_plugin_calls_itself_as_the_user_does(run: Run) -> None:
    """In the usage line, the examples and the hint of an error."""
    told = run(PROGRAM, "apply", "--help").stdout
    assert told.startswith("Usage: kubectl applyprune apply [OPTIONS] [NAME]\n")
    assert "\n    kubectl applyprune apply web -f manifests/" in told
    assert "kubectl kubectl" not in told
    wrong = run(PROGRAM, "aply").stderr
    assert "See: kubectl applyprune --help" in wrong
    assert "Use kubectl applyprune delete NAME." in run(PROGRAM, "uninstall").stderr


def test_commands_in_a_text_stay_as_they_are_without_kubectl() -> None:
    text = "See: applyprune list -A"
    assert as_called(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("See: applyprune list -A", "See: kubectl applyprune list -A"),
        ("`applyprune COMMAND --help`", "`kubectl applyprune COMMAND --help`"),
        ("kubectl applyprune list", "kubectl applyprune list"),
        ("applyprune runs no hooks", "applyprune runs no hooks"),
        ("applyprune.yaml has no applyprune version", None),
    ],
)
def test_only_commands_get_the_name_of_the_plugin(
    text: str, shown: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{PLUGIN}"])
    assert as_called(text) == (shown or "applyprune.yaml has no kubectl applyprune version")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ap",), ["apply", ":4"]),
        (("apply", "web", "--max"), ["--max-prune", ":4"]),
        (("apply", "web", "-f", ""), [":0"]),
    ],
)
def test_kubectl_completes_the_plugin(words: tuple[str, ...], offered: list[str], run: Run) -> None:
    """What follows the colon lets the shell complete files or not."""
    assert run("__complete", PROGRAM, *words).stdout.splitlines() == offered


def test_kubectl_completes_each_verb(run: Run) -> None:
    verbs = [name for listed in VERBS.values() for name in listed]
    shown = run("__complete", PROGRAM, "").stdout.splitlines()
    assert [line for line in shown if not line.startswith(":")] == verbs

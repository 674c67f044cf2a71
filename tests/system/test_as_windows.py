"""Our code without the modules and names that Windows lacks; see tests/support/as_windows.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from applyprune import __version__
from applyprune.cli.main import VERBS
from tests.support.package import modules

if TYPE_CHECKING:
    from pathlib import Path

PLANE = "error: the embedded control plane does not run on Windows: "
REFUSED = {
    ("demo",): PLANE,
    ("local", "up"): PLANE,
    ("local", "status"): PLANE,
    ("local", "kubectl", "version"): PLANE,
    ("controller",): "error: the controller does not run on Windows: ",
    ("plan", "web", "-n", "x", "-f", "git+https://git.example.com/a.git"): (
        "error: a Git repository cannot be read on Windows: "
    ),
}
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ünï-😀\ndata: {a: b}\n"


def as_windows(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without a cluster."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.as_windows", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "KUBECONFIG": str(folder / "none"),
            **environment,
        },
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def each(folder: Path, *calls: tuple[str, ...]) -> dict[tuple[str, ...], tuple[int, str, str]]:
    """Run commands in one process; return the exit code, output and errors of each."""
    reply = as_windows(folder, "each", json.dumps(calls))
    assert reply.returncode == 0, reply.stderr
    return dict(zip(calls, json.loads(reply.stdout), strict=True))


def test_import_of_a_module_that_windows_lacks_is_seen(tmp_path: Path) -> None:
    """What the next test relies on."""
    (tmp_path / "ours.py").write_text("import os\nos.O_NONBLOCK\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    reply = as_windows(tmp_path, "import", "fcntl", "json", "tempfile", "ours", PYTHONPATH=path)
    assert reply.stdout.split() == ["fcntl", "ours"]


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    """Those of the controller and of the embedded control plane, too: they end when called."""
    names = sorted(modules())
    reply = as_windows(tmp_path, "import", *names)
    assert (reply.returncode, reply.stdout, reply.stderr) == (0, "", "")


def test_help_lists_every_command(tmp_path: Path) -> None:
    """The first thing that a new user types."""
    reply = as_windows(tmp_path, "--help")
    assert reply.returncode == 0, reply.stderr
    assert [name for verbs in VERBS.values() for name in verbs if name not in reply.stdout] == []


def test_version_is_printed(tmp_path: Path) -> None:
    """It asks no server."""
    reply = as_windows(tmp_path, "version", "--client")
    assert reply.returncode == 0, reply.stderr
    assert f"applyprune {__version__}" in reply.stdout


def test_output_for_a_file_or_pipe_is_utf_8(tmp_path: Path) -> None:
    """Windows would write the few characters of the region."""
    (tmp_path / "ł😀.yaml").write_text("data: [\n", encoding="utf-8")
    reply = as_windows(tmp_path, "plan", "web", "-f", "ł😀.yaml")
    assert reply.returncode == 2
    assert "ł😀.yaml:1" in reply.stderr


def test_user_may_choose_another_encoding(tmp_path: Path) -> None:
    """For a program that reads nothing else."""
    (tmp_path / "ł.yaml").write_text("data: [\n", encoding="utf-8")
    reply = as_windows(tmp_path, "plan", "web", "-f", "ł.yaml", PYTHONIOENCODING="cp1252")
    assert reply.returncode == 2
    assert "\\u0142.yaml:1" in reply.stderr


def test_files_are_read_and_written(tmp_path: Path) -> None:
    """``init`` writes two files, and ``push --dry-run`` reads manifests and prints a digest."""
    (tmp_path / "a.yaml").write_text(CONFIG_MAP, encoding="utf-8")
    reply = as_windows(tmp_path, "init", "web", "-f", "a.yaml")
    assert (reply.returncode, reply.stderr) == (0, "")
    assert (tmp_path / "applyprune.yaml").exists()
    call = ("push", "oci://localhost:1/web:1", "-f", "*.yaml", "--dry-run")
    (tmp_path / "applyprune.yaml").unlink()
    reply = as_windows(tmp_path, *call)
    assert (reply.returncode, reply.stderr) == (0, "")
    assert "oci://localhost:1/web:1@sha256:" in reply.stdout


def test_verbs_run_until_they_need_a_cluster(tmp_path: Path) -> None:
    """All that they import is there; each error names what is missing, and no module."""
    (tmp_path / "a.yaml").write_text(CONFIG_MAP, encoding="utf-8")
    calls = (
        *(("plan", "web", "-f", "a.yaml"), ("diff", "web", "-f", "a.yaml"), ("status", "web")),
        *(("apply", "web", "-f", "a.yaml", "--yes"), ("prune", "web", "-f", "a.yaml", "--yes")),
        *(("delete", "web", "--yes"), ("list",)),
    )
    for call, (code, out, err) in each(tmp_path, *calls).items():
        assert (code, out) == (7, ""), call
        assert err.startswith("error: no cluster is configured"), call


def test_command_that_cannot_run_says_why_and_what_to_do(tmp_path: Path) -> None:
    """An error of ours: what, why, and on a line of its own what to do."""
    for call, (code, out, err) in each(tmp_path, *REFUSED).items():
        assert (code, out) == (2, ""), call
        first, hint = err.splitlines()
        assert first.startswith(REFUSED[call])
        assert hint.startswith("  ")
        assert hint.endswith(".")

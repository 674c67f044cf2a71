"""``applyprune local`` as a user runs it: the installed command, real processes, real signals."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import AccessError, UsageError
from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.localplane.cache import is_locked
from applyprune.localplane.plane import Layout
from tests.support.home import processes_with
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Binaries
    from tests.support.home import Home

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def component(home: Home, plane: str, name: str) -> int:
    """Return the pid of a plane's component, or of its supervisor."""
    (pid,) = (
        pid
        for pid, command in processes_with(home.planes / plane).items()
        if re.search(rf"(controlplane |localplane\.){name} ", command)
    )
    return pid


def test_plane_that_does_not_exist_is_answered_with_those_that_do(empty_home: Home) -> None:
    """A plane has its name from ``up``; the default one may not be there."""
    none = empty_home.run("local", "down")
    assert (none.returncode, none.stderr) == (0, "the plane default does not exist\n")
    (empty_home.planes / "reader").mkdir(parents=True)
    others = "does not exist; the planes are: reader\n"
    assert empty_home.run("local", "down").stderr == f"the plane default {others}"
    wrong = empty_home.run("local", "status", "writer")
    assert (wrong.returncode, wrong.stderr) == (2, f"error: the plane writer {others}")
    one = empty_home.run("local", "status", "reader").stdout.splitlines()
    assert [line.split()[0] for line in one] == ["NAME", "reader"]


@pytest.mark.sweep
def test_two_planes_start_and_stop(home: Home) -> None:
    with (
        home.begin("local", "up") as first,
        home.begin("local", "up") as same,
        home.begin("local", "up", "two") as second,
    ):
        results = [process.communicate(timeout=HANG) for process in (first, same, second)]
    assert [process.returncode for process in (first, same, second)] == [0, 0, 0], results
    kubeconfig = home.planes / "default" / "kubeconfig"
    assert results[0][0] == results[1][0] == f"export KUBECONFIG={kubeconfig}\n"
    assert sorted("already running" in errors for _, errors in results) == [False, False, True]
    assert "applyprune local down two" in results[2][1]

    rows = [line.split() for line in home.run("local", "status").stdout.splitlines()]
    assert [row[:2] for row in rows] == [["NAME", "PHASE"], ["default", "ready"], ["two", "ready"]]
    assert rows[1][2] != rows[2][2], "each has an API server of its own"
    assert home.planes.joinpath("default").stat().st_mode & 0o777 == 0o700
    assert kubeconfig.stat().st_mode & 0o777 == 0o600

    again = home.run("local", "up")
    assert (again.returncode, again.stdout) == (0, results[0][0])
    assert "already running" in again.stderr

    # kubectl's options are kubectl's, and so is its exit code.
    nodes = home.run("local", "kubectl", "-n", "default", "get", "nodes", "-o", "name")
    assert (nodes.returncode, nodes.stdout) == (0, "node/node-0\n")
    assert "kubectl controls" in home.run("local", "kubectl", "--help").stdout
    of_two = {"KUBECONFIG": str(home.planes / "two/kubeconfig")}
    missing = home.run("local", "kubectl", "get", "configmap", "missing", **of_two)
    assert missing.returncode == 1
    assert "NotFound" in missing.stderr

    # No process outlives its supervisor, and the other plane does not care.
    assert {name for name in COMPONENTS if component(home, "two", name)} == set(COMPONENTS)
    os.kill(component(home, "two", "supervisor"), signal.SIGKILL)
    eventually(lambda: processes_with(home.planes / "two") == {})
    eventually(lambda: "supervisor was killed" in home.run("local", "status").stdout)
    assert home.run("local", "down", "two").returncode == 0
    assert not home.planes.joinpath("two").exists()
    assert component(home, "default", "etcd")

    # A component that dies takes its plane along, and the status says which.
    os.kill(component(home, "default", "kube-scheduler"), signal.SIGKILL)
    eventually(lambda: home.processes() == {})
    eventually(lambda: "failed" in home.run("local", "status").stdout)
    assert "kube-scheduler exited with signal 9" in home.run("local", "status").stdout
    refused = home.run("local", "kubectl", "get", "nodes")
    assert refused.returncode == 7
    assert "kube-scheduler exited" in refused.stderr
    assert "applyprune local up" in refused.stderr
    down = home.run("local", "down", "--all")
    assert (down.returncode, home.run("local", "status").stdout) == (0, "")
    assert list(home.planes.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_interrupted_start_leaves_nothing(home: Home, number: signal.Signals, code: int) -> None:
    with home.begin("local", "up") as up:
        eventually(
            lambda: any("kube-apiserver" in command for command in home.processes().values())
        )
        up.send_signal(number)
        assert up.wait(HANG) == code
    eventually(lambda: home.processes() == {})
    assert not home.planes.joinpath("default").exists()


def test_killed_supervisor_takes_its_plane_down_and_the_next_one_starts(
    binaries: Binaries, tmp_path: Path
) -> None:
    """Slow: two control planes start."""
    folder = tmp_path / "plane"
    killed = start(binaries, API_SERVER_ONLY, folder)
    assert len(processes_with(folder)) == 3
    os.kill(killed.plane.supervisor_pid, signal.SIGKILL)
    eventually(lambda: not is_locked(Layout(folder).lock))
    assert processes_with(folder) == {}
    with start(binaries, API_SERVER_ONLY, folder) as plane:
        assert plane.token != killed.plane.token
        with pytest.raises(AccessError, match="already running here"):
            start(binaries, API_SERVER_ONLY, folder)
        # Without its folder no command could find it any more.
        shutil.rmtree(folder, ignore_errors=True)
        eventually(lambda: processes_with(folder) == {})
    killed.stop()
    assert not folder.exists()


def test_plane_dies_with_the_process_that_started_it(binaries: Binaries, tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    script = f"""
import pathlib, signal
from applyprune.localplane import API_SERVER_ONLY, ensure_built, start
started = start(ensure_built(), API_SERVER_ONLY, pathlib.Path({str(folder)!r}))
print("ready", flush=True)
signal.pause()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"
        starter.kill()
    eventually(lambda: processes_with(folder) == {} and not folder.exists())


def test_folder_with_other_content_is_not_touched(binaries: Binaries, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(UsageError, match="would empty it"):
        start(binaries, API_SERVER_ONLY, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_missing_plane_is_reported(empty_home: Home) -> None:
    refused = empty_home.run("local", "kubectl", "get", "nodes")
    assert refused.returncode == 7
    assert "applyprune local up`" in refused.stderr
    assert empty_home.run("local", "down").returncode == 0
    bad = empty_home.run("local", "up", "../x")
    assert bad.returncode == 2
    assert "lower-case letters" in bad.stderr

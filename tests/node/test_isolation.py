"""Nothing of a run is left: when it ends, after Ctrl-C, and after SIGKILL of each of its parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from applyprune.localplane.cache import is_locked
from tests.node.isolation import CGROUPS
from tests.node.programs import missing
from tests.support.namespaces import own_namespaces
from tests.support.processes import children
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
STARTER = """
import sys
from tests.node.isolation import isolated, remove_left
remove_left()
sys.exit(isolated((sys.executable, "-c", sys.argv[1])))
"""
INSIDE = """
import os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[-1])
with (folder.parents[1] / "names").open("a") as names:
    print(folder.name, file=names)
for hierarchy in pathlib.Path("/sys/fs/cgroup").iterdir():
    if (hierarchy / "cgroup.procs").exists() and not hierarchy.is_symlink():
        (hierarchy / f"{folder.name}-1" / "pod").mkdir(parents=True)
(folder / "mounted").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder / "mounted"], check=True)
pathlib.Path("/var/log/left").write_text("")
# Whose parent ends: process 1 of the namespace has to wait for it.
subprocess.run(["sh", "-c", "sleep 1000003 &"], check=True)
(folder / "up").write_text("")
if MODE == "wait":
    subprocess.run(["sleep", "1000003"], check=True)
sys.exit(7)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """The cache folder of the runs of a test."""
    own_namespaces("--mount", "--pid", proof=False)
    yield tmp_path / "cache"
    assert nothing_is_left(tmp_path / "cache") == []


def starting(cache: Path, mode: str, stderr: IO[str] | None = None) -> subprocess.Popen[str]:
    script = INSIDE.replace("MODE", repr(mode))
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, script],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stderr=stderr,
        text=True,
    )


def runs(cache: Path) -> list[Path]:
    return list((cache / "applyprune/node/runs").glob("*"))


def up(cache: Path) -> Path:
    """Wait until the command runs; return the folder of its run."""
    found = eventually(
        lambda: [one for one in runs(cache) if (one / "up").exists()], lambda: "the run"
    )
    return Path(found[0])


def nothing_is_left(cache: Path) -> list[str]:
    """Return what is left of runs: folders, cgroups, mounts, processes, files."""
    names = (cache / "applyprune/node/names").read_text().split()
    mounts = Path("/proc/self/mounts").read_text()
    return [
        *map(str, runs(cache)),
        *(str(one) for name in names for one in CGROUPS.glob(f"*/{name}*")),
        *(line for line in mounts.splitlines() if str(cache) in line),
        *sleeping(),
        *map(str, Path("/var/log").glob("left")),
    ]


def sleeping() -> list[str]:
    """Return the processes that the command has started."""
    command = ["pgrep", "-f", "^sleep 1000003"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def test_ended_run_leaves_nothing(cache: Path) -> None:
    """Nor a process whose parent has ended; its exit code is that of the command."""
    assert starting(cache, "end").wait() == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_run_leaves_nothing(cache: Path, number: signal.Signals) -> None:
    """Whether its starter could do something about it or not."""
    said = cache.parent / "said"
    with said.open("w") as stream:
        process = starting(cache, "wait", stream)
    folder = up(cache)
    process.send_signal(number)
    assert process.wait() == {signal.SIGINT: 130}.get(number, -number)
    eventually(lambda: not folder.exists(), lambda: "the folder gone")
    assert "Traceback" not in said.read_text()


def test_next_run_removes_what_a_killed_keeper_leaves(cache: Path) -> None:
    """The kernel has ended its processes and mounts; its cgroups and its folder are there."""
    process = starting(cache, "wait")
    folder = up(cache)
    (keeper,) = children(process.pid)
    os.kill(keeper, signal.SIGKILL)
    process.wait()
    eventually(lambda: not is_locked(folder / "lock"), lambda: "its end")
    eventually(lambda: not sleeping(), lambda: "its processes ended")
    assert folder.exists()
    assert starting(cache, "end").wait() == 7
    assert not folder.exists()


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ({"sh": "dash"}, ""),
        ({"sh": "dash", "no-such-a": "a"}, "It takes no-such-a: apt-get install a"),
        (
            {"no-such-a": "a", "no-such-b": "b", "/no/such/c": "b"},
            "It takes no-such-a, no-such-b, /no/such/c: apt-get install a b",
        ),
    ],
)
def test_missing_packages_are_named(packages: dict[str, str], said: str) -> None:
    """Each once, in the words of the command that installs them."""
    if os.geteuid() != 0 or sys.platform != "linux":
        assert "It takes " in missing(packages=packages)
    else:
        assert missing(packages=packages) == said


def test_make_node_says_why_it_cannot_run() -> None:
    """At once, before anything is built."""
    command = [sys.executable, "-m", "tests.node"]
    reply = subprocess.run(
        command, cwd=ROOT, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False
    )
    assert reply.returncode == 2
    assert reply.stderr.startswith("make node cannot run here. It takes ")
    assert reply.stdout == ""

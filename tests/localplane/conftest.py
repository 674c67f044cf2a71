"""The installed command, in a home of the test's own, and what it leaves running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Binaries


@dataclass(frozen=True, slots=True)
class Home:
    """Runs ``applyprune`` with cache and state folders of its own."""

    folder: Path
    environment: dict[str, str]

    @property
    def planes(self) -> Path:
        """The folder of named planes."""
        return self.folder / "state" / "applyprune" / "planes"

    @property
    def cache(self) -> Path:
        """The cache folder."""
        return self.folder / "cache" / "applyprune"

    @contextmanager
    def begin(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Start the command; it is waited for, or killed when the block fails."""
        with subprocess.Popen(
            [Path(sys.executable).with_name("applyprune"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | environment,
        ) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        with self.begin(*arguments, **environment) as process:
            output, errors = process.communicate(timeout=300)
            return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def processes(self) -> dict[int, str]:
        """Return the processes that have this home in their command line, by pid."""
        return processes_with(self.folder)


def processes_with(folder: Path) -> dict[int, str]:
    """Return the processes that have the folder in their command line, by pid."""
    return {pid: command for pid, command in _all_processes() if str(folder) in command}


def _all_processes() -> Iterator[tuple[int, str]]:
    if Path("/proc/self/cmdline").exists():
        # Small Linux images have no ps.
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (process / "cmdline").read_bytes().decode(errors="replace")
                yield int(process.name), command.replace("\0", " ")
        return
    listing = subprocess.run(
        ["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    for line in listing.stdout.splitlines():
        pid, _, command = line.strip().partition(" ")
        yield int(pid), command


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Say whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def empty_home(tmp_path: Path) -> Iterator[Home]:
    """A home whose cache is empty; every plane left in it is stopped at the end."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    home = Home(
        tmp_path,
        kept
        | {
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
    )
    yield home
    home.run("local", "down", "--all")
    assert home.processes() == {}


@pytest.fixture
def home(empty_home: Home, binaries: Binaries) -> Home:
    """A home whose cache has the built control plane."""
    empty_home.cache.mkdir(parents=True)
    (empty_home.cache / "controlplane").symlink_to(binaries.program.parent.parent)
    return empty_home

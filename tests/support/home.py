"""The installed command in its own home folder, and the processes that it leaves running."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Home:
    """Runs ``applyprune`` with its own cache and state folders."""

    folder: Path
    environment: dict[str, str]

    @property
    def planes(self) -> Path:
        """The folder of the named planes."""
        return self.folder / "state" / "applyprune" / "planes"

    @property
    def cache(self) -> Path:
        """The cache folder."""
        return self.folder / "cache" / "applyprune"

    @contextmanager
    def begin(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Start the command; wait for it, or kill it if the block fails."""
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

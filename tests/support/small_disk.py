"""A small file system, the only one that a command can write: a test fills it and forbids writes.

As in a Pod, whose root is read-only.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.namespaces import own_namespaces
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_READ_ONLY = 'for one in / /tmp /var/tmp; do mount -o remount,bind,ro "$one" || :; done 2>/dev/null'
"""A shell command: nothing else is writable; only what is a mount of its own can be remounted."""
_FILLER = "filler"
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A tmpfs at a folder, in a mount namespace that a process keeps."""

    folder: Path
    """Where it is for the commands that run within."""
    keeper: int
    """The process that keeps the namespace."""

    @property
    def seen(self) -> Path:
        """Where the test sees it."""
        return Path(f"/proc/{self.keeper}/root{self.folder}")

    @property
    def within(self) -> Sequence[str]:
        """The beginning of a command that has its temporary files there."""
        return (*self._enter, "env", f"TMPDIR={self.folder}")

    def fill(self) -> None:
        """Leave no space."""
        with (self.seen / _FILLER).open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(_PIECE))
            except OSError:
                return

    def free(self) -> None:
        """Take back what ``fill`` has written."""
        (self.seen / _FILLER).unlink()

    def forbid_writes(self) -> None:
        """Make it read-only, for all that is opened from now on."""
        # In front of itself: the kernel refuses it for a file system with a file open for writing.
        self._run("mount", "--bind", str(self.folder), str(self.folder))
        command = (*self._enter, "mount", "-o", "remount,bind,ro", str(self.folder))
        # Somebody may have opened a file in between.
        eventually(lambda: subprocess.run(command, check=False).returncode == 0)

    def allow_writes(self) -> None:
        """Make it writable again."""
        self._run("umount", "--lazy", str(self.folder))

    def _run(self, *command: str) -> None:
        subprocess.run([*self._enter, *command], check=True)

    @property
    def _enter(self) -> Sequence[str]:
        return ("nsenter", f"--mount=/proc/{self.keeper}/ns/mnt", "--wd=.")


@contextmanager
def small_disk(folder: Path, size: str, *, proof: bool) -> Iterator[SmallDisk]:
    """Yield a file system of a size such as ``8m``.

    If this machine cannot do it, the test is skipped, or fails with ``proof``.
    """
    mount = f"mount -t tmpfs -o size={size} tmpfs {folder}"
    command = own_namespaces("--mount", proof=proof, mounts=(mount, _READ_ONLY))
    # `cat` ends with its input.
    with subprocess.Popen(
        [*command, "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield SmallDisk(folder, int(children))
        assert process.stdin is not None
        process.stdin.close()

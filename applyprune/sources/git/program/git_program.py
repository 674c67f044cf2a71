"""Run git without a shell, home, system configuration, hooks, prompt or work tree.

Every process has limits of time, memory and file size, and dies with this one, however it ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from applyprune.sources.git.program.git_messages import failure
from applyprune.sources.remote.fetch_errors import FetchFailed, SourceTooLarge
from applyprune.system.processes import ProcessGuard, ProcessLimits, exchange
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from types import TracebackType

    from applyprune.sources.git.program.deadline import Deadline

Settings: TypeAlias = Sequence[tuple[str, str]]
"""Settings of git, each a key and a value; a key may occur more than once."""

MEMORY = 2**30
"""Bytes of address space for one process."""
_OUTPUT = 64 * 2**20
_FILES = 256
# Nothing of a repository or of its server makes git run a program, or speak to another server.
_SETTINGS: Settings = (
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("core.fsmonitor", "false"),
    # Larger objects are streamed: the memory does not grow with them.
    ("core.bigFileThreshold", "8m"),
    ("core.packedGitLimit", "256m"),
    ("core.packedGitWindowSize", "32m"),
    ("core.multiPackIndex", "false"),
    ("core.alternateRefsCommand", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.fsckObjects", "true"),
    ("transfer.fsckObjects", "true"),
    # Old and harmless faults that published repositories have.
    ("fetch.fsck.zeroPaddedFilemode", "ignore"),
    ("fetch.fsck.missingSpaceBeforeDate", "ignore"),
    ("fetch.fsck.badTimezone", "ignore"),
    # Always a pack: it is complete, or it has no name yet.
    ("fetch.unpackLimit", "1"),
    ("transfer.unpackLimit", "1"),
    ("fetch.writeCommitGraph", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.uriProtocols", ""),
    ("transfer.bundleURI", "false"),
    ("submodule.recurse", "false"),
    ("protocol.version", "2"),
    ("protocol.allow", "never"),
    ("pack.threads", "2"),
    ("credential.helper", ""),
    ("advice.objectNameWarning", "false"),
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the git that speaks to one server has beside the settings of every git."""

    settings: Settings = field(default=(), repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


LOCAL = Surroundings()
"""Those of a git that speaks to no server."""


class GitProgram:
    """Runs git until a deadline, with a private folder; a context manager."""

    def __init__(self, where: str, deadline: Deadline, size: int) -> None:
        """Start nothing. ``where`` is the place in errors; ``size`` limits a file, in bytes."""
        self.where = where
        self.deadline = deadline
        self._size = size
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Create the private folder, which only this user can read."""
        if shutil.which("git") is None:
            raise FetchFailed(
                "git is needed to read this source, and it is not installed",
                location=self.where,
                hint="Install git 2.39 or newer.",
            )
        try:
            place = tempfile.mkdtemp(prefix="applyprune-git-")
            self.folder = Path(os.path.realpath(place))
            self._open.callback(shutil.rmtree, self.folder, ignore_errors=True)
            (self.folder / "home").mkdir()
            self._guard = self._open.enter_context(ProcessGuard(self.folder))
        except OSError as error:
            self._open.close()
            raise self.unusable(error) from None
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Remove the folder."""
        self._open.close()

    def unusable(self, error: OSError) -> FetchFailed:
        """Return the error for a file or process that the system refuses."""
        return FetchFailed(
            "git cannot be run",
            location=self.where,
            reason=error.strerror or "",
            hint="Check the free space and memory of this machine.",
        )

    def write(self, name: str, data: bytes) -> Path:
        """Write a file into the private folder."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path

    def run(
        self,
        *arguments: str,
        repository: Path | None = None,
        around: Surroundings = LOCAL,
        stdin: bytes = b"",
        limit: int = _OUTPUT,
        records: tuple[bytes, int] | None = None,
        program: str = "git",
    ) -> bytes:
        """Return the output of git; raise FetchFailed or what its message means.

        Raises SourceTooLarge for more than ``limit`` bytes, or more than a number of ``records``,
        which end with a byte.
        """
        code, out, err = self.try_run(
            *arguments,
            repository=repository,
            around=around,
            stdin=stdin,
            limit=limit,
            records=records,
            program=program,
        )
        if code:
            raise failure(err, code, self.where)
        return out

    def try_run(
        self,
        *arguments: str,
        repository: Path | None = None,
        around: Surroundings = LOCAL,
        stdin: bytes = b"",
        limit: int = _OUTPUT,
        records: tuple[bytes, int] | None = None,
        program: str = "git",
    ) -> tuple[int, bytes, str]:
        """Return the exit code, the output, and the end of what was written to standard error."""
        limits = ProcessLimits(
            memory=MEMORY,
            # Two threads; whoever computes longer has not been given that much to do.
            cpu=2 * math.ceil(self.deadline.left(self.where)) + 1,
            file_size=self._size,
            files=_FILES,
            address_space=MEMORY,
        )
        with contextlib.ExitStack() as opened:
            try:
                given = opened.enter_context(tempfile.TemporaryFile(dir=self.folder))
                given.write(stdin)
                given.seek(0)
                # TemporaryFile is unbuffered only for this process: git has the same position.
                given.flush()
                process = subprocess.Popen(
                    [*limits.command(), program, *arguments],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # Without a terminal; and what it starts is killed with it.
                    start_new_session=True,
                    cwd=self.folder,
                    env=self._environ(around, repository),
                    bufsize=0,
                    # Python ignores SIGXFSZ, and so does git then: it says that a file is too
                    # large, where its death would say nothing. git itself restores SIGPIPE.
                    restore_signals=False,
                )
                opened.callback(_close, process)
                opened.callback(self._guard.end, process)
                self._guard.add(process.pid)
                out, err = self._read(process, limit, records)
                code = process.wait(self.deadline.left(self.where))
            except subprocess.TimeoutExpired:
                raise self.deadline.passed(self.where) from None
            except OSError as error:
                raise self.unusable(error) from None
        return code, out, err

    def _read(
        self, process: subprocess.Popen[bytes], limit: int, records: tuple[bytes, int] | None
    ) -> tuple[bytes, str]:
        count = 0

        def check(data: bytes, size: int) -> None:
            nonlocal count
            if size > limit:
                raise SourceTooLarge(
                    f"the source is larger than {limit // 2**20} MiB", location=self.where
                )
            if records is None:
                return
            count += data.count(records[0])
            if count > records[1]:
                raise SourceTooLarge(
                    f"the source has more than {records[1]} entries", location=self.where
                )

        return exchange(process, partial(self.deadline.left, self.where), check)

    def _environ(self, around: Surroundings, repository: Path | None) -> dict[str, str]:
        settings = (*_SETTINGS, *around.settings)
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder),
            **around.environ,
            "LC_ALL": "C",
            "LANGUAGE": "",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (key, value) in enumerate(settings):
            environ[f"GIT_CONFIG_KEY_{number}"] = key
            environ[f"GIT_CONFIG_VALUE_{number}"] = value
        if repository is not None:
            environ["GIT_DIR"] = str(repository)
        return environ


def dying_with_git(*command: str) -> str:
    """Return a command for a setting of git that dies with the git that starts it."""
    program = shutil.which("setpriv")
    start = [program, "--pdeathsig", "KILL", "--"] if program else []
    return shlex.join([*start, *command])


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()

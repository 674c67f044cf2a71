"""Programs and processes: find, run and limit them, and end them with all that they have started.

Where ``prlimit`` or ``setpriv`` (util-linux) is missing, as on macOS, only time and output are
limited.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from errno import ENOENT
from functools import partial
from os import strerror
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Self

from applyprune.clock import CLOCK
from applyprune.errors import UsageError
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


def run_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    deadline: float,
    max_output: int,
    limits: ProcessLimits | None = None,
    pass_fds: Sequence[int] = (),
) -> FinishedProcess:
    """Run a program, without a shell and with no other environment, and return how it has ended.

    ``deadline`` is an instant of ``CLOCK``; ``max_output`` is in bytes. Raises
    TimeoutError, TooMuchOutput, and OSError if it cannot be started. In every case, its process
    group is killed before this function returns.
    """

    def check(_data: bytes, size: int) -> None:
        if size > max_output:
            raise TooMuchOutput

    with subprocess.Popen(
        [*(limits or ProcessLimits()).command(), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Without a terminal to ask at; and what it starts is killed with it.
        start_new_session=True,
        cwd="/",
        env=dict(env),
        pass_fds=pass_fds,
        bufsize=0,
    ) as process:
        try:
            out, err = exchange(process, partial(_left, deadline), check, stdin)
            code = process.wait(_left(deadline))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            # Its number is taken until it was waited for; then the group may still have others.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill_group(process.pid)
    return FinishedProcess(code, out, err)


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """How a program has ended."""

    code: int
    """Its exit code; the negative number of the signal that has killed it."""
    stdout: bytes
    stderr: str
    """The end of it. It may contain parts of the input: never show it."""


class TooMuchOutput(Exception):
    """The program has written more than it may; it was killed."""


_STDERR = 16 * 1024
_CHUNK = 64 * 1024


def exchange(
    process: subprocess.Popen[bytes],
    left: Callable[[], float],
    check: Callable[[bytes, int], None],
    stdin: bytes = b"",
) -> tuple[bytes, str]:
    """Write the input while the output is read; return the output and the end of the errors.

    ``left`` returns the seconds until the deadline, or raises. ``check`` gets each piece of the
    output, with the size of all of it so far, and raises if that is too much.
    """
    out, err, rest = bytearray(), b"", memoryview(stdin)
    with selectors.DefaultSelector() as waiting:
        if process.stdin is not None:
            if sys.platform != "win32":  # where no such program is run
                os.set_blocking(process.stdin.fileno(), False)
            waiting.register(process.stdin, selectors.EVENT_WRITE)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                waiting.register(stream, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select(left()):
                if key.fileobj is process.stdin:
                    rest = _written(key.fd, rest)
                    if not rest:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, _CHUNK)
                if not data:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    err = (err + data)[-_STDERR:]
                else:
                    out += data
                    check(data, len(out))
    return bytes(out), err.decode("utf-8", "replace")


def _written(fd: int, rest: memoryview) -> memoryview:
    """Write a part of the input; return what is left: nothing if nobody reads it any more."""
    try:
        return rest[os.write(fd, rest[:_CHUNK]) :]
    except BrokenPipeError:
        return rest[:0]


def _left(deadline: float) -> float:
    """Return the seconds until the deadline; raise TimeoutError if it has passed."""
    left = deadline - CLOCK.now()
    if left <= 0:
        raise TimeoutError
    return left


# Limits of a process; Windows has none.


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one process may use."""

    memory: int = 2**30
    """Bytes that it may allocate."""
    cpu: int = 60
    """Seconds of computing, of all its threads together."""
    file_size: int = 0
    """Bytes of one file that it writes; pipes are not counted."""
    files: int = 64
    """How many files it may have open."""
    address_space: int = 0
    """Bytes of addresses; 0 for no limit: a program in Go reserves gigabytes that it never uses."""

    def command(self) -> Sequence[str]:
        """Return the words before a command that runs with these limits; none where no program can.

        The command dies with the thread that starts it. What it starts itself does not.
        """
        command: list[str] = []
        if program := shutil.which("setpriv"):
            command += [program, "--pdeathsig", "KILL", "--"]
        if program := shutil.which("prlimit"):
            limits = {
                ProcessResource.DATA: self.memory,
                ProcessResource.CPU: self.cpu,
                ProcessResource.FILE_SIZE: self.file_size,
                ProcessResource.FILES: self.files,
                ProcessResource.CORE: 0,
            }
            if self.address_space:
                limits[ProcessResource.ADDRESS_SPACE] = self.address_space
            command += [program]
            for what, wanted in limits.items():
                allowed = within_hard_limit(what, wanted)
                command.append(f"--{what}={allowed}:{allowed}")
            command.append("--")
        return command


class ProcessResource(StrEnum):
    """Something that a process uses; the value is the name that ``prlimit`` has for it."""

    DATA = "data"
    """Bytes that it may allocate."""
    CPU = "cpu"
    """Seconds of computing, of all its threads together."""
    FILE_SIZE = "fsize"
    """Bytes of one file that it writes."""
    FILES = "nofile"
    """How many files it may have open."""
    CORE = "core"
    """Bytes of its memory that are written to the disk when it crashes."""
    ADDRESS_SPACE = "as"
    """Bytes of addresses."""


if sys.platform == "win32":

    def within_hard_limit(what: ProcessResource, wanted: int) -> int:
        del what
        return wanted

    def lower_limit(what: ProcessResource, value: int) -> None:
        del value
        raise OSError(f"Windows has no limit of {what}")

else:
    import resource

    _NUMBERS = {
        ProcessResource.DATA: resource.RLIMIT_DATA,
        ProcessResource.CPU: resource.RLIMIT_CPU,
        ProcessResource.FILE_SIZE: resource.RLIMIT_FSIZE,
        ProcessResource.FILES: resource.RLIMIT_NOFILE,
        ProcessResource.CORE: resource.RLIMIT_CORE,
        ProcessResource.ADDRESS_SPACE: resource.RLIMIT_AS,
    }

    def within_hard_limit(what: ProcessResource, wanted: int) -> int:
        """Return the limit that is wanted, or the one that this process cannot exceed."""
        _, hard = resource.getrlimit(_NUMBERS[what])
        return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)

    def lower_limit(what: ProcessResource, value: int) -> None:
        """Set a limit of this process, within the one that it cannot exceed."""
        _, hard = resource.getrlimit(_NUMBERS[what])
        resource.setrlimit(_NUMBERS[what], (within_hard_limit(what, value), hard))


# Kill the child processes when this process ends, even by SIGKILL, and remove their private folder.
#
# A parent death signal reaches a child, but not what the child starts: git starts others that wait
# for the network. So a small process waits for the end of a pipe, which the kernel closes.


# Each line of its input is + or - and a process group. A shell, which is everywhere and small: many
# of them may wait at once.
_PROGRAM = """
groups=
while read -r sign group; do
    if [ "$sign" = + ]; then
        groups="$groups $group"
        continue
    fi
    left=
    for one in $groups; do
        [ "$one" = "$group" ] || left="$left $one"
    done
    groups=$left
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
rm -rf -- "$1"
"""


@contextlib.contextmanager
def guarding(folder: Path) -> Iterator[ProcessGuard | None]:
    """Yield a guard for the processes that work in a folder; None on Windows, which has no groups.

    There, a process that is ended at once leaves behind what it has started.
    """
    if sys.platform == "win32":
        yield None
    else:
        with ProcessGuard(folder) as guard:
            yield guard


class ProcessGuard:
    """A process that outlives this one for a moment; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Start it; ``folder`` is removed at the end."""
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _PROGRAM, "sh", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            # The system's own programs first; some systems have theirs elsewhere.
            env={"PATH": f"{os.defpath}:{os.environ.get('PATH', os.defpath)}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End it: the groups that are left are killed, and the folder has gone."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def add(self, group: int) -> None:
        """Have a process group killed when this process ends."""
        self._say(f"+ {group}\n")

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group of a process that was added, and wait for the process.

        The process is not waited for before its group was killed: until then its number is taken.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill_group(process.pid)
        with contextlib.suppress(OSError):
            self._say(f"- {process.pid}\n")
        process.wait()

    def _say(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise BrokenPipeError
        os.write(stdin.fileno(), line.encode())


# End processes: one, or one with all that it has started.


_STEP = 0.2


if sys.platform == "win32":
    GROUP_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP
    """For ``creationflags``: Ctrl-C does not reach such a process, only ours."""

    def kill(process: int) -> None:
        """End a process at once; raises OSError."""
        # Whatever the signal, unless it is one of the console's.
        os.kill(process, signal.SIGTERM)

    def kill_group(process: int) -> None:
        """End a process and all that it has started, at once; nothing if it has ended."""
        # There are no groups as POSIX has them; this follows the children.
        # By its path: Windows would look in the folder that the user is in first.
        system = os.environ.get("SYSTEMROOT", r"C:\Windows")
        command = (rf"{system}\System32\taskkill.exe", "/F", "/T", "/PID", str(process))
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait for the end of a process; raises subprocess.TimeoutExpired."""
        wait_in_steps(process, seconds)

else:
    GROUP_FLAGS = 0
    """For ``creationflags``: none; ``start_new_session`` is what keeps Ctrl-C from a process."""

    def kill(process: int) -> None:
        """End a process at once; raises OSError."""
        os.kill(process, signal.SIGKILL)

    def kill_group(process: int) -> None:
        """End the group of processes that a process leads, at once; raises OSError."""
        os.killpg(process, signal.SIGKILL)

    def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait for the end of a process; raises subprocess.TimeoutExpired."""
        process.wait(seconds)


def wait_in_steps(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of a process, so that Python can handle Ctrl-C in between.

    Raises subprocess.TimeoutExpired. Windows ends no wait early for a signal.
    """
    ends = time.monotonic() + seconds
    while True:
        left = ends - time.monotonic()
        try:
            process.wait(min(_STEP, max(left, 0.0)))
        except subprocess.TimeoutExpired:
            if left <= _STEP:
                raise
        else:
            return


# Find the file that a command starts.
#
# Windows starts ``NAME.exe`` and ``NAME.cmd`` for NAME. It would also look in the folder that the
# user is in; nobody else does, because anybody may have put a program there.


_BATCH = frozenset({".bat", ".cmd"})
# What cmd.exe, which runs a batch file, does not take for text, whether it is quoted or not.
_INTERPRETED = frozenset('"%!^&|<>()\r\n')


if sys.platform == "win32":

    def command_line(
        command: Sequence[str], folder: Path, environ: Mapping[str, str]
    ) -> Sequence[str]:
        """Return a command with the file that it starts in a folder.

        Raises FileNotFoundError, and UnsafeArguments for some arguments of a batch file.
        """
        program, *arguments = command
        for file in windows_files(program, str(folder.absolute()), environ):
            if Path(file).is_file():
                if fault := fault_for_batch_file(file, arguments):
                    raise UnsafeArguments(fault)
                return (file, *arguments)
        raise FileNotFoundError(ENOENT, strerror(ENOENT), program)

    def find_program(name: str, environ: Mapping[str, str]) -> str | None:
        """Return the file of a program in ``PATH``, or None."""
        files = windows_files(name, "", environ)
        return next((file for file in files if Path(file).is_file()), None)

else:

    def command_line(
        command: Sequence[str], folder: Path, environ: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the command as it is: the system finds its file, and all arguments are text."""
        del folder, environ
        return command

    def find_program(name: str, environ: Mapping[str, str]) -> str | None:
        """Return the file of a program in ``PATH``, or None."""
        return shutil.which(name, path=environ.get("PATH"))


class UnsafeArguments(Exception):
    """The program would get other arguments than these."""


def windows_files(command: str, folder: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that a command may mean on Windows, in order.

    One with a path is relative to ``folder``; any other is looked for in ``PATH``.
    """
    extensions = environ.get("PATHEXT", ".com;.exe;.bat;.cmd").lower().split(";")
    extensions = [one for one in extensions if one]
    path = PureWindowsPath(command)
    has_path = path.name != command
    places = [folder] if has_path else environ.get("PATH", "").split(";")
    names = [command] if path.suffix.lower() in extensions else []
    names += [f"{command}{extension}" for extension in extensions]
    for place in places:
        # A relative entry of PATH is some folder of the folder that the user is in.
        if (within := PureWindowsPath(place.strip('"'))).is_absolute() or has_path:
            yield from (str(within / name) for name in names)


def fault_for_batch_file(program: str, arguments: Sequence[str]) -> str:
    """Return why a program of Windows cannot get its arguments as they are; empty if it can."""
    if PureWindowsPath(program).suffix.lower() not in _BATCH:
        return ""
    for number, argument in enumerate(arguments, 1):
        if found := sorted(_INTERPRETED & set(argument)):
            return f"it is a batch file, and Windows interprets {found[0]!r} in argument {number}"
    return ""


# The signals that ask a program to stop, and the error for what Windows cannot run.


if sys.platform == "win32":
    # Ctrl-Break is all that one program can send to another one there.
    STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
else:
    STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def require_posix(what: str, *, reason: str, hint: str) -> None:
    """Raise UsageError on Windows, with these words; return on other systems."""
    if sys.platform == "win32":
        raise UsageError(f"{what} on Windows", reason=reason, hint=hint)

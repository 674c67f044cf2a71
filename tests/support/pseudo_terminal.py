"""A command on a pseudo-terminal: what it shows, what is typed, and a terminal that closes."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Self

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

_LAUNCHER = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes standard error the controlling terminal of a new session, then runs the command."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ANSWER = "[y/N"
"""The end of a question."""


@dataclass(slots=True)
class PseudoTerminal:
    """A command on a terminal of its own, which ends with the block.

    ``stdin`` replaces the terminal as standard input. The terminal is a dumb one: a live display
    would be among the lines.
    """

    command: Sequence[str | Path]
    columns: int = 80
    stdin: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    keeps_escapes: bool = False
    """Whether escape sequences are among what is shown."""
    stdout: IO[str] | None = None
    """A file that replaces the terminal as standard output."""
    shown: str = ""
    """What it has shown so far."""
    _terminal: int = -1
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the command."""
        self._terminal, inner = os.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, self.columns, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key != "CI"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, *map(str, self.command)],
            stdin=inner if self.stdin is None else subprocess.PIPE,
            stdout=inner if self.stdout is None else self.stdout,
            stderr=inner,
            env=environment | {"TERM": "dumb"} | dict(self.environment),
            start_new_session=True,
        )
        os.close(inner)
        if self._process.stdin is not None:
            self._process.stdin.write((self.stdin or "").encode())
            self._process.stdin.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the terminal, and end the command."""
        self.hang_up()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def read_until(self, text: str, seconds: float = HANG) -> str:
        """Read until the text is shown, and return everything that was shown so far."""
        return self.read_until_count(text, 1, seconds)

    def read_until_count(self, text: str, count: int, seconds: float = HANG) -> str:
        """Read until the text is shown that often, and return everything that was shown so far."""
        deadline = time.monotonic() + seconds
        while self.shown.count(text) < count:
            assert time.monotonic() < deadline, f"{text!r} is not shown in:\n{self.shown}"
            assert self._read(0.1), f"the command ended without {text!r}:\n{self.shown}"
        return self.shown

    def type(self, text: str) -> None:
        """Type keys: ``\\n`` is Enter, ``\\x03`` Ctrl-C, ``\\x04`` Ctrl-D."""
        os.write(self._terminal, text.encode())

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        assert self._process is not None
        self._process.send_signal(number)

    def hang_up(self) -> None:
        """Close the terminal, as if its window was closed."""
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    def ended(self, seconds: float = HANG) -> int:
        """Read the rest, and return the exit code; that of a signal is negative."""
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while self._terminal >= 0 and self._read(0.1):
            assert time.monotonic() < deadline, f"it did not end:\n{self.shown}"
        code = self._process.wait(seconds)
        assert "Traceback" not in self.shown, self.shown
        return code

    def _read(self, seconds: float) -> bool:
        """Read what there is; return False once the command has closed the terminal."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # every process has closed it
            return False
        text = data.decode(errors="replace")
        text = text if self.keeps_escapes else _ESCAPES.sub("", text)
        self.shown += text.replace("\r\n", "\n")
        return bool(data)


def on_terminal(*arguments: str | Path, kubeconfig: str | Path, **how: Any) -> PseudoTerminal:
    """Return ``applyprune ARGUMENTS`` on a terminal; ``how`` are the fields of that."""
    environment = {"KUBECONFIG": str(kubeconfig), **how.pop("environment", {})}
    command = (sys.executable, "-m", "applyprune", *arguments)
    return PseudoTerminal(command, environment=environment, **how)


def main(line: str, *answers: str) -> int:
    """Run a line of a shell on a terminal, type the answers, and print what it shows."""
    with PseudoTerminal(("bash", "-c", line)) as terminal:
        for count, answer in enumerate(answers, 1):
            terminal.read_until_count(ANSWER, count, 600)
            terminal.type(f"{answer}\n")
        code = terminal.ended(600)
    sys.stdout.write(terminal.shown)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

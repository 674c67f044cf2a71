"""A terminal like a user's: a shell in tmux, to type into and to read."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

PROMPT = "$"
PROGRAM = shutil.which("tmux")


@dataclass(slots=True)
class Terminal:
    """A shell of so many columns; its ``applyprune`` is the tested one."""

    columns: int
    cwd: Path
    environment: Mapping[str, str]
    rows: int = 50
    _socket: str = field(default_factory=lambda: f"applyprune-{secrets.token_hex(4)}")

    def __enter__(self) -> Self:
        """Start tmux, without the user's own settings, and a shell that is ready."""
        script = f'applyprune() {{ {shlex.quote(sys.executable)} -m applyprune "$@"; }}\n'
        (self.cwd / "shell").write_text(f"{script}PS1='{PROMPT} '\n")
        self._tmux(
            *("-u", "-f", os.devnull, "new-session", "-d"),
            *("-x", str(self.columns), "-y", str(self.rows)),
            *("env", "-u", "TMUX", "-u", "CI", "bash", "--noprofile", "--rcfile", "shell", "-i"),
        )
        self.wait(is_idle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End tmux and its processes."""
        self._tmux("kill-server")

    def type(self, line: str) -> None:
        """Type a line, and the return key."""
        self._tmux("send-keys", "-l", line)
        self.press("Enter")

    def press(self, key: str) -> None:
        """Press a key by tmux's name for it: C-c for example."""
        self._tmux("send-keys", key)

    def resize(self, columns: int) -> None:
        """Make the window narrower or wider."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(self.rows))

    def screen(self, *, colours: bool = False) -> str:
        """Return the visible text, without trailing spaces."""
        shown = self._tmux("capture-pane", "-p", *(["-e"] if colours else []))
        return "\n".join(line.rstrip() for line in shown.splitlines()).rstrip()

    @property
    def cursor_is_shown(self) -> bool:
        """Return whether the cursor is hidden."""
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait(self, until: Callable[[str], object]) -> str:
        """Wait until the screen is as expected, and return it."""

        def seen() -> list[str]:
            screen = self.screen()
            return [screen] if until(screen) else []

        (found,) = eventually(seen, lambda: f"what is wanted on the screen\n{self.screen()}\n")
        return str(found)

    def _tmux(self, *arguments: str) -> str:
        reply = subprocess.run(
            [PROGRAM or "tmux", "-L", self._socket, *arguments],
            cwd=self.cwd,
            env={**os.environ, **self.environment, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert reply.returncode == 0, reply.stderr
        return reply.stdout


def is_idle(screen: str) -> bool:
    """Return whether the shell waits for the next line."""
    return screen.splitlines()[-1:] == [PROMPT]

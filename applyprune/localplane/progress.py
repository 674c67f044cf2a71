"""How a build or a start of minutes shows that it is alive: steps that stay, ticks that do not."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import TextIO


class Progress(Protocol):
    """What long work tells whoever waits for it."""

    def step(self, text: str) -> None:
        """Say that something has begun or is done: a line that stays."""

    def tick(self, text: str) -> None:
        """Say how far it is: shown now and then, or overwritten by the next one."""

    def clear(self) -> None:
        """Take away the tick that is shown: others will write now."""


class Silence:
    """A Progress that says nothing."""

    def step(self, text: str) -> None:
        """Drop the text."""

    def tick(self, text: str) -> None:
        """Drop the text."""

    def clear(self) -> None:
        """Do nothing."""


class Lines:
    """A Progress for logs: a tick becomes a line, but one in ``every`` seconds only."""

    def __init__(self, stream: TextIO, every: float = 15.0) -> None:
        """Write to ``stream``; the first tick waits for ``every`` seconds too."""
        self._stream = stream
        self._every = every
        self._last = time.monotonic()

    def step(self, text: str) -> None:
        """Write the line at once."""
        self._last = time.monotonic()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Write the line when nothing has been written for ``every`` seconds."""
        if time.monotonic() - self._last >= self._every:
            self.step(text)

    def clear(self) -> None:
        """Do nothing: each line is complete."""


class Terminal:
    """A Progress for a terminal: ticks overwrite one another on the last line."""

    def __init__(self, stream: TextIO, every: float = 0.1) -> None:
        """Write to ``stream``, a terminal, at most once in ``every`` seconds."""
        self._stream = stream
        self._every = every
        self._last = 0.0
        self._ticking = False

    def step(self, text: str) -> None:
        """Replace the tick that is shown, if any, by a line that stays."""
        self.clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Show the text, cut to the terminal's width, until the next one."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        width = shutil.get_terminal_size().columns
        self._stream.write(f"\r{text[: width - 1]}\x1b[K")
        self._stream.flush()
        self._ticking = True

    def clear(self) -> None:
        """Empty the line that a tick is on."""
        if self._ticking:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._ticking = False


def clock(seconds: float) -> str:
    """Return minutes and seconds, ``5:40`` for example."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def progress_on(stream: TextIO) -> Progress:
    """Return the Progress that suits the stream: a terminal, or a log."""
    return Terminal(stream) if stream.isatty() else Lines(stream)

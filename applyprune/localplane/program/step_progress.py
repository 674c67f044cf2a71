"""Show the progress of a long build or start: permanent steps, and ticks that are replaced."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import TextIO


class Progress(Protocol):
    """The progress of long work."""

    def step(self, text: str) -> None:
        """Report the start or end of a step: a permanent line."""

    def tick(self, text: str) -> None:
        """Report the current progress: shown from time to time, and replaced by the next tick."""

    def clear(self) -> None:
        """Remove the current tick, because other output follows."""


class Silence:
    """A Progress that prints nothing."""

    def step(self, text: str) -> None:
        """Discard the text."""

    def tick(self, text: str) -> None:
        """Discard the text."""

    def clear(self) -> None:
        """Do nothing."""


class Lines:
    """A Progress for logs: prints at most one tick, as a line, in ``every`` seconds."""

    def __init__(self, stream: TextIO, every: float = 15.0) -> None:
        """Write to ``stream``; the first tick also waits for ``every`` seconds."""
        self._stream = stream
        self._every = every
        self._last = time.monotonic()

    def step(self, text: str) -> None:
        """Write the line immediately."""
        self._last = time.monotonic()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Write the line if nothing has been written for ``every`` seconds."""
        if time.monotonic() - self._last >= self._every:
            self.step(text)

    def clear(self) -> None:
        """Do nothing: each line is complete."""


class Terminal:
    """A Progress for a terminal: each tick overwrites the previous tick on the last line."""

    def __init__(self, stream: TextIO, every: float = 0.1) -> None:
        """Write to ``stream``, a terminal, at most once in ``every`` seconds."""
        self._stream = stream
        self._every = every
        self._last = 0.0
        self._ticking = False

    def step(self, text: str) -> None:
        """Replace the current tick, if any, with a permanent line."""
        self.clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Show the text, cut to the terminal's width, until the next tick."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        width = shutil.get_terminal_size().columns
        self._stream.write(f"\r{text[: width - 1]}\x1b[K")
        self._stream.flush()
        self._ticking = True

    def clear(self) -> None:
        """Clear the line of the current tick."""
        if self._ticking:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._ticking = False


def clock(seconds: float) -> str:
    """Return minutes and seconds, for example ``5:40``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def progress_on(stream: TextIO) -> Progress:
    """Return the Progress for the stream: for a terminal, or for a log."""
    return Terminal(stream) if stream.isatty() else Lines(stream)

"""Standard output, standard error, and the live lines at the end of a terminal.

The program writes every line through this module, so no untrusted text reaches a terminal as a
control sequence. The live lines are below all other lines, and the cursor is on the first of them.
So one short write, which erases everything from the cursor on, removes exactly the live lines, even
if the width of the window has changed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.clock import CLOCK, Clock
from applyprune.output.terminal.style import cut, rendered

if TYPE_CHECKING:
    from typing import TextIO

_ERASE = "\r\x1b[J"
_CLEAR = "\x1b[2J\x1b[H"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_SETTLE = 0.05
"""Seconds between two redraws: more redraws would flicker."""
_WIDTH = 80


class Terminal:
    """Standard output and standard error; thread-safe.

    ``live`` says whether standard error can redraw lines, ``colours`` whether it shows colours,
    ``out_colours`` whether standard output shows them, and ``out_is_screen`` whether standard
    output can be cleared. ``write_error`` is why standard output is not complete. It is not raised:
    a run must not stop halfway because ``grep -q`` has read enough. ``last_write`` is a time of
    ``clock``.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        """Take the streams and the environment; by default those of the process."""
        self.clock = clock
        # A process may have been started without streams. It must work even so.
        self._out = out or sys.stdout or io.StringIO()
        self._err = err or sys.stderr or io.StringIO()
        environ = os.environ if environ is None else environ
        able = environ.get("TERM", "") not in {"", "dumb"}
        colourful = able and not environ.get("NO_COLOR")
        self.live = able and self._err.isatty()
        self.colours = colourful and self._err.isatty()
        self.out_colours = colourful and self._out.isatty()
        self._shared = self._out.isatty()
        self.out_is_screen = able and self._shared
        # A signal handler may run while its own thread holds the lock.
        self._lock = threading.RLock()
        self._lines: Sequence[str] = ()
        self._drawn = False
        self._when = 0.0
        self.last_write = self.clock.now()
        self.write_error: OSError | None = None
        for stream in (self._out, self._err):
            # A terminal with few characters must not end a run.
            with contextlib.suppress(AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def out(self, text: str) -> None:
        """Write lines of data to standard output."""
        self._write(self._out, rendered(text, colour=self.out_colours))

    def err(self, text: str) -> None:
        """Write lines of messages to standard error."""
        self._write(self._err, rendered(text, colour=self.colours))

    @property
    def err_is_terminal(self) -> bool:
        """Return whether somebody may see standard error now."""
        return self._err.isatty()

    def prompt(self, text: str) -> None:
        """Write a question to standard error, and leave the cursor behind it."""
        self._write(self._err, rendered(text, colour=self.colours), end="")

    def redraw(self, text: str) -> None:
        """Clear the screen, then write lines of data."""
        with self._lock:
            self._out.write(_CLEAR)
            self.out(text)

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the live lines, cut to the width."""
        if self.live:
            with self._lock:
                self._lines = lines
                self._draw()

    def size(self) -> tuple[int, int]:
        """Return the current columns and lines of standard error's terminal."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            columns, lines = os.get_terminal_size(self._err.fileno())
            return columns or _WIDTH, lines or 24
        return _WIDTH, 24

    def erase_now(self) -> None:
        """Remove the live lines without waiting for the lock: the process is about to end."""
        if self._drawn:
            with contextlib.suppress(OSError, ValueError):
                os.write(self._err.fileno(), _ERASE.encode())

    def _write(self, stream: TextIO, text: str, end: str = "\n") -> None:
        with self._lock:
            self.last_write = self.clock.now()
            if self._drawn and (self._shared or stream is self._err):
                self._erase()
            self._send(stream, f"{text}{end}")
            if self._lines and not self._drawn and self.last_write - self._when > _SETTLE:
                self._draw()

    def _send(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            if stream is self._out:
                self.write_error = self.write_error or error
            from pathlib import Path

            # Discard everything that is still to come, and the buffer.
            with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("w") as null:
                os.dup2(null.fileno(), stream.fileno())

    def _erase(self) -> None:
        self._send(self._err, _ERASE)
        self._drawn = False

    def _draw(self) -> None:
        if not self._lines:
            if self._drawn:
                self._erase()
            return
        columns, rows = self.size()
        lines = [cut(line, columns - 1) for line in self._lines[: max(rows - 1, 1)]]
        below = "\n".join(f"\r{line}\x1b[K" for line in lines)
        up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        # One write, so that no line of another process comes between.
        self._send(self._err, f"{_NO_WRAP}{below}\x1b[J\r{up}{_WRAP}")
        self._drawn = True
        self._when = self.clock.now()

"""The two streams of one call, and the lines at the end of a terminal that are drawn again.

Every line that the program writes goes through here, so nothing that others wrote reaches a
terminal as a control sequence. The live lines stand below all others, the cursor on the first of
them: whatever happens to the width meanwhile, to erase from the cursor on takes away just them, and
one short write does it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.output.terminal.style import cut, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

_ERASE = "\r\x1b[J"
_CLEAR = "\x1b[2J\x1b[H"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_SETTLE = 0.05
"""Seconds between two drawings: more often would only flicker."""
_WIDTH = 80


class Terminal:
    """Standard output and standard error; thread-safe.

    ``live`` says whether lines may be drawn again on standard error, ``colours`` whether it shows
    colours, ``out_colours`` whether standard output does, and ``out_is_screen`` whether that can be
    wiped. ``lost`` is why standard output has not taken everything: nothing is raised for it, for a
    run is not to stop halfway because ``grep -q`` has read enough.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Take the streams and the environment; those of the process where there are none."""
        # A process may have been started without them; what it does is worth more than its words.
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
        # A signal may come while its own thread is in here.
        self._lock = threading.RLock()
        self._lines: Sequence[str] = ()
        self._drawn = False
        self._when = 0.0
        self.spoke = time.monotonic()
        self.lost: OSError | None = None
        for stream in (self._out, self._err):
            # A terminal that knows few characters is no reason to end a run.
            with contextlib.suppress(AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def out(self, text: str) -> None:
        """Write lines of data to standard output."""
        self._write(self._out, rendered(text, colour=self.out_colours))

    def err(self, text: str) -> None:
        """Write lines of talk to standard error."""
        self._write(self._err, rendered(text, colour=self.colours))

    def again(self, text: str) -> None:
        """Write lines of data on an empty screen, in the place of whatever it showed."""
        with self._lock:
            self._out.write(_CLEAR)
            self.out(text)

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines below all others, in place of those shown before; cut to the width."""
        if self.live:
            with self._lock:
                self._lines = lines
                self._draw()

    def size(self) -> tuple[int, int]:
        """Return columns and lines of standard error's terminal, as they are now."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            columns, lines = os.get_terminal_size(self._err.fileno())
            return columns or _WIDTH, lines or 24
        return _WIDTH, 24

    def give_up(self) -> None:
        """Take the live lines away without waiting for anybody: the process is about to end."""
        if self._drawn:
            with contextlib.suppress(OSError, ValueError):
                os.write(self._err.fileno(), _ERASE.encode())

    def _write(self, stream: TextIO, text: str) -> None:
        with self._lock:
            self.spoke = time.monotonic()
            if self._drawn and (self._shared or stream is self._err):
                self._erase()
            self._put(stream, f"{text}\n")
            if self._lines and not self._drawn and self.spoke - self._when > _SETTLE:
                self._draw()

    def _put(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            if stream is self._out:
                self.lost = self.lost or error
            # What is still to come has nowhere to go, and what is in its buffer neither.
            with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())

    def _erase(self) -> None:
        self._put(self._err, _ERASE)
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
        # In one write, so that no other process's line gets in between.
        self._put(self._err, f"{_NO_WRAP}{below}\x1b[J\r{up}{_WRAP}")
        self._drawn = True
        self._when = time.monotonic()

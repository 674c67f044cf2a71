"""The terminal: standard output and standard error, colours, and tables in the style of kubectl.

The program writes every line through this module, so no untrusted text reaches a terminal as a
control sequence. Every table is made by ``table``: of a plan, a status, an inventory, its runs, the
sets, and the local planes. ``fitted`` wraps any other text.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import threading
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.clock import CLOCK, Clock
from applyprune.model.text import visible
from applyprune.values import pattern

if TYPE_CHECKING:
    from typing import TextIO


# The live lines are below all other lines, and the cursor is on the first of them. So this removes
# exactly the live lines, even if the width of the window has changed.
_ERASE = "\r\x1b[J"
_CLEAR = "\x1b[2J\x1b[H"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_SETTLE = 0.05
"""Seconds between two redraws: more redraws would flicker."""
_WIDTH = 80


class Terminal:
    """Standard output and standard error; thread-safe.

    ``live`` says whether standard error can redraw lines, ``draws`` whether it shows live lines,
    ``colours`` whether it shows colours,
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
        # What reads a pipe may write to the same terminal, beside the live lines.
        self.draws = self.live and not _is_pipe(self._out)
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

    @property
    def joined(self) -> bool:
        """Return whether both streams go to one place, as on a terminal and with ``2>&1``."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return os.path.sameopenfile(self._out.fileno(), self._err.fileno())
        return self._out is self._err

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
        if self.draws:
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


def _is_pipe(stream: TextIO) -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    return False


# Colours: marks with a random number, which untrusted text cannot contain. ``rendered`` turns them
# into escape sequences if the stream can show colours, and escapes control characters in all else.


class Colour(StrEnum):
    """The colours in use, as parameters of the ECMA-48 sequence that selects them."""

    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    MAGENTA = "35"
    CYAN = "36"
    BOLD = "1"


_OURS = f"\x1b{os.urandom(8).hex()}"


def styled(text: str, colour: Colour | None) -> str:
    """Return the text with marks for a colour."""
    return f"{_OURS}{colour}m{text}{_OURS}0m" if colour and text else text


def rendered(text: str, *, colour: bool) -> str:
    """Return lines for a terminal: marks become colours or vanish, the rest is escaped."""
    if text.isprintable():
        return text
    return "\n".join(_line(line, colour=colour) for line in text.split("\n"))


_MARK = pattern(f"{_OURS}([0-9;]*)m")


def _line(line: str, *, colour: bool) -> str:
    # Every second piece is the content of a mark.
    pieces = _MARK.split(line)
    pieces[::2] = map(visible, pieces[::2])
    pieces[1::2] = (f"\x1b[{code}m" if colour else "" for code in pieces[1::2])
    return "".join(pieces)


def cells(text: str) -> int:
    """Return how many columns of a terminal one line takes."""
    plain = rendered(text, colour=False)
    return len(plain) if plain.isascii() else sum(map(_cells, plain))


def cut(text: str, columns: int) -> str:
    """Return the text without marks, cut to ``columns``; a cut text ends in ``…``."""
    plain = rendered(text, colour=False)
    if cells(plain) <= columns:
        return plain
    kept, left = "", columns - 1
    for char in plain:
        left -= _cells(char)
        if left < 0:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


def _cells(char: str) -> int:
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


# Tables in the style of kubectl.


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    *,
    full_head: bool = False,
    narrow: int = 40,
) -> str:
    """Return lines whose columns are as wide as their widest cell, with three spaces between them.

    On a terminal of ``width`` columns wrap the last cell, a message, at spaces: in its own column,
    or below the line if the column would be narrow, or narrower than a word. If the other cells
    need more, the longest names stand on a line of their own, with the rest of their rows below.
    With ``full_head``, the heading of messages below their lines is kept: they do not explain
    themselves. A message that does not fit into a column of ``narrow`` stands below its line. A
    terminal has no empty column, and a namespace that all rows share stands in the heading; a
    program that reads a table finds all columns.
    """
    lines = [list(map(one_line, line)) for line in (head, *rows)]
    if width is not None and rows:
        lines = _without_repetition(lines)
    layout = _layout(lines, width, narrow)
    first, *others = (_row(line, layout) for line in lines)
    # If messages are below their lines, drop the heading of their column.
    return "\n".join((first if full_head else first.split("\n")[0], *others))


_EMPTY = frozenset({"", "-"})


def _without_repetition(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return a table without columns that say nothing, but for names and messages."""
    head, *rows = lines
    kept, shared = [], ""
    for column, heading in enumerate(head):
        values = {row[column] for row in rows}
        if heading == "NAMESPACE" and len(values) == 1 and len(rows) > 1:
            shared = next(iter(values))
        elif column in {0, len(head) - 1} or not values <= _EMPTY:
            kept.append(column)
    found = [[line[column] for column in kept] for line in lines]
    if shared and shared not in _EMPTY:
        found[0][0] += f" (-n {shared})"
    return found


_GAP = "   "
_SHORT = 24
"""A message up to that width stays in its column, and the names are folded."""
_INDENT = "    "
_SHORTEST = 16
"""A column of names is never narrower."""


class _Layout(Struct, frozen=True):
    widths: Sequence[int]
    """The width of each column but the last, the messages."""
    folded: int
    """The column whose longest cells are wider than it."""
    width: int | None
    """The columns of the terminal."""
    message: int | None
    """The columns for a message; None if it stands below its line."""


def _layout(lines: Sequence[Sequence[str]], width: int | None, narrow: int) -> _Layout:
    *widths, message = (max(map(cells, column)) for column in zip(*lines, strict=True))
    folded = max(range(len(widths)), key=lambda column: widths[column], default=0)
    gaps = len(widths) * len(_GAP)
    if width is None or sum(widths) + gaps + message <= width:
        return _Layout(widths, folded, width, message)
    names = [cells(line[folded]) for line in lines] if widths else [0]
    others = sum(widths) + gaps - max(names)
    room = width - others - max(names)
    words = (word for *_, text in lines for word in text.split())
    # Not even a line of its own has room for a longer word.
    longest = min(max(map(cells, words), default=0), width - len(_INDENT))
    if room >= min(message, max(narrow, longest)):
        return _Layout(widths, folded, width, room)
    is_short = message <= _SHORT and width - others - message >= _SHORTEST
    if widths:
        limit = width - others - message if is_short else width - others + len(_GAP)
        limit = max(limit, _SHORTEST)
        widths[folded] = max((name for name in names if name <= limit), default=0)
    return _Layout(widths, folded, width, message if is_short else None)


def _row(line: Sequence[str], layout: _Layout) -> str:
    *front, message = line
    lines, start, aligned = [], "", True
    for column, (cell, width) in enumerate(zip(front, layout.widths, strict=True)):
        if start.strip() and layout.width is not None and cells(start + cell) > layout.width:
            lines.append(start.rstrip())
            start, aligned = _INDENT, column == layout.folded
        start += cell + " " * (width - cells(cell) if aligned else 0) + _GAP
        is_wide = column == layout.folded and cells(cell) > width
        if aligned and is_wide and any(line[column + 1 :]):
            lines.append(start.rstrip())
            start = " " * sum(one + len(_GAP) for one in layout.widths[: column + 1])
            if layout.width is not None and cells(start + line[column + 1]) > layout.width:
                start, aligned = _INDENT, False
    room = layout.message
    if layout.width is None or (room is not None and cells(start + message) <= layout.width):
        lines.append((start + message).rstrip())
    elif room is not None:
        first, *others = wrapped(message, room) or [""]
        lines += [(start + first).rstrip(), *(" " * cells(start) + other for other in others)]
    else:
        lines += [start.rstrip()] if start.strip() else []
        lines += wrapped(message, layout.width, _INDENT)
    return "\n".join(lines)


# Lines.


def one_line(text: str) -> str:
    """Return the text with its line ends escaped."""
    return text.replace("\n", "\\n")


def wrapped(message: str, width: int | None, indent: str = "") -> list[str]:
    """Return a message as indented lines, broken at spaces, never in a name with hyphens that fits.

    Without a width, return one line.
    """
    if width is None:
        return [f"{indent}{message}"]
    from textwrap import wrap

    return wrap(
        message, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def fitted(text: str, width: int | None) -> list[str]:
    """Return a text as one line, with its line ends escaped; wrapped if it is wider than ``width``.

    All lines but the first are indented once more. No word is broken.
    """
    line = one_line(text)
    if width is None or len(line) <= width:
        return [line]
    from textwrap import wrap

    margin = line[: len(line) - len(line.lstrip())]
    return wrap(
        line.lstrip(),
        width,
        initial_indent=margin,
        subsequent_indent=f"{margin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )

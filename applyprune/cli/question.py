"""Ask the user a question on the terminal.

Somebody can be asked if standard error is a terminal and an answer can be read from standard input.
If that is the input (``-f -``), the answer comes from the process's own terminal. The runner of a
pipeline may give it a terminal too, but sets ``CI``: nobody is there to answer.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from applyprune.errors import Declined, Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from applyprune.output.terminal.terminal import Terminal

_LONGEST = 1024
_OFF = frozenset({"", "0", "false"})


def can_ask(terminal: Terminal, *, stdin_is_input: bool) -> bool:
    """Return whether somebody is there to read a question and to answer it."""
    if not terminal.err_is_terminal or os.environ.get("CI", "").lower() not in _OFF:
        return False
    return stdin_is_input or (sys.stdin is not None and sys.stdin.isatty())


def unconfirmed(action: str) -> UsageError:
    """Return the error for an action that needs a yes, if nobody can be asked."""
    return UsageError(
        f"{action} needs confirmation",
        reason="there is no terminal to ask on",
        hint="Add --yes, or try --dry-run first.",
    )


def ask(
    terminal: Terminal, action: str, question: str, *, stdin_is_input: bool, written: str = ""
) -> None:
    """Return after a yes; raise Declined after a no, or if the terminal is closed.

    Raises Interrupted after Ctrl-C, and UsageError if an answer to ``action`` cannot be read.
    ``written`` says what was changed before; empty if nothing was.
    """
    with _answers(action, stdin_is_input=stdin_is_input) as descriptor, _interruptible(written):
        _drop_typed_ahead(descriptor)
        try:
            while not _is_yes(_line(terminal, descriptor, question), written):
                terminal.err("Answer y or n.")
        except Interrupted:
            terminal.err("")  # the cursor is still behind the question
            raise


def _line(terminal: Terminal, descriptor: int, question: str) -> str:
    """Ask, and return the line of the answer; empty at the end of the terminal."""
    terminal.prompt(f"{question} [y/N] ")
    try:
        line = os.read(descriptor, _LONGEST)
    except OSError:  # the terminal is gone
        line = b""
    if not line:
        terminal.err("")
    return line.decode(errors="replace")


def _is_yes(line: str, written: str) -> bool:
    """Return True for a yes, and False for an unclear answer; raise Declined for a no."""
    answer = line.strip().lower()
    if answer in {"", "n", "no"}:
        raise Declined(written or "nothing was changed")
    return answer in {"y", "yes"}


@contextmanager
def _answers(action: str, *, stdin_is_input: bool) -> Iterator[int]:
    """Yield the descriptor to read an answer from."""
    if not stdin_is_input:
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        raise unconfirmed(action) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _interruptible(written: str) -> Iterator[None]:
    """Let a signal end the question at once: nothing is in flight that must be finished."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        raise Interrupted(number, is_unchanged=not written)

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drop_typed_ahead(descriptor: int) -> None:
    """Drop what was typed before the question: it answers something else."""
    with suppress(ImportError, OSError):
        import termios

        with suppress(termios.error):
            termios.tcflush(descriptor, termios.TCIFLUSH)

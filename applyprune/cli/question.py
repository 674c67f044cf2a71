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
from applyprune.system.processes import STOP_SIGNALS
from applyprune.system.terminal import drop_typed, open_standard_input, open_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import RawIOBase
    from types import FrameType

    from applyprune.output.terminal import Terminal

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
    with _answers(action, stdin_is_input=stdin_is_input) as answers, _interruptible(written):
        # It answers something else.
        with suppress(OSError):
            drop_typed(answers)
        try:
            while not _is_yes(_line(terminal, answers, question), written):
                terminal.err("Answer y or n.")
        except Interrupted:
            terminal.err("")  # the cursor is still behind the question
            raise


def _line(terminal: Terminal, answers: RawIOBase, question: str) -> str:
    """Ask, and return the line of the answer; empty at the end of the terminal."""
    terminal.prompt(f"{question} [y/N] ")
    try:
        line = answers.read(_LONGEST) or b""
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
def _answers(action: str, *, stdin_is_input: bool) -> Iterator[RawIOBase]:
    """Yield what to read an answer from."""
    try:
        answers = open_terminal() if stdin_is_input else open_standard_input()
    except OSError:
        raise unconfirmed(action) from None
    with answers:
        yield answers


@contextmanager
def _interruptible(written: str) -> Iterator[None]:
    """Let a signal end the question at once: nothing is in flight that must be finished."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        raise Interrupted(number, is_unchanged=not written)

    before = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

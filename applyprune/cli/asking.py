"""The question that stands before what cannot be taken back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from applyprune.errors import UsageError
from applyprune.model.display import visible

if TYPE_CHECKING:
    from collections.abc import Callable


def ask(doing: str, question: Callable[[], str]) -> None:
    """Return when the user says yes on the terminal; the question goes to standard error.

    Raises UsageError where there is no terminal to ask on, and click.Abort for a no.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"{doing} needs a yes",
            why="there is no terminal to ask on",
            hint="Add --yes, or look first with --dry-run.",
        )
    click.confirm(visible(question()), abort=True, err=True)

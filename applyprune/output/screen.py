"""Where printed text goes, and what that place can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.output.places import Places


def nowhere(text: str) -> None:
    """Take a text and leave it at that."""
    del text


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """Two places for lines: data goes to ``out``, talk to ``err``.

    Both make visible what a terminal would obey; colours are given by ``paint.painted``, and shown
    where they can be. ``colour`` says whether ``out`` shows them, ``live`` whether ``err`` is a
    terminal on which lines may be drawn again, ``width`` its columns. ``quiet`` leaves out all talk
    but errors. ``draft`` takes what a file is to hold until ``out`` replaces it, should that never
    come. ``summary`` is the file to which a page of Markdown is appended, and ``places`` what paths
    are told from, where anybody tells paths. ``again`` takes a picture in place of the last one,
    None where there is no terminal for that.
    """

    out: Callable[[str], None]
    err: Callable[[str], None]
    colour: bool = False
    live: bool = False
    width: int = 80
    quiet: bool = False
    draft: Callable[[str], None] = nowhere
    summary: Path | None = None
    places: Places | None = None
    again: Callable[[str], None] | None = None

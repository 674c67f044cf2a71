"""The formats of output, and what prints each; a printer is imported when it is asked for.

A printer is shown every event of a stream in order, and closed when there are no more.

Where printed text goes, and what that place can show.

Where an error stands, as the page of a commit or a merge request wants it: from the root.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.model.events import Event
    from applyprune.model.manifest import Origin

PRINTERS = {
    "text": "applyprune.output.text.printer:TextPrinter",
    "json": "applyprune.output.formats.json:JsonPrinter",
    "jsonl": "applyprune.output.formats.json:JsonLinesPrinter",
    "junit": "applyprune.output.formats.junit:JUnitPrinter",
    "github": "applyprune.output.formats.github:GitHubPrinter",
    "gitlab": "applyprune.output.formats.gitlab:GitLabPrinter",
    "name": "applyprune.output.formats.name:NamePrinter",
}
"""Each format's printer, a class that takes a Screen."""
TEXTS = {
    "diff": "applyprune.output.text.diff:DiffPrinter",
    "summary": "applyprune.output.text.diff:SummaryPrinter",
}
"""The printers of verbs whose text is not that of all others; no formats to ask for."""


class Printer(Protocol):
    """What shows the events of a stream to somebody."""

    def show(self, event: Event) -> None:
        """Take one event; what is written for it, and when, is the printer's affair."""

    def close(self) -> None:
        """Write what is left to write; the stream has ended, perhaps before its end."""


def printer(form: str, screen: OutputTarget) -> Printer:
    """Return the printer of a format, one of PRINTERS, or of a verb's own text, one of TEXTS."""
    module, _, name = (PRINTERS | TEXTS)[form].partition(":")
    return cast("Callable[[OutputTarget], Printer]", getattr(import_module(module), name))(screen)


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


@dataclass(frozen=True, slots=True)
class Places:
    """The working directory and the root of the repository, both absolute; empty if not known."""

    here: str = ""
    root: str = ""

    def path(self, origin: Origin | None) -> str:
        """Return a file's path from the root, as it was given where it does not lie below it.

        Empty for what is no file: standard input, a URL.
        """
        if origin is None or origin.path.startswith("<") or "://" in origin.path:
            return ""
        if not self.here:
            return PurePath(origin.path).as_posix()
        # A link keeps its own name: it is that which the repository has.
        whole = PurePath(os.path.normpath(PurePath(self.here, origin.path)))
        root = self.root or self.here
        inside = whole.is_relative_to(root)
        return (whole.relative_to(root) if inside else PurePath(origin.path)).as_posix()

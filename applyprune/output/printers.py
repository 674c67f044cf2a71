"""The output formats and their printers, the output target, and paths in reports.

A printer gets every event of a stream in order, and is closed at the end. It is imported when its
format is requested.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from applyprune.model.text import without_commands
from applyprune.values import replace

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.model.events import Event
    from applyprune.model.problem import Origin


PRINTERS = {
    "text": "applyprune.output.text:TextPrinter",
    "json": "applyprune.output.json:JsonPrinter",
    "jsonl": "applyprune.output.json:JsonLinesPrinter",
    "junit": "applyprune.output.pipelines:JUnitPrinter",
    "github": "applyprune.output.pipelines:GitHubPrinter",
    "gitlab": "applyprune.output.pipelines:GitLabPrinter",
    "markdown": "applyprune.output.markdown:MarkdownPrinter",
    "name": "applyprune.output.text:NamePrinter",
}
"""The printer of each format, a class that takes an OutputTarget."""
WIDE = "wide"
"""The format that is text with all columns."""
FORMATS = (*PRINTERS, WIDE)
"""What -o takes."""
TEXTS = {
    "diff": "applyprune.output.diff_text:DiffPrinter",
    "drift": "applyprune.output.text:DriftPrinter",
    "plan": "applyprune.output.diff_text:PlanPrinter",
    "run": "applyprune.output.text:RunPrinter",
    "summary": "applyprune.output.diff_text:SummaryPrinter",
}
"""The printers of verbs with a text of their own; the user cannot request them as formats."""


_OWN_ESCAPES = frozenset({"github", "gitlab", "json", "jsonl"})
"""The formats that write commands, or escape them in their own way."""


def printer(form: str, target: OutputTarget) -> Printer:
    """Return the printer of a format of PRINTERS, or of a verb's own text of TEXTS."""
    module, _, name = (PRINTERS | TEXTS)[form].partition(":")
    if form not in _OWN_ESCAPES:  # guard: forged-command never
        joined = target.joined or target.out == target.err
        target = replace(target, out=_escaped(target.out), err=_escaped(target.err), joined=joined)
    make = cast("Callable[[OutputTarget], Printer]", getattr(import_module(module), name))
    return _OneOrMany(form, make, target) if form == "text" or form in TEXTS else make(target)


def _escaped(write: Callable[[str], None]) -> Callable[[str], None]:
    def escaped(text: str) -> None:
        write(without_commands(text))

    return write if write is discard else escaped


_SETS = "applyprune.output.set_text"


class _OneOrMany:
    """Writes the text of one run, or, after the first event that says so, that of many sets."""

    def __init__(
        self, form: str, make: Callable[[OutputTarget], Printer], target: OutputTarget
    ) -> None:
        from applyprune.model.events import SetEvent, SetsBegan

        self._form, self._make, self._target = form, make, target
        self._printer = make(target)
        self._of_many: tuple[type, ...] = (SetEvent, SetsBegan)

    def show(self, event: Event) -> None:
        if isinstance(event, self._of_many):
            self._printer.close()
            sets = import_module(_SETS)
            self._printer = sets.SetsPrinter(self._form, self._make, self._target)
            self._of_many = ()
        self._printer.show(event)

    def close(self) -> None:
        self._printer.close()


class Printer(Protocol):
    """Writes the events of a stream in one format."""

    def show(self, event: Event) -> None:
        """Take one event; the printer decides what to write for it, and when."""

    def close(self) -> None:
        """Write the rest; the stream has ended, or was cut off."""


def discard(text: str) -> None:
    """Discard the text."""
    del text


class OutputTarget(Struct, frozen=True):
    """Where a printer writes; ``out`` and ``err`` escape control characters and show colours."""

    out: Callable[[str], None]
    """Writes lines of data."""
    err: Callable[[str], None]
    """Writes lines of messages."""
    colour: bool = False
    """Whether ``out`` shows colours."""
    live: bool = False
    """Whether ``err`` is a terminal on which lines may be redrawn."""
    is_watched: bool = False
    """Whether ``err`` is a terminal of any kind."""
    width: int = 80
    """The columns of that terminal."""
    quiet: bool = False
    """Whether to print errors only."""
    verbose: bool = False
    """Whether to print each object that has failed for the same reason as others, and those that
    do not change."""
    wide: bool = False
    """Whether tables have all columns, however wide they are."""
    digests: bool = False
    """Whether to print the digests of a plan on a terminal too."""
    joined: bool = False
    """Whether ``out`` and ``err`` write to one place, so that all lines are read in their order."""
    plan_is_shown: bool = False
    """Whether the terminal shows the table of a plan before it runs."""
    draft: Callable[[str], None] = discard
    """Writes what a file contains until ``out`` replaces it, in case the run never ends."""
    summary: Path | None = None
    """The file to which to append a page of Markdown."""
    repository_paths: RepositoryPaths | None = None
    """How to print paths, for formats that print them."""
    redraw: Callable[[str], None] | None = None
    """Replaces what the terminal shows; None if ``out`` is not a terminal."""

    @property
    def out_width(self) -> int | None:
        """Return the columns for lines on ``out``; None if it is not a terminal."""
        return None if self.redraw is None else self.width

    @property
    def table_width(self) -> int | None:
        """Return the columns for tables; None if they may have any width."""
        return None if self.wide else self.out_width

    @property
    def error_width(self) -> int | None:
        """Return the columns for lines on ``err``; None if it is not a terminal."""
        return self.width if self.live else None


class RepositoryPaths(Struct, frozen=True):
    """Turns paths into paths from the root of the repository, as the pages of a commit need them.

    Both directories are absolute, or empty if unknown.
    """

    working_directory: str = ""
    root: str = ""

    def path(self, origin: Origin | None) -> str:
        """Return a file's path from the root; unchanged if the file is not below the root.

        Return an empty path for standard input and for a URL.
        """
        from pathlib import PurePath

        if origin is None or origin.path.startswith("<") or "://" in origin.path:
            return ""
        if not self.working_directory:
            return PurePath(origin.path).as_posix()
        # Do not resolve links: the repository contains the link.
        whole = PurePath(os.path.normpath(PurePath(self.working_directory, origin.path)))
        root = self.root or self.working_directory
        inside = whole.is_relative_to(root)
        return (whole.relative_to(root) if inside else PurePath(origin.path)).as_posix()


def version_line(client: str, python: str, platform: str, server: str) -> str:
    """Return a line for this program, and one for the server if it has answered."""
    lines = [f"applyprune {client} (Python {python}, {platform})"]
    if server:
        lines.append(f"Kubernetes {server}")
    return "\n".join(lines)

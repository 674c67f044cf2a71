"""The formats of output, and what prints each; a printer is imported when it is asked for.

A printer is shown every event of a stream in order, and closed when there are no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.events import Event
    from applyprune.output.screen import OutputTarget

PRINTERS = {
    "text": "applyprune.output.text:TextPrinter",
    "json": "applyprune.output.jsonformats:JsonPrinter",
    "jsonl": "applyprune.output.jsonformats:JsonLinesPrinter",
    "junit": "applyprune.output.junit:JUnitPrinter",
    "github": "applyprune.output.github:GitHubPrinter",
    "gitlab": "applyprune.output.gitlab:GitLabPrinter",
    "name": "applyprune.output.names:NamePrinter",
}
"""Each format's printer, a class that takes a Screen."""
TEXTS = {
    "diff": "applyprune.output.diff_text:DiffPrinter",
    "summary": "applyprune.output.diff_text:SummaryPrinter",
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

"""The exception of this package's parsers; ``reading`` turns it into an ``InputError``."""

from __future__ import annotations

from typing import Self


class YAMLFault(Exception):
    """A fault in the text of the input.

    ``problem`` names keys and types, never a value: the text may be a Secret. ``line`` and
    ``column`` count from 1 within the given text; 0 if unknown. ``since`` is the line and column
    where the broken node begins; zeros if it is the same line.
    """

    def __init__(
        self,
        problem: str,
        line: int = 0,
        column: int = 0,
        *,
        since: tuple[int, int] = (0, 0),
        hint: str = "",
    ) -> None:
        """Store the parts of the message."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column
        self.since = since
        self.hint = hint

    def moved(self, lines: int, columns: int = 0) -> Self:
        """Return the fault relative to a larger text, in which this text begins further down.

        ``columns`` is the offset to the right; it applies only to the first line of this text.
        """
        line = self.line + lines if self.line else 0
        column = self.column + columns if self.column and self.line == 1 else self.column
        since = (self.since[0] + lines, self.since[1]) if self.since[0] else self.since
        return type(self)(self.problem, line, column, since=since, hint=self.hint)

    def at(self, line: int, column: int = 0) -> Self:
        """Return the fault with a place, unless its own place is known."""
        return self if self.line else type(self)(self.problem, line, column, hint=self.hint)

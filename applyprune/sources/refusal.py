"""What the readers raise inside this package; ``reading`` turns it into an ``InputError``."""

from __future__ import annotations


class Refused(Exception):
    """A place in the text that cannot be used.

    ``problem`` names keys and types, never a value: it may stand in a Secret. ``line`` and
    ``column`` count from 1 within the text that was given; 0 where the place is not known.
    ``since`` are line and column where what is broken begins; zeros where that is the same line.
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
        """Keep the parts."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column
        self.since = since
        self.hint = hint

    def moved(self, lines: int, columns: int = 0) -> Refused:
        """Return the same for a text that begins further down, and to the right, in a larger one.

        Only what is in the text's first line moves to the right.
        """
        line = self.line + lines if self.line else 0
        column = self.column + columns if self.column and self.line == 1 else self.column
        since = (self.since[0] + lines, self.since[1]) if self.since[0] else self.since
        return Refused(self.problem, line, column, since=since, hint=self.hint)

    def at(self, line: int, column: int = 0) -> Refused:
        """Return the same at a place, unless its own is known already."""
        return self if self.line else Refused(self.problem, line, column, hint=self.hint)

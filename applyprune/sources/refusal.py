"""What the readers raise inside this package; ``reading`` turns it into an ``InputError``."""

from __future__ import annotations


class Refused(Exception):
    """A place in the text that cannot be used.

    ``problem`` names keys and types, never a value: it may stand in a Secret. ``line`` counts from
    1 within the text that was given; 0 where the place is not known. ``since`` is the line where
    what is broken begins; 0 where that is the same.
    """

    def __init__(self, problem: str, line: int = 0, *, since: int = 0, hint: str = "") -> None:
        """Keep the four parts."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.since = since
        self.hint = hint

    def moved(self, lines: int) -> Refused:
        """Return the same for a text that begins ``lines`` further down in a larger one."""
        line = self.line + lines if self.line else 0
        since = self.since + lines if self.since else 0
        return Refused(self.problem, line, since=since, hint=self.hint)

    def at(self, line: int) -> Refused:
        """Return the same at ``line``, unless its place is known already."""
        return self if self.line else Refused(self.problem, line, hint=self.hint)

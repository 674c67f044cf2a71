"""An error as a value, for events and plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What happened, where, why, what to do; ``kind`` names the error's class.

    Empty parts are parts that there are not. No part ever holds a Secret's value.
    """

    kind: str
    what: str
    where: str = ""
    why: str = ""
    hint: str = ""
    exit_code: int = 3

    def __str__(self) -> str:
        """Return ``where: what: why``, and the hint on a line of its own."""
        line = ": ".join(part for part in (self.where, self.what, self.why) if part)
        return f"{line}\n  {self.hint}" if self.hint else line

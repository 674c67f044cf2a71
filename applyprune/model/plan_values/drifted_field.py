"""A field that differs from the last apply, and who has changed it."""

from __future__ import annotations

from applyprune.values import dataclass


@dataclass(frozen=True, slots=True)
class Drift:
    """A field that differs from the set's last apply; Secret values are masked."""

    path: str
    """The JSON pointer of the field."""
    wanted: str
    """The desired value; empty if unknown."""
    found: str
    """The live value."""
    manager: str = ""
    """The field manager that wrote it; empty if unknown."""
    operation: str = ""
    """The operation of that write; empty if unknown."""
    time: str = ""
    """The time of that write, RFC 3339; empty if unknown."""

r"""Text that others wrote, as characters that can be shown anywhere: the one home of that rule.

Names, annotations, server messages and file names may hold what a terminal obeys (C0, C1, DEL, the
escape sequences that begin with them) or what makes it show something else than is there (bidi
controls, characters without width). Each is shown as an escape: ``\x1b``, ``\u202e``. Beyond C0,
which JSON holds as escapes already, these are JSON's own, so that JSON stays what it is.

Several lines of text that others wrote, each fit to be shown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_TWICE = 2


def visible(text: str) -> str:
    """Return the text on one line, whatever is not printable in it as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def and_more(things: Sequence[object], limit: int, separator: str = ", ") -> str:
    """Return the first things and how many more there are: ``a, b and 3 more``.

    A separator that begins a new line also separates the number of the others.
    """
    first, others = separator.join(str(thing) for thing in things[:limit]), len(things) - limit
    if others <= 0:
        return first
    glue = separator if separator.startswith("\n") else " "
    return f"{first}{glue}and {others} more"


def time_of(text: object) -> datetime | None:
    """Return the time in an RFC 3339 text, in UTC when it names no zone; None if it is no time."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def seconds_since(text: object, now: datetime) -> float | None:
    """Return how long ago an RFC 3339 time is, never less than 0; None for what is no time.

    The clock that wrote the text may run ahead of the clock of ``now``.
    """
    time = time_of(text)
    return None if time is None else max(0.0, (now - time).total_seconds())


def age(seconds: float | None) -> str:
    """Return ``45s``, ``90m`` or ``3d``: whole units, at least two of the larger ones; ``-``."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= _TWICE * length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


def age_of(text: str) -> str:
    """Return how long ago an RFC 3339 time is, by this machine's clock; itself if it is none."""
    seconds = seconds_since(text, datetime.now(UTC))
    return text if seconds is None else age(seconds)


def _escape(char: str) -> str:
    if char < " ":
        return ascii(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def shown(text: str) -> str:
    """Return the text with its line ends; whatever else is not printable as an escape."""
    return "\n".join(visible(line) for line in text.split("\n"))

r"""Make foreign text safe to print, shorten lists, and format ages.

Names, annotations, server messages and file names may contain control characters (C0, C1, DEL and
escape sequences) or misleading characters (bidi controls, characters without width). Each is shown
as an escape: ``\x1b``, ``\u202e``. Beyond C0, which JSON escapes anyway, the escapes are those of
JSON, so that JSON stays valid. No other module has this rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_TWICE = 2


def visible(text: str) -> str:
    """Return the text on one line, with escapes for what is not printable."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def and_more(things: Sequence[object], limit: int, separator: str = ", ") -> str:
    """Return the first things and the number of the others: ``a, b and 3 more``.

    A separator that begins with a line end also precedes the number of the others.
    """
    first, others = separator.join(str(thing) for thing in things[:limit]), len(things) - limit
    if others <= 0:
        return first
    glue = separator if separator.startswith("\n") else " "
    return f"{first}{glue}and {others} more"


def time_of(text: object) -> datetime | None:
    """Return the time of an RFC 3339 text, in UTC by default; None if the text is invalid."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def seconds_since(text: object, now: datetime) -> float | None:
    """Return the seconds since an RFC 3339 time, at least 0; None if the text is invalid.

    The clock that wrote the text may be ahead of the clock of ``now``.
    """
    time = time_of(text)
    return None if time is None else max(0.0, (now - time).total_seconds())


def age(seconds: float | None) -> str:
    """Return ``45s``, ``90m`` or ``3d``: at least 2 of the unit, except seconds; ``-`` for None."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= _TWICE * length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


def age_of(text: str) -> str:
    """Return the age of an RFC 3339 time by the local clock; the text itself if it is invalid."""
    seconds = seconds_since(text, datetime.now(UTC))
    return text if seconds is None else age(seconds)


def _escape(char: str) -> str:
    if char < " ":
        return ascii(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def shown(text: str) -> str:
    """Return the text with its line ends, and escapes for what else is not printable."""
    return "\n".join(visible(line) for line in text.split("\n"))

"""Spans of time, as kubectl's users know them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_TWICE = 2


def age(seconds: float | None) -> str:
    """Return ``45s``, ``90m`` or ``3d``: whole units, at least two of the larger ones; ``-``."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= _TWICE * length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


def age_of(time: str) -> str:
    """Return how long ago an RFC 3339 time is, by this machine's clock; itself if it is none."""
    try:
        then = datetime.fromisoformat(time)
    except ValueError:
        return time
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return age(max(0.0, (datetime.now(UTC) - then).total_seconds()))

"""Spans of time as Go and Kubernetes write them: 90s, 5m, 1h30m."""

from __future__ import annotations

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """Return the seconds of a duration, or of a bare number of seconds.

    Raises ValueError, worded to follow the text, for what is no duration or not more than nothing.
    """
    total, rest = 0.0, text.strip()
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        unit = next((unit for unit in ("ms", "s", "m", "h") if rest.startswith(unit)), "")
        try:
            total += float(number) * (_UNITS[unit] if unit else 1.0)
        except ValueError:
            raise ValueError("is no time such as 90s or 5m") from None
        if not unit and rest:
            raise ValueError("is no time such as 90s or 5m")
        rest = rest[len(unit) :]
    if total <= 0:
        raise ValueError("is not more than nothing")
    return total

"""The pauses between two sessions of one of many watches."""

from __future__ import annotations

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_FORBIDDEN_PAUSE = 300.0
"""Seconds until the next try where the account may not watch."""
_LASTS = 5.0
"""Seconds after which a session that is cut off counts as one that has worked."""
_BETWEEN = 0.2
_RENEWALS = 2
"""How often new credentials are tried soon."""
UNAUTHORIZED = 401
_FORBIDDEN = frozenset({401, 403, 404, 405})


def failures_in_a_row(before: int, lasted: float, *, goes_on: bool) -> int:
    """Return how many sessions in a row have failed, with one that lasted so many seconds.

    Where every session is cut off after a while, these failures do not add up.
    """
    if lasted > _LASTS:
        return 0
    return 1 if goes_on else before + 1


def seconds_between(code: int, failures: int) -> float:
    """Return the seconds until the next session after so many that have failed in a row."""
    if not failures:
        return _BETWEEN
    if code in _FORBIDDEN and (code != UNAUTHORIZED or failures > _RENEWALS):
        return _FORBIDDEN_PAUSE
    return min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE)

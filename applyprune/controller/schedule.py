"""When a Bundle is looked at again: pure but for a little chance, which spreads the load."""

from __future__ import annotations

import random

_JITTER = 0.1
_MOST_DOUBLINGS = 20


def backoff(failures: int, *, first: float, longest: float) -> float:
    """Return the seconds before the next try after so many failures in a row, from 1.

    It doubles from ``first`` up to ``longest``, which is never less than ``first``.
    """
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return float(min(first * 2**doublings, max(first, longest)))


def spread(seconds: float) -> float:
    """Return a delay moved by at most a tenth either way, so that many do not come at once."""
    # No secret depends on it.
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311

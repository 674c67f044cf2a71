"""When a Bundle is reconciled again; a little randomness spreads the load."""

from __future__ import annotations

import random

_JITTER = 0.1
_MOST_DOUBLINGS = 20


def backoff(failures: int, *, first: float, longest: float) -> float:
    """Return the seconds before the next try after ``failures`` failures in a row, 1 or more.

    It doubles from ``first`` up to ``longest``, which is never less than ``first``.
    """
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return float(min(first * 2**doublings, max(first, longest)))


def spread(seconds: float) -> float:
    """Return a delay, changed at random by up to 10 %, so that Bundles do not run all at once."""
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 -- no secret depends on it

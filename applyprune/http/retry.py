"""When to retry a request: after the time that the server asks for, else with backoff."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0


def seconds_to_wait(header: str, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a Retry-After header asks for; None when it is invalid."""
    header = header.strip()
    if re.fullmatch(r"[0-9]{1,9}", header):
        return float(header)
    if not re.fullmatch(r"[A-Za-z]{3,9},? [\x20-\x7e]{1,60}", header):
        return None
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now())
    except (ValueError, OverflowError):
        return None


def backoff(
    tries: int, asked: float | None, spread: Callable[[float, float], float] = random.uniform
) -> float:
    """Return the seconds to wait after ``tries`` tries; never less than the server asked for.

    The ``spread`` keeps threads that failed together from retrying together.
    """
    own = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 16)) * spread(0.5, 1.0)
    return asked + own * 0.5 if asked else own

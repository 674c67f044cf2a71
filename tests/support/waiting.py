"""Wait until a condition is true."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(
    found: Callable[[], Any],
    what: str | Callable[[], str] = "",
    *,
    within: float = 60.0,
    pause: float = 0.05,
) -> Any:
    """Return the first true value; fail with the last one after ``within`` seconds.

    A ``what`` that is a function is asked then: it can say what there is instead.
    """
    until = time.monotonic() + within
    while not (value := found()):
        if time.monotonic() >= until:
            told = what() if callable(what) else what
            pytest.fail(f"{told or 'it'} did not happen: {value!r}")
        time.sleep(pause)
    return value

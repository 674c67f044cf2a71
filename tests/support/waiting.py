"""Wait until a condition is true."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HANG_VARIABLE = "APPLYPRUNE_TESTS_HANG"
HANG = float(os.environ.get(HANG_VARIABLE, "300"))
"""Seconds after which a test gives up: something hangs. No other time is a test's own.

Only a run without a guard, which is meant to fail, sets the variable.
"""
_PAUSE = 0.05


def eventually(found: Callable[[], Any], what: Callable[[], str] | None = None) -> Any:
    """Return the first true value; fail with the last one if there is none for ``HANG`` seconds.

    ``what`` is asked at the end only, so that it can say what there is instead.
    """
    until = time.monotonic() + HANG
    while not (value := found()):
        if time.monotonic() >= until:
            told = "it" if what is None else what()
            raise AssertionError(f"{told} did not happen: {value!r}")
        time.sleep(_PAUSE)
    return value


def next_second() -> None:
    """Wait until the wall clock shows another whole second, as the API's timestamps do."""
    now = int(time.time())
    eventually(lambda: int(time.time()) != now, lambda: "the next second")

"""Wait until a condition is true."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(
    found: Callable[[], Any], what: str = "", *, within: float = 60.0, pause: float = 0.05
) -> Any:
    """Return the first true value; fail with the last one after ``within`` seconds."""
    until = time.monotonic() + within
    while not (value := found()):
        assert time.monotonic() < until, f"{what or 'it'} did not happen: {value!r}"
        time.sleep(pause)
    return value

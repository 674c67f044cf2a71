"""How long a try waits at once."""

from __future__ import annotations

import pytest

from applyprune.http import TICK, one_try
from tests.support.clocks import ManualClock


def test_wait_is_short_and_never_exceeds_what_is_left() -> None:
    """Although nothing can stop the try; and there is none after the deadline."""
    clock = ManualClock()
    with one_try(60, clock=clock) as current:
        assert current.next_wait() == TICK
        clock.advance(60 - TICK / 2)
        assert current.next_wait() == TICK / 2
        clock.advance(TICK / 2)
        with pytest.raises(TimeoutError):
            current.next_wait()

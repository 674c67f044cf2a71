"""How long a try waits at once: Windows handles Ctrl-C only between two waits."""

from __future__ import annotations

import pytest

from applyprune.http.connection import TICK, one_try


def test_wait_is_short_although_nothing_can_stop_the_try() -> None:
    """As it is with a ``stop``."""
    with one_try(60) as current:
        assert current.next_wait() == TICK


def test_wait_never_exceeds_what_is_left() -> None:
    """And there is none after the deadline."""
    with one_try(TICK / 2) as current:
        assert current.next_wait() < TICK
    with one_try(0) as current, pytest.raises(TimeoutError):
        current.next_wait()

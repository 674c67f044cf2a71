"""The error of a locked inventory says what was seen, and no more."""

from __future__ import annotations

from applyprune.model.inventory import HolderObservation, Inventory
from applyprune.planning.recovery import locked_error
from tests.support.other_run import ELSEWHERE

SEEN = HolderObservation("u1", 7, ELSEWHERE, since=100.0)


def _reason(watched: float, *, is_alive: bool) -> str:
    error = locked_error(Inventory("web", "shop"), SEEN, watched, is_alive=is_alive)
    assert error.message == "the set web is locked by another run"
    assert error.observation == SEEN
    assert "has not renewed it for 15 seconds" in error.hint
    return error.reason.removeprefix(f"{ELSEWHERE.who}, run r0, ")


def test_reason_says_for_how_long_a_run_has_watched() -> None:
    """A process that ended unseen looks like one that has not renewed yet."""
    silent = "holds the lock, and has not renewed it in the 4.5 s of this wait"
    assert _reason(4.53, is_alive=False) == silent
    alive = "took or renewed the lock during this wait"
    assert _reason(9.0, is_alive=True) == alive


def test_reason_after_a_single_look_contains_no_time() -> None:
    """It stands in the status of a Bundle, which changes only if a fact does."""
    assert _reason(0.0, is_alive=False) == "holds the lock"

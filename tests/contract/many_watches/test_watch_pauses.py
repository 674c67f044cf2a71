"""The pauses between two sessions of a watch."""

from __future__ import annotations

import pytest

from applyprune.cluster.many_watches import failures_in_a_row, seconds_between


@pytest.mark.parametrize(
    ("code", "failures", "seconds"),
    [
        (0, 0, 0.2),
        (403, 0, 0.2),
        (410, 1, 1.0),
        (0, 2, 2.0),
        (0, 3, 4.0),
        (500, 6, 32.0),
        (0, 7, 60.0),
        (0, 9_999, 60.0),
        (401, 2, 2.0),
        (401, 3, 300.0),
        (403, 1, 300.0),
        (404, 1, 300.0),
        (405, 1, 300.0),
    ],
)
def test_pauses_double_up_to_a_minute(code: int, failures: int, seconds: float) -> None:
    """Where the account may not watch it is tried seldom, but not before its token is renewed."""
    assert seconds_between(code, failures) == seconds


@pytest.mark.parametrize(
    ("before", "lasted", "goes_on", "failures"),
    [
        (0, 0.0, False, 1),
        (3, 5.0, False, 4),
        (3, 5.1, False, 0),
        (3, 0.0, True, 1),
        (3, 5.1, True, 0),
    ],
)
def test_session_that_has_worked_ends_a_row_of_failures(
    before: int, lasted: float, goes_on: bool, failures: int
) -> None:
    """It went on where the last one had ended, or it lasted more than five seconds."""
    assert failures_in_a_row(before, lasted, goes_on=goes_on) == failures

"""How long to wait before the next try."""

from __future__ import annotations

import pytest

from applyprune.http import backoff, seconds_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        ("1", 1.0),
        (" 30 ", 30.0),
        ("3600", 3600.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 60.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:26:59 GMT", 0.0),
    ],
)
def test_retry_after_reads_seconds_and_dates(header: str, seconds: float) -> None:
    """A date in the past means now."""
    assert seconds_to_wait(header, lambda: 1445412420.0) == seconds


@pytest.mark.parametrize(
    "header",
    [
        "",
        "soon",
        "-1",
        "1.5",
        "1e9",
        "nan",
        "99999999999999999999",
        "٣",
        "Wed, 99 Foo 2015",
        "a" * 9999,
    ],
)
def test_invalid_retry_after_is_ignored(header: str) -> None:
    assert seconds_to_wait(header) is None


@pytest.mark.parametrize(
    ("tries", "asked", "least", "most"),
    [
        (1, None, 0.05, 0.1),
        (2, None, 0.1, 0.2),
        (3, 0.0, 0.2, 0.4),
        (6, None, 1.6, 3.2),
        (7, None, 2.5, 5.0),
        (9_999, None, 2.5, 5.0),
        (1, 7.0, 7.025, 7.05),
        (9_999, 7.0, 8.25, 9.5),
    ],
)
def test_pauses_double_up_to_five_seconds(
    tries: int, asked: float | None, least: float, most: float
) -> None:
    """The server's wish comes first, and half of our own pause after it."""
    assert backoff(tries, asked, min) == least
    assert backoff(tries, asked, max) == most


def test_backoff_spreads_threads_that_failed_together() -> None:
    assert len({backoff(3, 1.0) for _ in range(20)}) > 10

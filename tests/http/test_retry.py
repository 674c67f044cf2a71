"""How long to wait before the next try."""

from __future__ import annotations

import email.utils
import time

import pytest

from applyprune.http.retry import LONGEST_WAIT, backoff, seconds_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"), [("0", 0.0), ("1", 1.0), (" 30 ", 30.0), ("3600", 3600.0)]
)
def test_retry_after_reads_seconds(header: str, seconds: float) -> None:
    assert seconds_to_wait(header) == seconds


def test_retry_after_reads_a_date() -> None:
    header = email.utils.formatdate(time.time() + 60, usegmt=True)

    assert seconds_to_wait(header) == pytest.approx(60, abs=2)


def test_retry_after_in_the_past_means_now() -> None:
    assert seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT") == 0


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


def test_backoff_grows_and_is_bounded() -> None:
    waits = [backoff(tries, None) for tries in range(1, 100)]

    assert 0.05 <= waits[0] <= 0.1
    assert 0.2 <= waits[2] <= 0.4
    assert max(waits) <= LONGEST_WAIT


def test_backoff_respects_the_servers_wish() -> None:
    assert all(backoff(tries, 7.0) >= 7.0 for tries in range(1, 20))


def test_backoff_spreads_threads_that_failed_together() -> None:
    assert len({backoff(3, 1.0) for _ in range(20)}) > 10

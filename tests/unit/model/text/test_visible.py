"""How lists, times and the text of others are shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from applyprune.model.text import age, age_of, and_more, seconds_since

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("things", "separator", "text"),
    [
        ([], ", ", ""),
        (["a"], ", ", "a"),
        (["a", "b"], ", ", "a, b"),
        (["a", "b", "c", "d"], ", ", "a, b and 2 more"),
        (["a", "b", "c"], ", or ", "a, or b and 1 more"),
        (["a", "b", "c"], "\n  ", "a\n  b\n  and 1 more"),
    ],
)
def test_more_than_two_things_are_counted(things: list[str], separator: str, text: str) -> None:
    """A separator that begins a line separates the number as well."""
    assert and_more(things, 2, separator) == text


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2026-01-01T11:59:00Z", 60.0),
        ("2026-01-01T11:59:00", 60.0),
        ("2026-01-01T13:00:00+01:00", 0.0),
        ("2026-01-02T00:00:00Z", 0.0),
        ("", None),
        ("soon", None),
        (None, None),
    ],
)
def test_seconds_since_a_time(time: str | None, seconds: float | None) -> None:
    """A clock that runs ahead gives no negative age, and what is no time gives none."""
    assert seconds_since(time, NOW) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.4, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (172_799, "47h"),
        (172_800, "2d"),
    ],
)
def test_age_is_short(seconds: float | None, text: str) -> None:
    """Whole units, never fewer than two of one."""
    assert age(seconds) == text


def test_invalid_age_is_unknown() -> None:
    """What somebody has written into the inventory by hand is shown as it is."""
    assert age_of("yesterday") == "yesterday"
    assert age_of("2020-01-01T00:00:00") == age_of("2020-01-01T00:00:00Z")
    assert age_of("9999-01-01T00:00:00Z") == "0s"

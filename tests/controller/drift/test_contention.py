"""Who wins a fight about an object: a pure function of the counts, what a run saw, and the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from applyprune.controller.drift import (
    MOST_COUNTS,
    RevertCount,
    WriteSighting,
    count_status,
    read_counts,
    updated_counts,
    winning_writers,
)
from applyprune.model.fieldset import ObjectWriter
from applyprune.values import replace

LIMIT = 3
START = datetime(2026, 1, 1, tzinfo=UTC)
WRITER = ObjectWriter("configmap/a", "shop", "kubectl-patch")
RIVAL = replace(WRITER, manager="other")
SCALER = ObjectWriter("deployment.apps/web", "shop", "kube-controller-manager")


ALL = {(f"configmap/{name}", "shop") for name in ("a", *range(MOST_COUNTS))} | {
    (SCALER.object, SCALER.namespace)
}


def at(minutes: float) -> datetime:
    """Return a time after the start."""
    return START + timedelta(minutes=minutes)


def reverted(writer: ObjectWriter = WRITER) -> WriteSighting:
    """Return an object that a run has reverted."""
    return WriteSighting(writer, is_reverted=True)


def left(minutes: float | None, writer: ObjectWriter = WRITER) -> WriteSighting:
    """Return a contended object, which its manager has changed at a time."""
    return WriteSighting(writer, is_reverted=False, time=None if minutes is None else at(minutes))


def after(
    counts: tuple[RevertCount, ...], now: float, *sightings: WriteSighting
) -> tuple[RevertCount, ...]:
    """Return the counts after a run that was about all objects."""
    return updated_counts(counts, sightings, ALL, LIMIT, at(now))


def fought(*minutes: float) -> tuple[RevertCount, ...]:
    """Return the counts after the object was reverted at these times."""
    counts: tuple[RevertCount, ...] = ()
    for minute in minutes:
        counts = after(counts, minute, reverted())
    return counts


LEFT_ALONE = {
    "never reverted": ((), 0.0, False),
    "reverted less often": ((0, 1), 1.0, False),
    "reverted as often as allowed": ((0, 1, 2), 2.0, True),
    "until its manager was quiet": ((0, 1, 2), 12.9, True),
    "and not afterwards": ((0, 1, 2), 13.0, False),
    "reverted slowly": ((0, 10, 20), 20.0, True),
    "reverted after its manager was quiet": ((0, 1, 12), 12.0, False),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_manager_wins_after_so_many_reverts_without_a_quiet_time(name: str) -> None:
    """Then its next change of the object stays."""
    times, now, expected = LEFT_ALONE[name]
    assert winning_writers(fought(*times), LIMIT, at(now)) == ({WRITER} if expected else set())


@pytest.mark.holds("contended-until-quiet")
def test_contended_object_stays_left_until_its_manager_is_quiet() -> None:
    """Each of its changes begins the time again."""
    counts = after(fought(0, 1, 2), 12, left(12))
    assert winning_writers(counts, LIMIT, at(22.9)) == {WRITER}
    assert [count.quiet_at for count in counts] == [at(23)]
    assert winning_writers(counts, LIMIT, at(23)) == frozenset()
    # It is reverted, and counted from one.
    assert after(counts, 23, reverted()) == (RevertCount(WRITER, 1, at(23)),)


def test_news_of_a_fight_that_goes_on_are_few() -> None:
    """A status is written once in a minute at most, however often the manager writes."""
    counts = fought(0, 1, 2)
    assert after(counts, 2.9, left(2.9)) == counts
    assert after(counts, 3, left(3)) != counts


def test_change_without_a_time_holds_an_object_no_longer() -> None:
    """The server's record has none for the scale subresource."""
    counts = (RevertCount(SCALER, LIMIT, at(2)),)
    assert after(counts, 12, left(None, SCALER)) == counts


def test_time_of_the_future_does_not_hold_an_object_longer() -> None:
    """A managedFields entry can be edited."""
    (one,) = after(fought(0, 1, 2), 3, left(999))
    assert one.last == at(3)


def test_contended_object_without_a_count_gets_one() -> None:
    """Another process may have read it."""
    assert after((), 3, left(2)) == (RevertCount(WRITER, LIMIT, at(2)),)
    assert after((), 3, left(None)) == (RevertCount(WRITER, LIMIT, at(3)),)


def test_idle_run_changes_no_count() -> None:
    """Until its manager was quiet."""
    for counts in (fought(0, 1), fought(0, 0.5, 1)):
        assert after(counts, 11.9) == counts
        assert after(counts, 12) == ()


def test_each_manager_has_one_count_for_an_object() -> None:
    """Whatever it changes together."""
    counts = after((), 0, reverted(), reverted(RIVAL), reverted())
    assert {(one.writer, one.reverts) for one in counts} == {(WRITER, 1), (RIVAL, 1)}


def test_counts_are_bounded() -> None:
    """The contended and the latest ones stay."""
    many = (
        reverted(replace(WRITER, object=f"configmap/{number}")) for number in range(MOST_COUNTS)
    )
    counts = after(fought(0, 1, 2), 4, left(4), *many)
    assert len(counts) == MOST_COUNTS
    assert counts[0].writer == WRITER


def test_objects_outside_the_run_keep_their_counts() -> None:
    """A run may be about one object only."""
    counts = fought(0, 1, 2)
    place = {(SCALER.object, "shop")}
    scaled = updated_counts(counts, [reverted(SCALER)], place, LIMIT, at(30))
    assert scaled == (*counts, RevertCount(SCALER, 1, at(30)))


def test_counts_survive_the_status() -> None:
    """In whole seconds, as every time of the API."""
    gone = RevertCount(ObjectWriter("configmap/a", "", ""), 1, at(0))
    stored = {"contention": [count_status(count) for count in (*fought(0, 1, 2), gone)]}
    assert read_counts(stored) == (*fought(0, 1, 2), gone)
    assert read_counts({}) == ()
    assert stored["contention"][1] == {
        "object": "configmap/a",
        "reverts": 1,
        "last": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    "time",
    [
        pytest.param("9999-12-31T23:59:59Z", marks=pytest.mark.holds("forged-time")),
        "0001-01-01T00:00:00+14:00",
        "x",
        "",
    ],
)
def test_forged_time_is_ignored(time: str) -> None:
    """Whoever may write the status may write one with which nothing can be calculated."""
    stored = {**count_status(RevertCount(WRITER, LIMIT, at(0))), "last": time}
    counts = read_counts({"contention": [stored]})
    assert counts == ()
    assert winning_writers(counts, LIMIT, at(0)) == frozenset()


def test_forged_number_is_ignored() -> None:
    """A status may hold anything."""
    stored = {**count_status(RevertCount(WRITER, LIMIT, at(0))), "reverts": "many"}
    assert read_counts({"contention": [stored]}) == (RevertCount(WRITER, 0, at(0)),)

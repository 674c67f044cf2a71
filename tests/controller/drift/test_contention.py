"""Who wins a fight about a field: a pure function of the counts, what a run saw, and the time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from applyprune.controller.drift import (
    MOST_COUNTS,
    ContentionLimits,
    RevertCount,
    WriteSighting,
    count_status,
    read_counts,
    updated_counts,
    winning_writers,
)
from applyprune.model.fieldset import FieldWriter

LIMITS = ContentionLimits(3, timedelta(minutes=10))
START = datetime(2026, 1, 1, tzinfo=UTC)
FIELD = FieldWriter("configmap/a", "shop", "/data/key", "kubectl-patch")
OTHER = replace(FIELD, field="/data/other")
SCALE = FieldWriter("deployment.apps/web", "shop", "/spec/replicas", "kube-controller-manager")


ALL = {(f"configmap/{name}", "shop") for name in ("a", *range(MOST_COUNTS))} | {
    (SCALE.object, SCALE.namespace)
}


def at(minutes: float) -> datetime:
    """Return a time after the start."""
    return START + timedelta(minutes=minutes)


def reverted(writer: FieldWriter = FIELD) -> WriteSighting:
    """Return a field that a run has reverted."""
    return WriteSighting(writer, is_reverted=True, ours="1", theirs="2")


def left(minutes: float | None, writer: FieldWriter = FIELD, theirs: str = "2") -> WriteSighting:
    """Return a contended field, which its manager has changed at a time."""
    time = None if minutes is None else at(minutes)
    return WriteSighting(writer, is_reverted=False, time=time, ours="1", theirs=theirs)


def fought(*minutes: float) -> tuple[RevertCount, ...]:
    """Return the counts after the field was reverted at these times."""
    counts: tuple[RevertCount, ...] = ()
    for minute in minutes:
        counts = updated_counts(counts, [reverted()], ALL, LIMITS, at(minute))
    return counts


LEFT_ALONE = {
    "never reverted": ((), 0.0, False),
    "reverted less often": ((0, 1), 1.0, False),
    "reverted as often as allowed": ((0, 1, 2), 2.0, True),
    "until the first is out of the period": ((0, 1, 2), 9.9, True),
    "and not afterwards": ((0, 1, 2), 10.0, False),
    "reverted slowly": ((0, 6, 12), 12.0, False),
    "reverted slowly, then fast": ((0, 6, 12, 13), 13.0, True),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_manager_wins_after_so_many_reverts_in_the_period(name: str) -> None:
    """Then its next change of the field stays."""
    times, now, expected = LEFT_ALONE[name]
    assert winning_writers(fought(*times), LIMITS, at(now)) == ({FIELD} if expected else set())


@pytest.mark.holds("contended-until-quiet")
def test_contended_field_stays_left_until_its_manager_is_quiet() -> None:
    """Each of its changes begins the period again; the end of the counted reverts does not."""
    counts = updated_counts(fought(0, 1, 2), [left(3)], ALL, LIMITS, at(3))
    assert [count.is_contended for count in counts] == [True]
    assert (counts[0].ours, counts[0].theirs) == ("1", "2")
    assert winning_writers(counts, LIMITS, at(12)) == {FIELD}
    again = updated_counts(counts, [left(12)], ALL, LIMITS, at(12))
    assert winning_writers(again, LIMITS, at(22)) == {FIELD}
    quiet = again[0].quiet_at(LIMITS)
    assert quiet == at(23)
    assert winning_writers(again, LIMITS, at(23)) == frozenset()
    # It is reverted, and counted from one.
    (fresh,) = updated_counts(again, [reverted()], ALL, LIMITS, at(23))
    assert (fresh.reverted, fresh.is_contended) == ((at(23),), False)


def test_news_of_a_fight_that_goes_on_are_few() -> None:
    """A status is written ten times in a period at most, however often the manager writes."""
    counts = updated_counts(fought(0, 1, 2), [left(3)], ALL, LIMITS, at(3))
    assert updated_counts(counts, [left(3.5)], ALL, LIMITS, at(3.5)) == counts
    assert updated_counts(counts, [left(4)], ALL, LIMITS, at(4)) != counts


def test_field_without_a_time_counts_as_changed_with_its_value() -> None:
    """The server's record has none for the scale subresource."""
    counts = (RevertCount(SCALE, (at(0), at(1), at(2))),)
    begun = updated_counts(counts, [left(None, SCALE, "5")], ALL, LIMITS, at(3))
    assert updated_counts(begun, [left(None, SCALE, "5")], ALL, LIMITS, at(6)) == begun
    (later,) = updated_counts(begun, [left(None, SCALE, "6")], ALL, LIMITS, at(6))
    assert later.changed == at(6)


def test_time_of_the_future_does_not_hold_a_field_longer() -> None:
    """A managedFields entry can be edited."""
    (one,) = updated_counts(fought(0, 1, 2), [left(999)], ALL, LIMITS, at(3))
    assert one.changed == at(3)


def test_contention_ends_when_the_drift_is_gone() -> None:
    """The reverts still count for the rest of the period."""
    counts = updated_counts(fought(0, 1, 2), [left(3)], ALL, LIMITS, at(3))
    (ended,) = updated_counts(counts, [], ALL, LIMITS, at(4))
    assert (ended.is_contended, ended.theirs) == (False, "")
    assert winning_writers([ended], LIMITS, at(4)) == {FIELD}
    assert updated_counts([ended], [], ALL, LIMITS, at(12)) == ()


def test_idle_run_changes_no_count() -> None:
    """Until the period is over."""
    counts = fought(0, 1)
    assert updated_counts(counts, [], ALL, LIMITS, at(10)) == counts
    assert updated_counts(counts, [], ALL, LIMITS, at(11)) == ()


def test_each_manager_and_each_field_has_its_own_count() -> None:
    """Of what one manager changes together, one field is counted: the one that is known."""
    rival = replace(FIELD, manager="other")
    counts = updated_counts(
        (), [reverted(OTHER), reverted(FIELD), reverted(rival)], ALL, LIMITS, at(0)
    )
    assert {count.writer for count in counts} == {FIELD, rival}
    counts = updated_counts(counts, [reverted(OTHER)], ALL, LIMITS, at(1))
    assert {(one.writer, len(one.reverted)) for one in counts} == {
        (FIELD, 1),
        (rival, 1),
        (OTHER, 1),
    }
    counts = updated_counts(counts, [reverted(OTHER), reverted(FIELD)], ALL, LIMITS, at(2))
    assert sum(len(one.reverted) for one in counts) == 5


def test_field_inside_a_counted_one_is_counted_with_it() -> None:
    """The path of a Bundle with a Secret source ends before the key of a list's item."""
    whole = replace(SCALE, field="/spec/template/spec/containers")
    image = replace(SCALE, field='/spec/template/spec/containers[name="c"]/image')
    longer = replace(SCALE, field="/spec/template/spec/containersX")
    assert whole.covers(image)
    assert not whole.covers(longer)
    assert not replace(FIELD, field="").covers(FIELD)
    (one,) = updated_counts((RevertCount(whole, (at(0),)),), [reverted(image)], ALL, LIMITS, at(1))
    assert (one.writer, len(one.reverted)) == (whole, 2)


def test_counts_are_bounded() -> None:
    """The contended and the latest ones stay."""
    many = [reverted(replace(FIELD, object=f"configmap/{number}")) for number in range(MOST_COUNTS)]
    counts = updated_counts(fought(0, 1, 2), [left(3)], ALL, LIMITS, at(3))
    counts = updated_counts(counts, [left(4), *many], ALL, LIMITS, at(4))
    assert len(counts) == MOST_COUNTS
    assert counts[0].writer == FIELD


def test_objects_outside_the_run_keep_their_counts() -> None:
    """A run may be about one object only."""
    counts = updated_counts(fought(0, 1, 2), [left(3)], ALL, LIMITS, at(3))
    scaled = updated_counts(counts, [reverted(SCALE)], {(SCALE.object, "shop")}, LIMITS, at(4))
    assert counts[0] in scaled
    assert {count.writer for count in scaled} == {FIELD, SCALE}


def test_counts_survive_the_status() -> None:
    """In whole seconds, as every time of the API."""
    counts = updated_counts(fought(0, 1, 2), [left(3)], ALL, LIMITS, at(3))
    gone = RevertCount(replace(FIELD, field="", manager="", namespace=""), (at(0),))
    stored = {"contention": [count_status(count) for count in (*counts, gone)]}
    assert read_counts(stored) == (*counts, gone)
    assert read_counts({}) == ()
    assert stored["contention"][1] == {
        "object": "configmap/a",
        "reverted": ["2026-01-01T00:00:00Z"],
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
    stored = {**count_status(RevertCount(FIELD, (at(0),))), "reverted": [time], "changed": time}
    counts = read_counts({"contention": [stored]})
    assert counts == (RevertCount(FIELD),)
    assert winning_writers(counts, LIMITS, at(0)) == frozenset()
    assert updated_counts(counts, [left(None)], ALL, LIMITS, at(0))

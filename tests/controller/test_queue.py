"""The queue and the delays: one worker for a Bundle, nothing is lost, and tenants take turns."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from applyprune.controller.queue import NamespaceQueues, WorkQueue, retry_delay, with_jitter
from applyprune.controller.reasons import Key
from tests.support.clocks import ManualClock
from tests.support.waiting import HANG, eventually

A, B = ("shop", "a"), ("shop", "b")


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 2), (1, 2), (2, 4), (3, 8), (4, 10), (1000, 10)],
)
def test_backoff_doubles_up_to_its_maximum(failures: int, seconds: float) -> None:
    """However many failures there were."""
    assert retry_delay(failures, first=2, longest=10) == seconds
    assert retry_delay(failures, first=20, longest=10) == 20


def test_delays_are_spread() -> None:
    """By a tenth at most."""
    found = {with_jitter(100) for _ in range(100)}
    assert len(found) > 90
    assert all(90 <= one <= 110 for one in found)


def test_key_is_handed_out_once() -> None:
    """Added often, due once."""
    queue = WorkQueue(min_gap=0)
    for _ in range(3):
        queue.add(A)
    assert queue.get() == A
    queue.done(A)
    queue.add(B)
    assert queue.get() == B


def test_key_added_meanwhile_comes_again() -> None:
    """Never to a second worker at the same time."""
    queue = WorkQueue(min_gap=0)
    queue.add(A)
    assert queue.get() == A
    queue.add(A)
    queue.add(B)
    assert queue.get() == B
    assert queue.busy == 2
    queue.done(A)
    assert queue.get() == A


def test_earlier_time_wins() -> None:
    """News do not wait for the periodic pass, and a later date does not put them off."""
    clock = ManualClock()
    queue = WorkQueue(min_gap=0, clock=clock)
    queue.add(A, 60)
    queue.add(B, 5)
    queue.add(A)
    queue.add(A, 60)
    assert (queue.get(), queue.get(), clock.waits) == (A, B, [5])


def test_bundle_rests_between_two_reconciles() -> None:
    """A source that changes all the time is not looked at all the time."""
    clock = ManualClock()
    queue = WorkQueue(min_gap=0.25, clock=clock)
    queue.add(A)
    for _ in range(3):
        assert queue.get() == A
        queue.add(A)
        queue.done(A)
    assert queue.get() == A
    assert clock.waits == [0.25] * 3


def test_removed_key_does_not_come() -> None:
    """The Bundle is gone."""
    clock = ManualClock()
    queue = WorkQueue(min_gap=0, clock=clock)
    queue.add(A, 5)
    queue.forget(A)
    queue.add(B, 10)
    assert (queue.get(), clock.passed, queue.waiting) == (B, 10, 0)


def test_closing_ends_every_worker() -> None:
    """Also those that wait for something far off."""
    queue = WorkQueue()
    queue.add(A, 3600)
    found: list[Key | None] = []
    threads = [threading.Thread(target=lambda: found.append(queue.get())) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(HANG)
    assert found == [None] * 3
    queue.add(B)
    assert queue.waiting == 0


def test_many_workers_share_many_changes() -> None:
    """No key is with two workers, and the last news of each is always followed by a pass."""
    queue = WorkQueue(min_gap=0)
    keys: list[Key] = [("shop", str(number)) for number in range(20)]
    wanted: Counter[Key] = Counter()
    seen: dict[Key, int] = {}
    held: set[Key] = set()
    twice: list[Key] = []

    def work() -> None:
        while (key := queue.get()) is not None:
            if key in held:
                twice.append(key)
            held.add(key)
            seen[key] = wanted[key]
            held.discard(key)
            queue.done(key)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        for key in keys:
            wanted[key] += 1
            queue.add(key)
    eventually(lambda: dict(seen) == dict(wanted), lambda: f"{wanted}, not {seen}")
    queue.close()
    for thread in threads:
        thread.join(HANG)
    assert twice == []


def test_part_of_a_bundle_leaves_the_time_of_the_whole() -> None:
    """However often a part is due, all of it is due at its own time."""
    clock = ManualClock()
    queue = WorkQueue(min_gap=0, clock=clock)
    queue.add(A, 30)
    for _ in range(3):
        queue.add(A, is_part=True, news=True)
        assert queue.get() == A
        assert not queue.takes_whole(A)
        queue.done(A)
    assert clock.waits == []
    assert queue.get() == A
    assert (queue.takes_whole(A), clock.waits) == (True, [30])
    queue.done(A)
    clock.advance(3600)
    assert queue.waiting == 0


def test_whole_bundle_that_is_due_goes_with_its_part() -> None:
    """One reconcile is enough for both."""
    queue = WorkQueue(min_gap=0)
    queue.add(A)
    queue.add(A, is_part=True, news=True)
    assert queue.get() == A
    assert queue.takes_whole(A)
    # What comes meanwhile counts for the next one.
    queue.add(A, is_part=True, news=True)
    queue.done(A)
    assert queue.get() == A
    assert not queue.takes_whole(A)
    queue.forget(A)
    queue.done(A)
    assert queue.waiting == 0


LAST = ("last", "last")


@pytest.mark.parametrize(
    ("workers", "share", "all_shares"),
    [
        (1, 1, 1),
        (2, 1, 1),
        pytest.param(4, 1, 3, marks=pytest.mark.holds("share-of-a-cluster")),
        (8, 2, 7),
        (12, 3, 11),
    ],
)
def test_other_clusters_leave_workers(workers: int, share: int, all_shares: int) -> None:
    """One gets a quarter of them, all together leave one; their namespaces do not matter."""
    clock = ManualClock()
    queue = WorkQueue(workers, min_gap=0, clock=clock)
    for number in range(20):
        key = (f"tenant-{number}", "of-one")
        queue.set_cluster(key, "one")
        queue.add(key)
    held = [queue.get() for _ in range(share)]
    for number in range(20):
        key = (f"tenant-{number}", "of-many")
        queue.set_cluster(key, f"cluster-{number}")
        queue.add(key)
    held += [queue.get() for _ in range(all_shares - share)]
    assert [key for key in held if key is None] == []
    assert sum(key[1] == "of-one" for key in held if key) == share
    # They have been due for long, and nobody could serve them: that is not our fault.
    clock.advance(60)
    assert queue.overdue == 0.0
    queue.add(LAST, news=True)
    if workers > all_shares:
        assert queue.get() == LAST
        queue.done(LAST)
    assert held[0] is not None
    queue.done(held[0])
    assert queue.get() in {LAST, *((f"tenant-{number}", "of-one") for number in range(20))}


def test_bundle_that_leaves_a_cluster_waits_no_longer() -> None:
    """Nor does one that is gone count."""
    queue = WorkQueue(4, min_gap=0)
    for key in (A, B):
        queue.set_cluster(key, "one")
        queue.add(key)
    assert queue.get() == A
    queue.set_cluster(B, "")
    assert queue.get() == B
    queue.forget(A)
    queue.done(A)
    queue.done(B)
    queue.set_cluster(B, "one")
    queue.add(B)
    assert queue.get() == B


def test_later_part_does_not_postpone_the_whole() -> None:
    """A hint in a fight may be due much later than the next look at the whole set."""
    clock = ManualClock()
    queue = WorkQueue(min_gap=0, clock=clock)
    queue.add(A, 30)
    queue.add(A, is_part=True, news=True)
    assert queue.get() == A
    queue.add(A, 60, is_part=True, news=True)
    queue.done(A)
    assert queue.get() == A
    assert (queue.takes_whole(A), clock.waits) == (True, [30])


def test_queue_says_for_how_long_nobody_was_served() -> None:
    """Since the first key was due that a worker may hold, and since the last work ended."""
    clock = ManualClock()
    queue = WorkQueue(min_gap=0, clock=clock)
    queue.add(A, 10)

    def after(seconds: float) -> tuple[int, float, float]:
        clock.advance(seconds)
        return queue.waiting, queue.overdue, queue.quiet

    assert after(9) == (0, 0, 9)
    assert after(6) == (1, 5, 15)
    assert queue.get() == A
    queue.add(B)
    assert after(3) == (1, 3, 18)
    queue.done(A)
    assert after(0) == (1, 3, 0)
    assert queue.get() == B
    assert after(60) == (0, 0, 60)


ALL = [("big", str(number)) for number in range(4)]
SMALL: Key = ("small", "web")


def anybody(_namespace: str) -> bool:
    """Let every namespace have a turn."""
    return True


def test_namespaces_take_turns() -> None:
    """However many Bundles one of them has; in its own line, the first comes first."""
    turns = NamespaceQueues()
    for key in (*ALL[:3], SMALL, ("other", "a"), ("other", "b")):
        turns.add(key)
    taken = [turns.take(anybody) for _ in range(7)]
    names = ["big/0", "small/web", "other/a", "big/1", "other/b", "big/2"]
    assert ["/".join(key) for key in taken if key] == names
    assert taken[-1] is None


def test_namespace_without_a_turn_keeps_its_place() -> None:
    """Whoever may not have one now is still the first when it may."""
    turns = NamespaceQueues()
    for key in (*ALL[:2], SMALL):
        turns.add(key)
    assert turns.take(lambda namespace: namespace != "big") == SMALL
    assert turns.take(lambda namespace: namespace != "big") is None
    assert turns.take(anybody) == ALL[0]


def test_removed_key_gets_no_turn() -> None:
    """Also the last one of its namespace, and one that was never there."""
    turns = NamespaceQueues()
    turns.add(ALL[0])
    turns.add(ALL[1])
    turns.remove(ALL[0])
    turns.remove(SMALL)
    assert [turns.take(anybody), turns.take(anybody)] == [ALL[1], None]
    turns.add(SMALL)
    turns.remove(SMALL)
    assert turns.take(anybody) is None


@pytest.mark.holds("kept-worker")
def test_last_worker_is_kept_for_other_namespaces() -> None:
    """One tenant occupies all workers but one, whatever it does."""
    queue = WorkQueue(workers=3, min_gap=0)
    for key in ALL:
        queue.add(key)
    held = [queue.get(), queue.get()]
    assert held == ALL[:2]
    queue.add(SMALL)
    assert queue.get() == SMALL
    queue.done(ALL[0])
    queue.done(SMALL)
    assert queue.get() == ALL[2]


def test_only_worker_serves_everybody() -> None:
    """With one worker nothing can be kept."""
    queue = WorkQueue(workers=1, min_gap=0)
    for key in (ALL[0], ALL[1], SMALL):
        queue.add(key)
    found: list[Key] = []
    for _ in range(3):
        taken = queue.get()
        assert taken is not None
        found.append(taken)
        queue.done(taken)
    assert found == [ALL[0], SMALL, ALL[1]]


def test_changes_get_three_turns_of_four() -> None:
    """A retry and a periodic reconcile are not put off for ever."""
    queue = WorkQueue(min_gap=0)
    for number in range(6):
        queue.add(("news", str(number)), news=True)
        queue.add(("routine", str(number)))
    found = [queue.get() for _ in range(8)]
    assert [key[0] for key in found if key] == [*["news"] * 3, "routine"] * 2


def test_change_of_what_is_due_anyway_moves_it_up() -> None:
    """It was in the line of the retries."""
    queue = WorkQueue(min_gap=0)
    for number in range(3):
        queue.add(("a", str(number)))
    assert queue.get() == ("a", "0")
    queue.add(("a", "2"), news=True)
    assert queue.get() == ("a", "2")
    assert (queue.get(), queue.waiting) == (("a", "1"), 0)

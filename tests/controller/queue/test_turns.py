"""Tenants take turns: by namespaces, changes first, and one worker is kept for the others."""

from __future__ import annotations

import pytest

from applyprune.controller.queue import NamespaceQueues, WorkQueue
from applyprune.controller.reasons import Key

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

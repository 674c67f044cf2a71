"""The threads of a run: results, order, and how far calls are begun ahead of their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from applyprune.engine.context import WorkerPool
from applyprune.engine.ports import Cancellation


@pytest.fixture
def cancellation() -> Cancellation:
    """Return the request to end a run that nobody has made."""
    return Cancellation()


@pytest.fixture
def workers(cancellation: Cancellation) -> Iterator[WorkerPool]:
    """Return a pool of four threads."""
    with WorkerPool(4, cancellation) as pool:
        yield pool


@pytest.fixture
def worker(cancellation: Cancellation) -> Iterator[WorkerPool]:
    """Return a pool of one thread: its calls come one after the other."""
    with WorkerPool(1, cancellation) as pool:
        yield pool


def test_every_item_has_its_result(workers: WorkerPool) -> None:
    """Also more items than may wait for a thread at once."""
    assert sorted(workers.each(lambda item: item * 2, range(5000))) == list(range(0, 10_000, 2))
    assert list(workers.each(lambda item: -item, range(5000), in_order=True)) == [
        -item for item in range(5000)
    ]
    assert list(workers.each(lambda item: item, ())) == []


def test_few_items_are_taken_before_their_results_are_read(workers: WorkerPool) -> None:
    """What waits takes memory, so 100,000 objects do not wait all at once."""
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        while taken < 100_000:
            taken += 1
            yield taken

    results = workers.each(lambda item: item, items())
    assert {next(results) for _ in range(3)} <= set(range(1, 1004))
    assert 1000 <= taken <= 1003


def test_calls_here_come_first_and_need_no_thread(workers: WorkerPool) -> None:
    """A step without a request is done at once."""
    threads: dict[int, str] = {}

    def call(item: int) -> int:
        threads[item] = threading.current_thread().name
        return item

    found = list(workers.each(call, range(10), here=lambda item: item % 2 == 1))
    assert found[:5] == [1, 3, 5, 7, 9]
    assert sorted(found) == list(range(10))
    own = threading.current_thread().name
    assert {item for item, name in threads.items() if name == own} == {1, 3, 5, 7, 9}


@pytest.mark.parametrize("in_order", [False, True])
def test_first_exception_ends_the_calls(worker: WorkerPool, in_order: bool) -> None:
    """Nothing begins after it but what already waits for a thread."""
    begun: list[int] = []

    def call(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"):
        list(worker.each(call, range(1, 100_000), in_order=in_order))
    assert 3 <= len(begun) <= 1002


@pytest.mark.parametrize("here", [None, bool])
def test_no_call_starts_after_the_cancellation(
    worker: WorkerPool, cancellation: Cancellation, here: Callable[[int], bool] | None
) -> None:
    """The results that are there are yielded; the caller checks whether any are missing."""
    begun: list[int] = []

    def call(item: int) -> int:
        begun.append(item)
        if item == 3:
            cancellation.request()
        return item

    assert list(worker.each(call, range(1, 5001), here=here)) == begun == [1, 2, 3]

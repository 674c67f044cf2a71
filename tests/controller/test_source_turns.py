"""Whose turn it is to be checked: silent hosts, and namespaces that share a source."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from applyprune.controller.dispatcher import CHECKS, SourceDispatcher
from applyprune.controller.fetch import RemoteSource
from applyprune.controller.metrics import Metrics
from applyprune.controller.queue import WorkQueue
from applyprune.controller.task import (
    CheckResult,
    CheckTask,
    FetchResult,
    FetchTask,
    SourceContent,
    SourceRequest,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import GitRef, GitSource
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.controller.reasons import Key
    from applyprune.controller.source_checker import Checker
    from applyprune.controller.worker import WorkerHandle

QUARTER = CHECKS // 4
SILENT = Problem(ProblemKind.FETCH_FAILED, "cannot be read")


@dataclass(slots=True)
class Played:
    """A checker whose hosts answer as a test says, each after some seconds."""

    clock: ManualClock
    answers: dict[bytes, tuple[float, CheckResult]]
    """By the pickle of each source; one that is not named answers at once."""

    def check(self, task: CheckTask, _is_wanted: Callable[[], bool]) -> CheckResult:
        """Return the answer."""
        seconds, result = self.answers.get(task.remote, (0.0, CheckResult(b"tip", is_new=True)))
        self.clock.advance(seconds)
        return result


@pytest.fixture
def clock() -> ManualClock:
    """The clock of all."""
    return ManualClock()


@pytest.fixture
def played(clock: ManualClock) -> Played:
    """A host that answers at once, and others that do not."""
    silent = {remote("silent", number): (10.0, SILENT_REPLY) for number in range(20)}
    return Played(clock, silent)


@pytest.fixture
def sources(clock: ManualClock, played: Played) -> SourceDispatcher:
    """The dispatcher of the sources, without threads."""
    return SourceDispatcher(WorkQueue(clock=clock), Metrics(), cast("Checker", played), ())


SILENT_REPLY = CheckResult(b"", problem=SILENT, address="192.0.2.1")


def remote(host: str, number: int = 0) -> bytes:
    """Return a repository of a host, pickled."""
    url = f"https://{host}-{number}.example.com/web.git"
    return pickle.dumps(RemoteSource(GitSource(url, GitRef("main"))))


def request(host: str, number: int = 0) -> SourceRequest:
    """Return what a Bundle needs of it."""
    check = f"{host}-{number}"
    return SourceRequest(remote(host, number), check, host, "web", 60.0, 60.0)


def taken(queue: WorkQueue) -> list[Key]:
    """Return the keys that may be worked on now, all at once."""
    found: list[Key] = []
    while queue.waiting and (key := next_of(queue)) is not None:
        found.append(key)
    return found


def fetch(sources: SourceDispatcher, check: str) -> None:
    """Fetch what a check has found."""
    task = sources.followed.fetch_task(check)
    assert task is not None
    content = SourceContent("tree", "artifact", "main@sha1:1")
    _, due = sources.followed.fetched(check, task, FetchResult({"web": content}))
    sources._queue(check, due)


def next_of(queue: WorkQueue) -> Key | None:
    """Return the next key, if there is one whose turn it is."""
    queue._settle()
    return queue._take()


@pytest.mark.holds("silent-host")
def test_silent_host_gets_a_quarter_of_the_checks(
    sources: SourceDispatcher, clock: ManualClock, played: Played
) -> None:
    """By its address, whatever its names are; an answer ends that."""
    for number in range(20):
        sources.follow((f"n{number}", "web"), request("silent", number))
    for key in taken(sources.checks):
        sources._check(key)
        sources.checks.done(key)
    clock.advance(60.0)
    again = taken(sources.checks)
    assert len(again) == QUARTER
    sources.follow(("shop", "web"), request("good"))
    assert taken(sources.checks) == [("shop", "good-0")]
    # Now they answer.
    played.answers = {}
    while again:
        for key in again:
            sources._check(key)
            sources.checks.done(key)
            fetch(sources, key[1])
        again = taken(sources.checks)
    clock.advance(70.0)
    assert len(taken(sources.checks)) > QUARTER


@dataclass(slots=True)
class SlowWorker:
    """A process whose fetches end at their time."""

    clock: ManualClock

    def fetch(self, task: FetchTask) -> FetchResult:
        """Fail after the time of the fetch."""
        self.clock.advance(task.timeout)
        return FetchResult(problem=SILENT)


@pytest.mark.holds("slow-fetch")
def test_sources_whose_fetch_was_too_slow_share_a_process(
    clock: ManualClock, played: Played
) -> None:
    """Though their hosts answer each check at once."""
    worker = cast("WorkerHandle", SlowWorker(clock))
    queue = WorkQueue(clock=clock)
    sources = SourceDispatcher(queue, Metrics(), cast("Checker", played), (worker,) * 4)
    for number in range(4):
        sources.follow((f"n{number}", "web"), request("slow", number))
    for _ in "12":
        for key in taken(sources.checks):
            sources._check(key)
            sources.checks.done(key)
        found = taken(sources.fetches)
        for key in found:
            sources._fetch(worker, key)
            sources.fetches.done(key)
        clock.advance(70.0)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("processes", "taken_by_one"),
    [pytest.param(3, 1, marks=pytest.mark.holds("fetches-of-others")), (4, 1), (8, 3)],
)
def test_one_namespace_leaves_fetches_to_two_others(
    clock: ManualClock, played: Played, processes: int, taken_by_one: int
) -> None:
    """A fetch may take minutes: whoever was first must not have them all."""
    worker = cast("WorkerHandle", SlowWorker(clock))
    queue = WorkQueue(clock=clock)
    sources = SourceDispatcher(queue, Metrics(), cast("Checker", played), (worker,) * processes)
    for number in range(9):
        sources.fetches.add(("evil", f"web-{number}"), news=True)
    first = taken(sources.fetches)
    assert len(first) == taken_by_one
    for name in ("other", "shop"):
        for number in range(9):
            sources.fetches.add((name, f"web-{number}"), news=True)
    served = [key[0] for key in (*first, *taken(sources.fetches))]
    assert set(served) == {"evil", "other", "shop"}


def test_last_quarter_of_the_checks_is_for_other_namespaces(sources: SourceDispatcher) -> None:
    """One tenant has the others at most."""
    for number in range(2 * CHECKS):
        sources.follow(("evil", f"web-{number}"), request("good", number))
    assert len(taken(sources.checks)) == CHECKS - QUARTER
    sources.follow(("shop", "web"), request("good", 99))
    assert taken(sources.checks) == [("shop", "good-99")]


def test_shared_source_takes_its_turn_with_every_namespace(sources: SourceDispatcher) -> None:
    """Whoever has named it first: a tenant that has all turns already holds it up for nobody."""
    for number in range(2 * CHECKS):
        sources.follow(("evil", f"web-{number}"), request("good", number))
    last = request("good", 2 * CHECKS - 1)
    taken(sources.checks)
    sources.follow(("shop", "web"), last)
    (key,) = taken(sources.checks)
    assert key == ("shop", last.check)
    sources._check(key)
    sources.checks.done(key)
    # It was checked for both: the turn of the other finds nothing to do, and asks for the next.
    assert sources.followed.check_task(last.check) == sources.followed.check_task(last.check)
    assert sources.fetches.waiting == 2


def test_first_follower_that_leaves_takes_nothing_with_it(sources: SourceDispatcher) -> None:
    """The check goes on with the namespace of another one."""
    sources.follow(("evil", "web"), request("good"))
    sources.follow(("shop", "web"), request("good"))
    sources.followed.drop(("evil", "web"))
    keys = taken(sources.checks)
    assert ("shop", "good-0") in keys
    assert sources.followed.namespaces("good-0") == ("shop",)

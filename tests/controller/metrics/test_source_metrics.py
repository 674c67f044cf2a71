"""The metrics of sources: each check and each fetch counts once, by how it has ended."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from applyprune.controller.dispatcher import SourceDispatcher
from applyprune.controller.fetch import RemoteSource
from applyprune.controller.metrics import Metrics
from applyprune.controller.queue import WorkQueue
from applyprune.controller.reasons import Limit
from applyprune.controller.task import (
    CheckResult,
    CheckTask,
    FetchResult,
    FetchTask,
    SourceContent,
    SourceRequest,
)
from applyprune.controller.worker import LimitExceeded, WorkerUnavailable
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import GitRef, GitSource
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.controller.source_checker import Checker
    from applyprune.controller.worker import WorkerHandle

CHECK = "web"
REMOTE = pickle.dumps(RemoteSource(GitSource("https://git.example.com/web.git", GitRef("main"))))
BUNDLES = (("shop", "web"), ("shop", "api"), ("blog", "web"))
KEY = ("shop", CHECK)
FOUND = CheckResult(b"tip", is_new=True)
GOOD = SourceContent("tree", "artifact", "main@sha1:1")


def problem(kind: ProblemKind) -> Problem:
    """Return a problem of a source."""
    return Problem(kind, "the source cannot be read")


@dataclass(slots=True)
class Played:
    """The processes that check and fetch: they end as a test says."""

    check_ends: CheckResult | Exception = FOUND
    fetch_ends: FetchResult | Exception = field(default_factory=FetchResult)
    meanwhile: Callable[[], None] = lambda: None
    """What happens while they work."""

    def check(self, _task: CheckTask, _is_wanted: Callable[[], bool]) -> CheckResult:
        """End a check."""
        self.meanwhile()
        if isinstance(self.check_ends, Exception):
            raise self.check_ends
        return self.check_ends

    def fetch(self, _task: FetchTask) -> FetchResult:
        """End a fetch."""
        self.meanwhile()
        if isinstance(self.fetch_ends, Exception):
            raise self.fetch_ends
        return self.fetch_ends

    def end(self) -> None:
        """Nothing more begins."""

    def kill(self) -> None:
        """Nothing is under way that a test does not end."""


def sources_of(played: Played) -> SourceDispatcher:
    """Return a dispatcher of sources, without threads; three Bundles follow one of them."""
    checker, handle = cast("Checker", played), cast("WorkerHandle", played)
    sources = SourceDispatcher(WorkQueue(clock=ManualClock()), Metrics(), checker, (handle,))
    for key in BUNDLES:
        path = key[1]
        sources.follow(key, SourceRequest(REMOTE, CHECK, "place", path, 60.0, 60.0))
    return sources


def counted(sources: SourceDispatcher, what: str) -> dict[str, float]:
    """Return what was counted of checks or fetches, without what never happened."""
    (family,) = (
        one for one in sources.metrics.registry.collect() if one.name == f"applyprune_source_{what}"
    )
    return {one.labels["result"]: one.value for one in family.samples if one.value}


def check(sources: SourceDispatcher) -> None:
    """Have the source checked, as a thread of the checks does."""
    with sources._working(sources.checks, KEY):
        sources._check(KEY)


def fetch(sources: SourceDispatcher, played: Played) -> None:
    """Have fetched what a check has found, as a thread of the fetches does."""
    with sources._working(sources.fetches, KEY):
        sources._fetch(cast("WorkerHandle", played), KEY)


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        (FOUND, "Success"),
        (CheckResult(b"", problem=problem(ProblemKind.PATH_NOT_FOUND)), "PathNotFound"),
        (LimitExceeded(Limit.MEMORY, "too much"), "FetchFailed"),
        (WorkerUnavailable("no process"), "FetchFailed"),
        (ValueError("a bug"), "FetchFailed"),
    ],
)
def test_check_counts_once_for_all_bundles(ends: CheckResult | Exception, result: str) -> None:
    """Whatever namespaces they are in: the turn of the other one finds nothing to do."""
    sources = sources_of(Played(check_ends=ends))
    check(sources)
    sources._check(("blog", CHECK))
    assert counted(sources, "checks") == {result: 1}
    assert counted(sources, "fetches") == {}


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        (FetchResult({"web": GOOD, "api": GOOD}), "Success"),
        (
            FetchResult(problem=problem(ProblemKind.VERIFICATION_FAILED)),
            "VerificationFailed",
        ),
        (
            FetchResult(
                {
                    "api": problem(ProblemKind.PATH_NOT_FOUND),
                    "web": problem(ProblemKind.SOURCE_TOO_LARGE),
                }
            ),
            "PathNotFound",
        ),
        (FetchResult({"api": GOOD, "web": problem(ProblemKind.INPUT_ERROR)}), "InvalidSource"),
        (LimitExceeded(Limit.MEMORY, "too much"), "SourceTooLarge"),
        (LimitExceeded(Limit.TIME, "too long"), "FetchFailed"),
    ],
)
def test_fetch_counts_once_for_all_paths(ends: FetchResult | Exception, result: str) -> None:
    """By its first problem, though the other paths are good."""
    played = Played(fetch_ends=ends)
    sources = sources_of(played)
    check(sources)
    fetch(sources, played)
    assert counted(sources, "fetches") == {result: 1}
    assert counted(sources, "checks") == {"Success": 1}


@pytest.mark.parametrize("what", ["checks", "fetches"])
@pytest.mark.parametrize("end", ["no Bundle follows it", "the controller ends"])
def test_work_that_is_cut_off_does_not_count(end: str, what: str) -> None:
    """Nobody awaits it: its source has not failed."""
    played = Played()
    sources = sources_of(played)

    def cut_off() -> None:
        if end == "the controller ends":
            sources.end()
        else:
            for key in BUNDLES:
                sources.drop(key)
        raise WorkerUnavailable("ended")

    if what == "fetches":
        check(sources)
    played.meanwhile = cut_off
    check(sources) if what == "checks" else fetch(sources, played)
    assert counted(sources, what) == {}

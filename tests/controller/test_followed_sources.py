"""Who follows which source: one check for all, and only those with news are reconciled."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from applyprune.addresses import AddressRules
from applyprune.controller.dispatcher import SourceDispatcher
from applyprune.controller.fetch import RemoteSource, SourceVerification
from applyprune.controller.followed_sources import (
    LONGEST_CHECK,
    FollowedSources,
    FoundAt,
    NextWork,
    SourceAge,
)
from applyprune.controller.metrics import Metrics
from applyprune.controller.queue import WorkQueue
from applyprune.controller.source_checker import Checker, check_sources
from applyprune.controller.task import (
    CheckResult,
    CheckTask,
    FetchResult,
    FetchTask,
    SourceContent,
    SourceRequest,
    SourceState,
)
from applyprune.controller.worker import (
    WorkerHandle,
    WorkerLimits,
    WorkerSettings,
    worker_context,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import GitRef, GitSource
from applyprune.sources.tree import SourceCredentials
from applyprune.values import replace
from tests.support.clocks import ManualClock
from tests.support.no_server import client_of_no_server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from applyprune.controller.reasons import Key

URL = "https://git.example.com/shop/deploy.git"
SECRET = bytes(32)
WEB, API = ("shop", "web"), ("shop", "api")
BROKEN = Problem(ProblemKind.FETCH_FAILED, "cannot be read")
MISSING = Problem(ProblemKind.PATH_NOT_FOUND, "the source has no such path")


def remote(branch: str = "main", *, password: str = "") -> RemoteSource:
    """Return a branch of a repository."""
    given = SourceCredentials("me", password) if password else SourceCredentials()
    return RemoteSource(GitSource(URL, GitRef(branch), given, addresses=AddressRules()))


def request(path: str, source: RemoteSource | None = None, interval: float = 0.0) -> SourceRequest:
    """Return what a Bundle with a path needs; it is always due."""
    of = source or remote()
    check, place = of.check(SECRET), of.place(SECRET)
    return SourceRequest(pickle.dumps(of), check, place, path, interval, 60.0)


def content(number: int) -> SourceContent:
    """Return the content of a commit."""
    return SourceContent(f"tree {number}", f"artifact {number}", f"main@sha1:{number}")


CHECK = remote().check(SECRET)
FIRST = {"web": content(1), "api": content(2)}


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the sources."""
    return ManualClock()


@pytest.fixture
def sources(clock: ManualClock) -> FollowedSources:
    """Two Bundles that follow the same branch, each another path; nothing is known of it."""
    found = FollowedSources(clock, lambda: f"{clock.now():06.0f}")
    for key, path in ((WEB, "web"), (API, "api")):
        assert found.follow(key, request(path)) == NextWork(0.0)
    return found


def checking(sources: FollowedSources) -> CheckTask:
    """Begin a check."""
    task = sources.check_task(CHECK)
    assert isinstance(task, CheckTask)
    return task


def fetching(sources: FollowedSources) -> FetchTask:
    """Begin a fetch."""
    task = sources.fetch_task(CHECK)
    assert task is not None
    return task


def check(sources: FollowedSources, tip: bytes | Problem) -> set[Key]:
    """Check the source; return the Bundles that the result concerns."""
    task = checking(sources)
    if isinstance(tip, Problem):
        return sources.checked(CHECK, task, CheckResult(task.tip, problem=tip))[0]
    return sources.checked(CHECK, task, CheckResult(tip, is_new=tip != task.tip))[0]


def fetch(
    sources: FollowedSources, paths: Mapping[str, SourceContent | Problem] | Problem
) -> set[Key]:
    """Fetch what a check has found; return the Bundles that the result concerns."""
    task = fetching(sources)
    problem = paths if isinstance(paths, Problem) else None
    result = FetchResult({} if isinstance(paths, Problem) else paths, problem)
    return sources.fetched(CHECK, task, result)[0]


def look(
    sources: FollowedSources, tip: bytes, paths: Mapping[str, SourceContent | Problem]
) -> set[Key]:
    """Check and fetch."""
    return check(sources, tip) | fetch(sources, paths)


def state(sources: FollowedSources, key: Key = WEB) -> SourceState:
    """Return what a Bundle knows."""
    found = sources.state(key)
    assert found is not None
    return found


def test_one_check_serves_all_that_follow_a_reference(sources: FollowedSources) -> None:
    """The fetch names each path, and each Bundle gets the content of its own."""
    assert check(sources, b"tip 1") == set()
    task = fetching(sources)
    assert task.paths == {"web": None, "api": None}
    assert task.tip == b"tip 1"
    assert sources.fetched(CHECK, task, FetchResult(FIRST))[0] == {WEB, API}
    found = state(sources)
    assert (found.path, found.content, found.problem) == ("web", content(1), None)


def test_only_one_check_and_one_fetch_are_under_way(sources: FollowedSources) -> None:
    """Whatever namespace's turn it is: the others find that nothing is due."""
    sources.follow(("blog", "web"), request("web"))
    assert sources.namespaces(CHECK) == ("shop", "blog")
    task = checking(sources)
    assert sources.check_task(CHECK) == NextWork(None)
    sources.checked(CHECK, task, CheckResult(b"tip 1", is_new=True))
    assert sources.check_task(CHECK) == NextWork(None, fetches=True)
    assert sources.fetch_task(CHECK) is not None
    assert sources.fetch_task(CHECK) is None
    assert sources.check_task(CHECK) == NextWork(None)


def test_unchanged_tip_is_not_fetched_again(sources: FollowedSources) -> None:
    """A check that finds the same tells the time only."""
    look(sources, b"tip 1", FIRST)
    assert check(sources, b"tip 1") == set()
    assert sources.fetch_task(CHECK) is None


def test_only_bundles_whose_path_has_changed_are_concerned(sources: FollowedSources) -> None:
    """A commit that touches the folder of one Bundle is no news for the other."""
    look(sources, b"tip 1", FIRST)
    assert look(sources, b"tip 2", {"web": content(3)}) == {WEB}
    assert look(sources, b"tip 3", {}) == set()
    assert state(sources, API).content == content(2)


def test_commit_during_a_fetch_is_fetched_too(sources: FollowedSources) -> None:
    """What was fetched is that of the check before."""
    check(sources, b"tip 1")
    begun = fetching(sources)
    sources.follow(WEB, replace(request("web"), asked="now"))
    check(sources, b"tip 2")
    assert sources.fetched(CHECK, begun, FetchResult(FIRST)) == (
        {WEB, API},
        NextWork(None, fetches=True),
    )
    assert state(sources).handled == ""
    assert fetch(sources, {"web": content(3)}) == {WEB}
    assert state(sources).handled == "now"


def test_other_credentials_or_another_branch_is_another_check() -> None:
    """What one tenant may read, another one does not get by naming the same URL."""
    others = [remote("next"), remote(password="one"), remote(password="two"), remote()]
    assert len({one.check(SECRET) for one in others}) == 4
    assert remote("next").place(SECRET) == remote().place(SECRET)
    assert remote(password="one").place(SECRET) != remote(password="two").place(SECRET)


def test_other_keys_are_another_check() -> None:
    """A source that was verified by one key is not verified by another."""
    verified = [
        replace(remote(), verification=SourceVerification(mode, {"a.asc": key}))
        for mode in ("HEAD", "Tag")
        for key in (b"one", b"two")
    ]
    assert len({one.check(SECRET) for one in [remote(), *verified]}) == 5


def test_names_tell_nothing_without_the_controllers_secret() -> None:
    """Whoever sees a name of the cache cannot try passwords."""
    assert remote(password="one").place(SECRET) != remote(password="one").place(b"other")


def test_failed_check_keeps_the_last_good_content(
    sources: FollowedSources, clock: ManualClock
) -> None:
    """One that may pass is told when the last success is old: by its age, not by a number."""
    look(sources, b"tip 1", FIRST)
    for _ in range(9):
        assert check(sources, BROKEN) == set()
        clock.advance(5.0)
    assert sources.newly_silent() == set()
    assert state(sources).problem is None
    clock.advance(60.0)
    assert sources.newly_silent() == {WEB, API}
    assert sources.newly_silent() == set()
    assert (state(sources).content, state(sources).problem) == (content(1), BROKEN)
    assert check(sources, b"tip 1") == {WEB, API}
    assert state(sources).problem is None


def test_source_without_a_check_in_time_has_a_problem(
    sources: FollowedSources, clock: ManualClock
) -> None:
    """A check that hangs, or waits for its turn, ends with no failure."""
    clock.advance(7.0)
    look(sources, b"tip 1", FIRST)
    task = checking(sources)
    sources.pause(API)
    clock.advance(61.0)
    assert sources.newly_silent() == {WEB}
    problem = state(sources).problem
    assert problem is not None
    assert problem.message == "no check of the source has succeeded since 001007"
    assert sources.ages() == {WEB: SourceAge(61.0, 0.0)}
    sources.checked(CHECK, task, CheckResult(b"tip 1"))
    assert state(sources).problem is None


def test_silence_begins_after_two_intervals() -> None:
    """Of each Bundle."""
    clock = ManualClock()
    sources = FollowedSources(clock)
    sources.follow(WEB, request("web", interval=300.0))
    sources.follow(API, request("api", interval=60.0))
    clock.advance(121.0)
    assert sources.newly_silent() == {API}
    clock.advance(480.0)
    assert sources.newly_silent() == {WEB}


def test_refused_revision_is_reported_at_once(sources: FollowedSources) -> None:
    """A signature that is wrong does not pass."""
    look(sources, b"tip 1", FIRST)
    check(sources, b"tip 2")
    wrong = Problem(ProblemKind.VERIFICATION_FAILED, "it has no signature")
    assert fetch(sources, wrong) == {WEB, API}
    assert state(sources).content == content(1)


def test_first_failure_is_reported_where_nothing_is_known(sources: FollowedSources) -> None:
    """Otherwise a Bundle with a wrong URL would say nothing."""
    assert check(sources, BROKEN) == {WEB, API}


def test_fetch_that_has_failed_is_tried_again(sources: FollowedSources, clock: ManualClock) -> None:
    """After another check."""
    look(sources, b"tip 1", FIRST)
    check(sources, b"tip 2")
    assert fetch(sources, BROKEN) == set()
    assert sources.fetch_task(CHECK) is None
    clock.advance(30.0)
    check(sources, b"tip 2")
    assert fetch(sources, {"web": content(3)}) == {WEB}


def test_missing_path_concerns_its_bundle_only(sources: FollowedSources) -> None:
    """Its last good content stays."""
    look(sources, b"tip 1", FIRST)
    assert look(sources, b"tip 2", {"web": MISSING}) == {WEB}
    assert (state(sources).content, state(sources).problem) == (content(1), MISSING)
    assert check(sources, b"tip 2") == set()
    # Back again with the same content.
    assert look(sources, b"tip 3", {"web": content(1)}) == {WEB}


def test_new_path_of_a_known_reference_needs_no_check() -> None:
    """Only the new path is read, from what the last check has found."""
    sources = FollowedSources(ManualClock())
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, b"tip 1", FIRST)
    due = sources.follow(("shop", "db"), request("db", interval=60.0))
    assert due == NextWork(None, fetches=True)
    task = sources.fetch_task(CHECK)
    assert task is not None
    assert (task.tip, task.paths) == (b"tip 1", {"db": None})


@pytest.mark.holds("tip-of-all-paths")
def test_fetch_of_a_new_path_ends_no_retry_of_the_others() -> None:
    """A check has ended meanwhile, after which they are all to be read again."""
    sources = FollowedSources(ManualClock())
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, b"tip", {"web": BROKEN})
    sources.follow(API, request("api", interval=60.0))
    begun = fetching(sources)
    sources.follow(WEB, replace(request("web", interval=60.0), asked="now"))
    sources.checked(CHECK, checking(sources), CheckResult(b"tip"))
    sources.fetched(CHECK, begun, FetchResult({"api": content(2)}))
    assert fetching(sources).paths == {"web": None, "api": content(2)}


def test_reconcile_now_asks_for_a_check() -> None:
    """Once for each new value; it is handled by a check that began after it was seen."""
    sources = FollowedSources(ManualClock())
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, b"tip 1", FIRST)
    sources.follow(WEB, request("web", interval=3.0))
    sources.clock.advance(4.0)  # type: ignore[attr-defined]
    task = checking(sources)
    asked = replace(request("web", interval=60.0), asked="now")
    assert sources.follow(WEB, asked) == NextWork(None)
    # That check had begun before.
    assert sources.checked(CHECK, task, CheckResult(b"tip 1")) == (set(), NextWork(0.0))
    assert state(sources).handled == ""
    assert check(sources, b"tip 1") == {WEB}
    assert state(sources).handled == "now"
    assert sources.follow(WEB, asked).check_in == pytest.approx(60.0, rel=0.1)


def test_failure_of_a_requested_check_is_reported_at_once(sources: FollowedSources) -> None:
    """To whoever has asked: to be told nothing would be to be told that all is well."""
    look(sources, b"tip 1", FIRST)
    sources.follow(WEB, replace(request("web"), asked="now"))
    assert check(sources, BROKEN) == {WEB}
    assert (state(sources).handled, state(sources).problem) == ("now", BROKEN)
    assert state(sources, API).problem is None


@pytest.mark.holds("check-of-the-same-second")
def test_check_that_another_replica_has_overtaken_is_made_again(
    sources: FollowedSources, clock: ManualClock
) -> None:
    """By a time of the API server; one that is newer is enough."""
    clock.advance(10.0)
    for key, path in ((WEB, "web"), (API, "api")):
        sources.follow(key, request(path, interval=60.0))
    look(sources, b"tip 1", FIRST)
    assert state(sources).checked == "001010"
    older = replace(request("web", interval=60.0), older_than="001010")
    assert sources.follow(WEB, older) == NextWork(0.0)
    # One that has begun in the same second is not.
    same = checking(sources)
    assert sources.checked(CHECK, same, CheckResult(b"tip 1")) == (set(), NextWork(1.0))
    clock.advance(1.0)
    assert check(sources, b"tip 1") == {WEB}
    assert state(sources).checked == "001011"
    assert sources.follow(WEB, older).check_in == pytest.approx(60.0, rel=0.1)


def test_paths_of_dependencies_are_known_beside(sources: FollowedSources) -> None:
    """They are read with the same commit, and a change of them is news."""
    sources.drop(API)
    sources.follow(WEB, replace(request("web"), beside=frozenset({"db", "api"})))
    assert look(sources, b"tip 1", {**FIRST, "db": MISSING}) == {WEB}
    assert state(sources).beside == {"api": "tree 2", "db": ""}
    assert look(sources, b"tip 2", {"api": content(4)}) == {WEB}


def test_lost_artifact_is_fetched_again(sources: FollowedSources) -> None:
    """The cache has removed it to make room."""
    look(sources, b"tip 1", FIRST)
    lost = replace(request("web", interval=60.0), lost="artifact 1")
    assert sources.follow(WEB, lost).fetches
    assert sources.state(WEB) is None
    task = fetching(sources)
    assert task.paths == {"web": None}
    assert sources.fetched(CHECK, task, FetchResult({"web": content(1)}))[0] == {WEB}


def test_nothing_is_checked_for_nobody(sources: FollowedSources) -> None:
    """The last Bundle has left: the check ends, and what is known is forgotten."""
    task = checking(sources)
    sources.drop(WEB)
    sources.follow(API, None)
    assert sources.check_task(CHECK) == NextWork(None)
    assert sources.checked(CHECK, task, CheckResult(b"tip 1", is_new=True)) == (
        set(),
        NextWork(None),
    )
    assert sources.state(WEB) is None
    assert sources.namespaces(CHECK) == ()


@pytest.mark.holds("awaited-task")
def test_nothing_is_kept_of_what_began_for_others(sources: FollowedSources) -> None:
    """All have left, and another Bundle follows the same reference: it has a check of its own."""
    old = checking(sources)
    assert sources.awaits(CHECK, old)
    for key in (WEB, API):
        sources.drop(key)
    assert not sources.awaits(CHECK, old)
    sources.follow(WEB, request("web"))
    new = checking(sources)
    assert not sources.awaits(CHECK, old)
    assert sources.checked(CHECK, old, CheckResult(b"", problem=BROKEN)) == (set(), NextWork(None))
    assert sources.awaits(CHECK, new)
    sources.checked(CHECK, new, CheckResult(b"tip 1", is_new=True))
    begun = fetching(sources)
    sources.drop(WEB)
    sources.follow(WEB, request("web"))
    check(sources, b"tip 1")
    own = fetching(sources)
    assert sources.fetched(CHECK, begun, FetchResult(problem=BROKEN)) == (set(), NextWork(None))
    assert sources.fetched(CHECK, own, FetchResult({"web": content(1)}))[0] == {WEB}


def test_shortest_interval_counts(sources: FollowedSources) -> None:
    """Of all that follow a reference."""
    sources.follow(WEB, request("web", interval=10.0))
    sources.follow(API, request("api", interval=60.0))
    check(sources, b"tip 1")
    begun = fetching(sources)
    due = sources.fetched(CHECK, begun, FetchResult(FIRST))[1]
    assert due.check_in == pytest.approx(10, rel=0.1)


def test_failed_checks_come_less_and_less_often() -> None:
    """Up to the interval; another namespace's turn comes no sooner."""
    clock = ManualClock()
    sources = FollowedSources(clock)
    sources.follow(WEB, request("web", interval=60.0))
    delays = []
    for _ in range(8):
        task = checking(sources)
        due = sources.checked(CHECK, task, CheckResult(b"", problem=BROKEN))[1]
        assert due.check_in is not None
        assert sources.check_task(CHECK) == due
        delays.append(due.check_in)
        clock.advance(due.check_in)
    assert delays == pytest.approx([5, 10, 20, 40, 60, 60, 60, 60], rel=0.1)


def test_check_at_the_end_of_the_interval_is_due() -> None:
    """Whatever part of it chance has chosen: a check that is not due would see no change."""
    clock = ManualClock()
    sources = FollowedSources(clock)
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, b"tip 1", FIRST)
    for _ in range(20):
        due = sources.check_task(CHECK)
        assert isinstance(due, NextWork)
        assert due.check_in is not None
        assert due.check_in == pytest.approx(60, rel=0.1)
        clock.advance(due.check_in - 1)
        assert isinstance(sources.check_task(CHECK), NextWork)
        clock.advance(1.001)
        check(sources, b"tip 1")


@pytest.mark.holds("clock-of-sources", "clock-of-checks")
def test_checks_are_due_by_the_clock_of_the_bundles(tmp_path: Path) -> None:
    """The time of a check is that of its queue."""
    clock = ManualClock()
    with client_of_no_server(tmp_path) as (access, _):
        settings = WorkerSettings(access, None, "test", "error", WorkerLimits())
    # No check begins, so no process is started.
    checker = Checker(WorkerHandle(worker_context(), settings, check_sources))
    looks = SourceDispatcher(WorkQueue(clock=clock), Metrics(), checker, ())
    looks.follow(WEB, request("web", interval=60.0))
    key = ("shop", CHECK)
    assert looks.checks.get() == key
    look(looks.followed, b"tip 1", FIRST)
    looks.checks.done(key)
    looks.checks.add(key, 66.0)
    clock.advance(66.0)
    assert looks.checks.waiting == 1
    assert isinstance(looks.followed.check_task(CHECK), CheckTask)


def test_bundle_with_a_shorter_interval_is_checked_for_sooner() -> None:
    """It does not wait for the end of the interval of those that came before."""
    sources = FollowedSources(ManualClock())
    sources.follow(WEB, request("web", interval=3600.0))
    look(sources, b"tip 1", FIRST)
    due = sources.follow(API, request("web", interval=10.0))
    assert due.check_in == pytest.approx(10, rel=0.1)


def test_longest_timeout_counts(sources: FollowedSources) -> None:
    """Otherwise a tenant with a short one would end the fetches of all others."""
    sources.follow(("evil", "web"), replace(request("web"), timeout=1.0))
    sources.drop(WEB)
    task = checking(sources)
    assert task.timeout == LONGEST_CHECK
    sources.checked(CHECK, task, CheckResult(b"tip 1", is_new=True))
    fetched = sources.fetch_task(CHECK)
    assert isinstance(fetched, FetchTask)
    assert fetched.timeout == 60.0


def test_problem_of_a_path_that_may_pass_is_looked_at_again(sources: FollowedSources) -> None:
    """A disk that was full: the reference has not moved, and the content is still missing."""
    look(sources, b"tip 1", FIRST)
    assert look(sources, b"tip 2", {"web": BROKEN}) == {WEB}
    assert look(sources, b"tip 2", {"web": content(2)}) == {WEB}
    assert (state(sources).content, state(sources).problem) == (content(2), None)


def test_nothing_is_checked_for_a_suspended_bundle(sources: FollowedSources) -> None:
    """What is known of its source stays; it goes on where it was."""
    look(sources, b"tip 1", FIRST)
    sources.pause(WEB)
    task = checking(sources)
    sources.pause(API)
    assert sources.checked(CHECK, task, CheckResult(b"tip 1"))[1] == NextWork(None)
    assert sources.check_task(CHECK) == NextWork(None)
    assert state(sources).content == content(1)
    assert sources.follow(API, request("api")) == NextWork(0.0)
    assert isinstance(sources.check_task(CHECK), CheckTask)
    sources.pause(("shop", "none"))


@pytest.mark.parametrize("result", [b"two", BROKEN], ids=["a tip", "a failure"])
def test_check_that_ends_when_nobody_looks_any_more_is_kept(
    sources: FollowedSources, result: bytes | Problem
) -> None:
    """All its Bundles were suspended meanwhile."""
    task = checking(sources)
    for key in (WEB, API):
        sources.pause(key)
    ended = (
        CheckResult(task.tip, problem=result)
        if isinstance(result, Problem)
        else CheckResult(result, is_new=True)
    )
    assert sources.checked(CHECK, task, ended)[1] == NextWork(None)
    assert sources.follow(WEB, request("web")) != NextWork(None)


def test_fetch_that_has_found_a_content_is_numbered(sources: FollowedSources) -> None:
    """Each path has the fetch that has changed it; a fault that stays is no change."""
    assert sources.found(WEB) == FoundAt()
    look(sources, b"tip 1", FIRST)
    assert (sources.found(WEB), sources.found(API)) == (FoundAt("tree 1", 1), FoundAt("tree 2", 1))
    look(sources, b"tip 2", {"web": MISSING})
    assert (sources.found(WEB), sources.found(API)) == (FoundAt("", 2), FoundAt("tree 2", 1))
    look(sources, b"tip 3", {"web": MISSING, "api": content(3)})
    assert (sources.found(WEB), sources.found(API)) == (FoundAt("", 2), FoundAt("tree 3", 3))
    look(sources, b"tip 4", {"web": content(1)})
    assert sources.found(WEB) == FoundAt("tree 1", 4)
    assert sources.found(("shop", "none")) == FoundAt()

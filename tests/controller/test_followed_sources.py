"""Who follows which source: one look for all, and only those with news are reconciled."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from applyprune.controller.dispatcher import FetchDispatcher
from applyprune.controller.fetch import RemoteSource, SourceVerification
from applyprune.controller.followed_sources import FollowedSources
from applyprune.controller.queue import WorkQueue
from applyprune.controller.task import FetchResult, SourceContent, SourceRequest
from applyprune.http import AddressRules
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import GitRef, GitSource
from applyprune.sources.tree import SourceCredentials
from tests.support.clocks import ManualClock

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
    """Return what a Bundle with a path needs; its look is always due."""
    of = source or remote()
    check, place = of.check(SECRET), of.place(SECRET)
    return SourceRequest(pickle.dumps(of), check, place, path, interval, 60.0)


def content(number: int) -> SourceContent:
    """Return the content of a commit."""
    return SourceContent(f"tree {number}", f"artifact {number}", f"main@sha1:{number}")


@pytest.fixture
def sources() -> FollowedSources:
    """Two Bundles that follow the same branch, each another path; nothing is known of it."""
    found = FollowedSources(ManualClock())
    assert found.follow(WEB, request("web")) == found.follow(API, request("api"))
    return found


def look(
    sources: FollowedSources, key: tuple[str, str], fetched: FetchResult
) -> set[tuple[str, str]]:
    """End a look with a result; return the Bundles that it concerns."""
    task = sources.task(key)
    assert task is not None
    return sources.done(key, task, fetched)[0]


def key_of(source: RemoteSource) -> tuple[str, str]:
    """Return the key of a look."""
    return ("shop", source.check(SECRET))


FIRST = FetchResult(b"tip 1", {"web": content(1), "api": content(2)})


def test_one_look_serves_all_that_follow_a_reference(sources: FollowedSources) -> None:
    """It names each path, and each Bundle gets the content of its own."""
    task = sources.task(key_of(remote()))
    assert task is not None
    assert task.checks_ref
    assert task.paths == {"web": None, "api": None}
    assert look(sources, key_of(remote()), FIRST) == {WEB, API}
    state = sources.state(WEB)
    assert state is not None
    assert (state.path, state.content, state.problem) == ("web", content(1), None)


def test_only_bundles_whose_path_has_changed_are_concerned(sources: FollowedSources) -> None:
    """A commit that touches the folder of one Bundle is no news for the other."""
    key = key_of(remote())
    look(sources, key, FIRST)
    assert look(sources, key, FetchResult(b"tip 2", {"web": content(3)})) == {WEB}
    assert look(sources, key, FetchResult(b"tip 3", {})) == set()
    state = sources.state(API)
    assert state is not None
    assert state.content == content(2)


def test_other_credentials_or_another_branch_is_another_look(sources: FollowedSources) -> None:
    """What one tenant may read, another one does not get by naming the same URL."""
    others = [remote("next"), remote(password="one"), remote(password="two")]
    keys = {sources.follow(("blog", f"b{at}"), request("web", of)) for at, of in enumerate(others)}
    assert len(keys | {key_of(remote())}) == 4
    assert remote("next").place(SECRET) == remote().place(SECRET)
    assert remote(password="one").place(SECRET) != remote(password="two").place(SECRET)


def test_other_keys_are_another_look() -> None:
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


def test_failed_look_keeps_the_last_good_content(sources: FollowedSources) -> None:
    """One that may pass is told when it has lasted; no Bundle is reconciled for a moment of it."""
    key = key_of(remote())
    look(sources, key, FIRST)
    failed = FetchResult(b"tip 1", problem=BROKEN)
    assert look(sources, key, failed) == set()
    assert look(sources, key, failed) == set()
    assert look(sources, key, failed) == {WEB, API}
    assert look(sources, key, failed) == set()
    state = sources.state(WEB)
    assert state is not None
    assert (state.content, state.problem) == (content(1), BROKEN)
    assert look(sources, key, FetchResult(b"tip 1")) == {WEB, API}


def test_refused_revision_is_reported_at_once(sources: FollowedSources) -> None:
    """A signature that is wrong does not pass."""
    key = key_of(remote())
    look(sources, key, FIRST)
    wrong = Problem(ProblemKind.VERIFICATION_FAILED, "it has no signature")
    assert look(sources, key, FetchResult(b"tip 1", problem=wrong)) == {WEB, API}


def test_first_failure_is_reported_where_nothing_is_known(sources: FollowedSources) -> None:
    """Otherwise a Bundle with a wrong URL would say nothing."""
    assert look(sources, key_of(remote()), FetchResult(b"", problem=BROKEN)) == {WEB, API}


def test_missing_path_concerns_its_bundle_only(sources: FollowedSources) -> None:
    """Its last good content stays."""
    key = key_of(remote())
    look(sources, key, FIRST)
    assert look(sources, key, FetchResult(b"tip 2", {"web": MISSING})) == {WEB}
    state = sources.state(WEB)
    assert state is not None
    assert (state.content, state.problem) == (content(1), MISSING)
    assert look(sources, key, FetchResult(b"tip 2")) == set()
    assert sources.state(WEB) == state
    # Back again with the same content.
    assert look(sources, key, FetchResult(b"tip 3", {"web": content(1)})) == {WEB}


def test_new_path_of_a_known_reference_needs_no_look_at_it() -> None:
    """Only the new path is read, from what the last look has found."""
    sources, key = FollowedSources(ManualClock()), key_of(remote())
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, key, FIRST)
    assert sources.follow(("shop", "db"), request("db", interval=60.0)) == key
    task = sources.task(key)
    assert task is not None
    assert (task.checks_ref, task.tip, task.paths) == (False, b"tip 1", {"db": None})


def test_reconcile_now_asks_for_a_look() -> None:
    """Once for each new value."""
    sources, key = FollowedSources(ManualClock()), key_of(remote())
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, key, FIRST)
    asked = replace(request("web", interval=60.0), asked="now")
    assert sources.follow(WEB, request("web", interval=60.0)) is None
    assert sources.follow(WEB, asked) == key
    task = sources.task(key)
    assert task is not None
    assert task.checks_ref
    assert sources.follow(WEB, asked) is None


def test_lost_artifact_is_fetched_again(sources: FollowedSources) -> None:
    """The cache has removed it to make room."""
    key = key_of(remote())
    for user, path in ((WEB, "web"), (API, "api")):
        sources.follow(user, request(path, interval=60.0))
    look(sources, key, FIRST)
    lost = replace(request("web", interval=60.0), lost="artifact 1")
    assert sources.follow(WEB, lost) == key
    assert sources.state(WEB) is None
    task = sources.task(key)
    assert task is not None
    assert task.paths == {"web": None}
    assert look(sources, key, FetchResult(b"tip 1", {"web": content(1)})) == {WEB}


def test_nothing_is_looked_at_for_nobody(sources: FollowedSources) -> None:
    """The last Bundle has left: the look ends, and what is known is forgotten."""
    key = key_of(remote())
    task = sources.task(key)
    assert task is not None
    sources.leave(WEB)
    sources.follow(API, None)
    assert sources.task(key) is None
    assert sources.done(key, task, FIRST) == (set(), None)
    assert sources.state(WEB) is None


def test_shortest_interval_counts(sources: FollowedSources) -> None:
    """Of all that follow a reference."""
    key = key_of(remote())
    sources.follow(WEB, request("web", interval=10.0))
    sources.follow(API, request("api", interval=60.0))
    task = sources.task(key)
    assert task is not None
    _, delay = sources.done(key, task, FIRST)
    assert delay == pytest.approx(10, rel=0.1)


def test_failed_looks_come_less_and_less_often() -> None:
    """Up to the interval."""
    sources, key = FollowedSources(ManualClock()), key_of(remote())
    sources.follow(WEB, request("web", interval=60.0))
    delays = []
    for _ in range(8):
        task = sources.task(key)
        assert task is not None
        delays.append(sources.done(key, task, FetchResult(b"", problem=BROKEN))[1])
    assert delays == pytest.approx([5, 10, 20, 40, 60, 60, 60, 60], rel=0.1)


def test_failed_look_that_was_asked_for_is_tried_again() -> None:
    """Though the last good one is recent: the failure is no news of the source."""
    sources, key = FollowedSources(ManualClock()), key_of(remote())
    sources.follow(WEB, request("web", interval=60.0))
    look(sources, key, FetchResult(b"tip 1", {"web": content(1)}))
    assert sources.follow(WEB, replace(request("web", interval=60.0), asked="now")) == key
    look(sources, key, FetchResult(b"tip 1", problem=BROKEN))
    task = sources.task(key)
    assert task is not None
    assert task.checks_ref


def test_look_at_the_end_of_the_interval_is_due() -> None:
    """Whatever part of it chance has chosen: a look that is not due would see no change."""
    clock = ManualClock()
    sources, key = FollowedSources(clock), key_of(remote())
    sources.follow(WEB, request("web", interval=60.0))

    def looks() -> bool:
        task = sources.task(key)
        assert task is not None
        return task.checks_ref

    for _ in range(20):
        task = sources.task(key)
        assert task is not None
        _, delay = sources.done(key, task, FetchResult(b"tip 1", {"web": content(1)}))
        assert delay is not None
        assert delay == pytest.approx(60, rel=0.1)
        clock.advance(delay - 1)
        assert not looks()
        clock.advance(1.001)
        assert looks()


def test_looks_are_due_by_the_clock_of_the_bundles() -> None:
    """The time of a look is that of its queue."""
    clock = ManualClock()
    looks, key = FetchDispatcher(WorkQueue(clock=clock), ()), key_of(remote())
    looks.follow(WEB, request("web", interval=60.0))
    assert looks.queue.get() == key
    look(looks.sources, key, FetchResult(b"tip 1", {"web": content(1)}))
    looks.queue.done(key)
    looks.queue.add(key, 66.0)
    clock.advance(66.0)
    assert looks.queue.waiting == 1
    task = looks.sources.task(key)
    assert task is not None
    assert task.checks_ref


def test_bundle_with_a_shorter_interval_is_looked_for_sooner() -> None:
    """It does not wait for the end of the interval of those that came before."""
    sources, key = FollowedSources(ManualClock()), key_of(remote())
    sources.follow(WEB, request("web", interval=3600.0))
    look(sources, key, FetchResult(b"tip 1", {"web": content(1)}))
    assert sources.follow(API, request("web", interval=10.0)) == key
    task = sources.task(key)
    assert task is not None
    assert not task.checks_ref
    assert sources.done(key, task, FetchResult(b"tip 1"))[1] == pytest.approx(10, rel=0.1)
    assert sources.follow(API, request("web", interval=10.0)) is None


def test_longest_timeout_counts(sources: FollowedSources) -> None:
    """Otherwise a tenant with a short one would end the looks of all others."""
    sources.follow(("evil", "web"), replace(request("web"), timeout=1.0))
    sources.leave(WEB)
    task = sources.task(key_of(remote()))
    assert task is not None
    assert task.timeout == 60.0


def test_problem_of_a_path_that_may_pass_is_looked_at_again(sources: FollowedSources) -> None:
    """A disk that was full: the reference has not moved, and the content is still missing."""
    key = key_of(remote())
    look(sources, key, FIRST)
    assert look(sources, key, FetchResult(b"tip 2", {"web": BROKEN})) == {WEB}
    task = sources.task(key)
    assert task is not None
    assert task.tip == b""
    assert sources.done(key, task, FetchResult(b"tip 2", {"web": content(2)}))[0] == {WEB}
    state = sources.state(WEB)
    assert state is not None
    assert (state.content, state.problem) == (content(2), None)


def test_nothing_is_looked_at_for_a_suspended_bundle(sources: FollowedSources) -> None:
    """What is known of its source stays; it goes on where it was."""
    key = key_of(remote())
    look(sources, key, FIRST)
    sources.pause(WEB)
    task = sources.task(key)
    assert task is not None
    sources.pause(API)
    assert sources.task(key) is None
    assert sources.done(key, task, FetchResult(b"tip 1"))[1] is None
    state = sources.state(WEB)
    assert state is not None
    assert state.content == content(1)
    assert sources.follow(API, request("api")) == key
    assert sources.task(key) is not None
    sources.pause(("shop", "none"))

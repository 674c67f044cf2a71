"""Workers that do not start, and checks that nobody waits for any more: no place stays taken."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.controller import followed_sources
from applyprune.controller.clients import BundleObjects, bundle_ref
from applyprune.controller.dispatcher import CHECKS, Dispatcher, SourceDispatcher
from applyprune.controller.fetch import RemoteSource
from applyprune.controller.leader import Leadership
from applyprune.controller.metrics import Health, Metrics
from applyprune.controller.queue import WorkQueue
from applyprune.controller.report import EventRecorder, Reporter
from applyprune.controller.source_checker import Checker, check_sources
from applyprune.controller.task import CheckResult, CheckTask, SourceRequest
from applyprune.controller.watches import Watches
from applyprune.controller.worker import WorkerHandle, WorkerLimits, WorkerSettings, worker_context
from applyprune.engine.waiting import Upserted, WatchScope
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.sources.address import GitRef, GitSource, OciRef
from applyprune.sources.oci_artifact import OciSource
from applyprune.sources.tree import SourceCredentials
from tests.support import tls_site
from tests.support.clocks import HeldClock, ManualClock
from tests.support.git_servers import git_site
from tests.support.listening import silent_host
from tests.support.no_server import client_of_no_server
from tests.support.processes import children, family, name_of, threads_of
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.clock import Clock

    Make = Callable[..., Dispatcher]
    from pathlib import Path

    from applyprune.controller.fetch import SourceTransport
    from applyprune.controller.reasons import Key
    from tests.support.git_servers import HttpsSite
    from tests.support.tls_site import Answer, Call, Site

WEB = ("shop", "web")
SCOPE = WatchScope(BUNDLES, full=False)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A factory of dispatchers with one worker, and a server at whose port nobody listens."""
    with (
        client_of_no_server(tmp_path) as (access, client),
        closing(worker_context()) as context,
    ):
        bundles = BundleObjects(client)
        made: list[Dispatcher] = []

        def new(clock: Clock, *, level: str = "error") -> Dispatcher:
            queue = WorkQueue(workers=1, min_gap=0, clock=clock)
            settings = WorkerSettings(access, None, "test", level, WorkerLimits())
            handle = WorkerHandle(context, settings)
            watches = Watches(queue, client, access, "test")
            reporter = Reporter(bundles, EventRecorder(client), "alone")
            checker = Checker(WorkerHandle(context, settings, check_sources))
            metrics = Metrics()
            sources = SourceDispatcher(queue, metrics, checker, ())
            alone = Leadership(leads=True)
            one = Dispatcher(queue, watches, metrics, bundles, reporter, (handle,), alone, sources)
            made.append(one)
            return one

        yield new
        for one in made:
            one.kill()
            one.watches.close()


@pytest.mark.holds("started-worker")
def test_workers_that_do_not_start_take_no_bundle(make: Make) -> None:
    """It stays due, so the health says that nobody is served; the thread goes on trying."""
    clock = HeldClock()
    dispatcher = make(clock, level="no level")
    (thread,) = dispatcher.threads()
    dispatcher.queue.add(WEB)
    health = Health(dispatcher.queue, dispatcher.watches, threads=(thread,))
    thread.start()
    for pause in (1, 2, 4, 8, 16, 32):
        assert pause_of(clock) == pause
        assert health.unserved() == ""
        clock.advance(pause)
    # At last once a minute.
    assert pause_of(clock) == 60
    assert health.unserved().endswith("for 63 s; Bundles due: 1, being reconciled: 0")
    assert health.broken() == ""
    dispatcher.end()
    thread.join(HANG)
    assert not thread.is_alive()


def pause_of(clock: HeldClock) -> float:
    """Return for how long a thread waits now; wait until it does."""
    (ends,) = eventually(lambda: [one for one in clock.waiting if one > clock.now()])
    return float(ends - clock.now())


def test_reconcile_that_cannot_write_a_status_is_tried_again_later(make: Make) -> None:
    """Without a server; and the end of the controller ends the thread."""
    clock = HeldClock()
    dispatcher = make(clock)
    (thread,) = dispatcher.threads()
    dispatcher.queue.add(WEB)
    thread.start()
    for pause in (1, 2):
        found = pause_of(clock)
        assert found == pytest.approx(pause, rel=0.1)
        assert dispatcher.busy_since == {}
        clock.advance(found)
    dispatcher.end()
    thread.join(HANG)
    assert not thread.is_alive()


def test_bundles_are_queued_while_their_replica_leads(make: Make) -> None:
    """Whether they are seen before, while or after it begins to lead; one that is gone leaves."""
    clock = ManualClock()
    dispatcher = make(clock)
    queue, watches, leadership = dispatcher.queue, dispatcher.watches, dispatcher.leadership

    def begin_or_stop(*, leads: bool) -> int:
        leadership.leads = leads
        dispatcher.follow_election()
        clock.advance(1)
        return queue.waiting

    assert begin_or_stop(leads=False) == 0
    watches.on_report(changed("1"))
    assert queue.waiting == 0
    leadership.leads = True
    watches.on_report(changed("2"))
    assert begin_or_stop(leads=True) == 1
    assert begin_or_stop(leads=False) == 0
    # It goes while the replica does not lead any more, and does not know it yet.
    assert begin_or_stop(leads=True) == 1
    leadership.leads = False
    watches.on_report(Upserted(SCOPE, bundle_ref(WEB), None))
    assert begin_or_stop(leads=False) == 0
    assert begin_or_stop(leads=True) == 0


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(
            lambda watches: watches.wait_for(WEB, ["db"]),
            marks=pytest.mark.holds("dependency-seen-late"),
            id="for another",
        ),
        pytest.param(
            lambda watches: watches.wait_for_kinds(WEB, waits=True),
            marks=pytest.mark.holds("kind-seen-late"),
            id="for a kind",
        ),
    ],
)
def test_bundle_that_begins_to_wait_is_looked_at_again(
    make: Make, wait: Callable[[Watches], None]
) -> None:
    """What it waits for may have come after it was read; later, a watch tells."""
    clock = ManualClock()
    dispatcher = make(clock)
    queue, watches = dispatcher.queue, dispatcher.watches
    wait(watches)
    clock.advance(1)
    assert queue.waiting == 1
    assert queue.get() == WEB
    queue.done(WEB)
    wait(watches)
    clock.advance(3600)
    assert queue.waiting == 0


def changed(version: str) -> Upserted:
    """Return the change of a Bundle of which only the status has changed, by its metadata."""
    ref = bundle_ref(WEB)
    metadata = {"name": WEB[1], "namespace": WEB[0], "generation": 1}
    return Upserted(SCOPE, ref, LiveObject.of(ref, "uid", version, metadata))


LONG = 10 * HANG
"""Seconds of a check: longer than a test takes that hangs."""
OF_ONE_NAMESPACE = CHECKS - CHECKS // 4


@pytest.fixture
def checker(tmp_path: Path) -> Iterator[Checker]:
    """A process that checks sources."""
    with client_of_no_server(tmp_path) as (access, _):
        settings = WorkerSettings(access, None, "test", "error", WorkerLimits())
    with closing(worker_context()) as context:
        one = Checker(WorkerHandle(context, settings, check_sources))
        yield one
        one.end()


@pytest.fixture
def sources(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceDispatcher]:
    """A dispatcher of checks, with its threads."""
    monkeypatch.setattr(followed_sources, "LONGEST_CHECK", LONG)
    one = SourceDispatcher(WorkQueue(), Metrics(), checker, ())
    for thread in one.threads():
        thread.start()
    yield one
    one.end()


@pytest.fixture
def git(tmp_path: Path) -> Iterator[HttpsSite]:
    """A Git server."""
    with git_site(tmp_path / "git") as one:
        one.repository().commit({"a.yaml": ""})
        yield one


def drip(call: Call) -> Answer:
    """Answer a registry's check one byte a second, and one of ``busy`` that the server is that."""
    if call.path.startswith("/v2/busy/"):
        return tls_site.Answer(503, headers={"Retry-After": f"{HANG:.0f}"})
    if call.method == "HEAD":
        return tls_site.Answer(405)
    return tls_site.Answer(200, bytes(2 << 20), pause=1.0)


@pytest.fixture
def web() -> Iterator[Site]:
    """A registry that drips, and is busy."""
    with tls_site.site(drip) as one:
        yield one


def task_of(transport: SourceTransport) -> CheckTask:
    """Return the check of a source."""
    return CheckTask(pickle.dumps(RemoteSource(transport)), LONG)


def request(transport: SourceTransport, name: str) -> SourceRequest:
    """Return what a Bundle needs of a source."""
    return SourceRequest(pickle.dumps(RemoteSource(transport)), name, name, "", 60.0, LONG)


def ends(checker: Checker, transport: SourceTransport, *, asked: object) -> None:
    """Check a source, and want it no more when its server was ``asked``."""
    assert callable(asked)
    with ThreadPoolExecutor(1) as pool:
        wanted = [True]
        check = pool.submit(checker.check, task_of(transport), lambda: wanted[0])
        eventually(asked, lambda: "a request")
        wanted[0] = False
        assert check.result(HANG) == CheckResult(b"")


def test_unwanted_check_of_a_silent_git_host_ends(checker: Checker) -> None:
    """Though the host has not even finished the TLS handshake; its git has gone."""
    with silent_host() as silent:
        url = f"https://127.0.0.1:{silent.port}/web.git"
        ends(checker, GitSource(url, GitRef("main")), asked=lambda: silent.held)
        eventually(lambda: silent.held == 0, lambda: "the end of the connection")
        assert not any(url in name_of(one) for one in family(os.getpid()))


def test_unwanted_check_of_a_git_host_that_drips_ends(checker: Checker, git: HttpsSite) -> None:
    """The server is never silent."""
    git.is_slow = True
    ends(checker, git.source(), asked=lambda: git.requests)


def test_unwanted_check_of_a_silent_ssh_host_ends(checker: Checker) -> None:
    """With the ssh that git has started, and that waits for ever once the host has said hello."""
    with silent_host(b"SSH-2.0-OpenSSH_9.9\r\n") as silent:
        url = f"ssh://git@127.0.0.1:{silent.port}/web.git"
        login = SourceCredentials(identity=b"key", known_hosts=b"host key")
        source = GitSource(url, GitRef("main"), credentials=login)
        ends(checker, source, asked=lambda: silent.held)
        eventually(lambda: silent.held == 0, lambda: "the end of the connection")


def test_unwanted_check_of_a_registry_that_drips_ends(checker: Checker, web: Site) -> None:
    """In the middle of a manifest."""
    source = OciSource(f"oci://{web.host}/web", OciRef("1"), SourceCredentials(ca=web.ca))
    ends(checker, source, asked=lambda: any(call.method == "GET" for call in web.calls))


def test_unwanted_check_of_a_busy_server_ends(checker: Checker, web: Site) -> None:
    """It has asked to wait for long."""
    source = OciSource(f"oci://{web.host}/busy", OciRef("1"), SourceCredentials(ca=web.ca))
    ends(checker, source, asked=lambda: web.calls)


def follow_silent(sources: SourceDispatcher, port: int, count: int) -> list[Key]:
    """Follow so many silent repositories of a namespace; return the Bundles that do."""
    bundles = [("shop", f"silent-{number}") for number in range(count)]
    for key in bundles:
        url = f"https://localhost:{port}/{key[1]}.git"
        sources.follow(key, request(GitSource(url, GitRef("main")), key[1]))
    return bundles


def is_idle(checker: Checker) -> bool:
    """Return whether its process has no program, and far fewer threads than checks."""
    process = checker.handle._process
    assert process is not None
    assert process.pid is not None
    return threads_of(process.pid) < OF_ONE_NAMESPACE // 2 and not children(process.pid)


def test_followers_that_come_and_go_leave_nothing_behind(
    checker: Checker, sources: SourceDispatcher
) -> None:
    """No thread, no process and no connection: the memory of the process is for all tenants."""
    with silent_host() as silent:
        for _ in range(4):
            bundles = follow_silent(sources, silent.port, CHECKS)
            eventually(lambda: silent.held >= OF_ONE_NAMESPACE, lambda: f"{silent.held} held")
            for key in bundles:
                sources.drop(key)
            eventually(lambda: is_idle(checker), lambda: "the end of the checks")
            # The host hears of it a little later.
            eventually(lambda: silent.held == 0, lambda: f"{silent.held} connections")


@pytest.mark.holds("unfollowed-check")
def test_silent_sources_of_deleted_bundles_hold_no_place(
    sources: SourceDispatcher, git: HttpsSite
) -> None:
    """They fill the turn of their namespace; when they have gone, its other source is checked."""
    with silent_host() as silent:
        bundles = follow_silent(sources, silent.port, 2 * CHECKS)
        eventually(lambda: silent.held >= OF_ONE_NAMESPACE, lambda: f"{silent.held} connections")
        sources.follow(("shop", "web"), request(git.source(), "web"))
        # All places that its namespace may have are held.
        assert sources.checks.busy == OF_ONE_NAMESPACE
        assert git.requests == []
        for key in bundles:
            sources.drop(key)
        eventually(lambda: sources.fetches.waiting, lambda: "what the check of web has found")
        eventually(lambda: silent.held == 0, lambda: f"{silent.held} connections")

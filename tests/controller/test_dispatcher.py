"""Bundles that are due and workers that do not start: nobody is blamed, and the health says so."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.controller.clients import BundleObjects, bundle_ref
from applyprune.controller.dispatcher import Dispatcher, SourceDispatcher
from applyprune.controller.leader import Leadership
from applyprune.controller.metrics import Health, Metrics
from applyprune.controller.queue import WorkQueue
from applyprune.controller.report import EventRecorder, Reporter
from applyprune.controller.source_checker import Checker, check_sources
from applyprune.controller.watches import Watches
from applyprune.controller.worker import WorkerHandle, WorkerLimits, WorkerSettings, worker_context
from applyprune.engine.waiting import Upserted, WatchScope
from applyprune.model.live import BUNDLES, LiveObject
from tests.support.clocks import HeldClock, ManualClock
from tests.support.no_server import client_of_no_server
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.clock import Clock

    Make = Callable[..., Dispatcher]

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


@pytest.mark.holds("dependency-seen-late")
def test_bundle_that_begins_to_wait_is_looked_at_again(make: Make) -> None:
    """What it waits for may have become ready after it was read; later, a watch tells."""
    clock = ManualClock()
    dispatcher = make(clock)
    queue, watches = dispatcher.queue, dispatcher.watches
    watches.wait_for(WEB, ["db"])
    clock.advance(1)
    assert queue.waiting == 1
    assert queue.get() == WEB
    queue.done(WEB)
    watches.wait_for(WEB, ["db"])
    clock.advance(3600)
    assert queue.waiting == 0


def changed(version: str) -> Upserted:
    """Return the change of a Bundle of which only the status has changed, by its metadata."""
    ref = bundle_ref(WEB)
    metadata = {"name": WEB[1], "namespace": WEB[0], "generation": 1}
    return Upserted(SCOPE, ref, LiveObject.of(ref, "uid", version, metadata))

"""What /healthz says: nobody is served although Bundles are due, or nobody can see them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from applyprune.controller.metrics import Health
from applyprune.controller.queue import WorkQueue
from applyprune.controller.watches import Watches
from tests.support.clocks import ManualClock
from tests.support.no_server import client_of_no_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


A, B = ("shop", "a"), ("shop", "b")
ALIVE = (threading.main_thread(),)


@pytest.fixture
def clock() -> ManualClock:
    """The clock of all."""
    return ManualClock()


@pytest.fixture
def unwatched(tmp_path: Path, clock: ManualClock) -> Iterator[Watches]:
    """Watches of a server at whose port nobody listens."""
    with client_of_no_server(tmp_path) as (access, client):
        watches = Watches(WorkQueue(min_gap=0, clock=clock), client, access, "test")
        yield watches
        watches.close()


@pytest.mark.holds("unserved-bundles")
def test_due_bundles_that_nobody_serves_are_not_healthy(
    unwatched: Watches, clock: ManualClock
) -> None:
    """A worker that ends, or an empty queue, is health; work that only goes on is not."""
    queue = unwatched.queue
    health = Health(queue, unwatched)
    queue.add(A)
    clock.advance(61)
    assert health.unserved() == ""  # it has no share yet
    health.threads = ALIVE
    assert health.unserved().endswith("for 61 s; Bundles due: 1, being reconciled: 0")
    assert queue.get() == A
    assert health.unserved() == ""  # none is due
    queue.add(B)
    clock.advance(60)
    assert health.unserved() == ""
    clock.advance(1)
    assert health.unserved() == (
        "no reconcile has ended for 122 s; Bundles due: 1, being reconciled: 1"
    )
    queue.done(A)
    assert health.unserved() == ""
    clock.advance(61)
    assert health.unserved().endswith("for 61 s; Bundles due: 1, being reconciled: 0")
    assert queue.get() == B
    assert (health.unserved(), health.broken()) == ("", "")


@pytest.mark.holds("dead-thread")
def test_dead_thread_and_endless_work_are_broken(unwatched: Watches, clock: ManualClock) -> None:
    """Only a restart helps."""
    health = Health(unwatched.queue, unwatched)
    dead = threading.Thread(name="applyprune-news")
    health.threads = (*ALIVE, dead)
    assert health.broken() == health.unserved() == "a thread has ended: applyprune-news"
    health.threads, health.busy_since["worker-1"] = ALIVE, clock.now()
    clock.advance(3600)
    assert health.broken() == ""
    clock.advance(1)
    assert health.broken() == "a worker has been busy with one Bundle for 3601 s"


@pytest.mark.holds("unreached-lease")
def test_replica_that_does_not_reach_the_lease_is_not_healthy(unwatched: Watches) -> None:
    """Nothing is due then, which must not look like nothing to do."""
    health = Health(unwatched.queue, unwatched, threads=ALIVE)
    health.unreached = lambda patience: f"no Lease for {patience:.0f} s"
    assert (health.broken(), health.unserved()) == ("", "no Lease for 60 s")
    assert not health.can_serve()  # the Bundles are not listed


@pytest.mark.holds("unseen-bundles")
def test_bundles_that_cannot_be_listed_are_not_healthy(
    unwatched: Watches, clock: ManualClock
) -> None:
    """The queue is empty then, which must not look like nothing to do."""
    health = Health(unwatched.queue, unwatched, threads=ALIVE)
    over = threading.Event()
    unwatched.open()
    clock.advance(60)
    assert health.unserved() == ""
    clock.advance(1)
    assert health.unserved() == "the Bundles have not been listed after 61 s"

    def said() -> str:
        clock.advance(61)
        return health.unserved() if "cannot" in health.unserved() else ""

    attend = threading.Thread(target=unwatched.process_events, args=(over.is_set,))
    attend.start()
    try:
        reason = eventually(said, health.unserved)
    finally:
        over.set()
        attend.join()
    assert "the Bundles cannot be listed or watched for" in reason
    assert "127.0.0.1" in reason
    assert health.broken() == ""


@pytest.mark.holds("unchecked-sources")
def test_sources_that_nobody_reads_are_not_healthy(unwatched: Watches, clock: ManualClock) -> None:
    """Neither the checks nor the fetches; what waits for its share of a silent host is well."""
    checks, fetches = (WorkQueue(4, min_gap=0, clock=clock) for _ in "12")
    health = Health(unwatched.queue, unwatched, threads=ALIVE, checks=(checks, fetches))
    for number in range(3):
        checks.add(("shop", f"silent-{number}"))
        checks.set_cluster(("shop", f"silent-{number}"), "192.0.2.1")
    assert checks.get() == ("shop", "silent-0")
    clock.advance(61)
    assert (health.unserved(), checks.oldest) == ("", 61)
    fetches.add(A)
    clock.advance(60)
    assert health.unserved() == ""
    clock.advance(1)
    assert health.unserved() == "no source has been read for 122 s; sources due: 1"

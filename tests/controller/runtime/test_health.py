"""What /healthz says: nobody is served although Bundles are due, or nobody can see them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from applyprune.controller.runtime.health import PATIENCE, Health
from applyprune.controller.runtime.watches import Watches
from applyprune.controller.runtime.workqueue import WorkQueue
from tests.support.no_server import client_of_no_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


A, B = ("shop", "a"), ("shop", "b")
ALIVE = (threading.main_thread(),)


@pytest.fixture
def unwatched(tmp_path: Path) -> Iterator[Watches]:
    """Watches of a server at whose port nobody listens."""
    with client_of_no_server(tmp_path) as (access, client):
        watches = Watches(WorkQueue(), client, access, "test")
        yield watches
        watches.close()


def test_due_bundles_that_nobody_serves_are_not_healthy(unwatched: Watches) -> None:
    """A worker that ends, or an empty queue, is health; work that only goes on is not."""
    queue = WorkQueue(min_gap=0)
    health = Health(queue, unwatched, patience=0.05)
    queue.add(A)
    time.sleep(0.1)
    assert health.unserved() == ""  # it has no share yet
    health.threads = ALIVE
    assert queue.get() == A
    assert health.unserved() == ""  # none is due
    queue.add(B)
    said = eventually(health.unserved, lambda: "the reason")
    assert "no reconcile has ended for 0 s; Bundles due: 1, being reconciled: 1" in said
    queue.done(A)
    assert health.unserved() == ""
    assert eventually(health.unserved, lambda: "the reason") != ""
    assert queue.get() == B
    assert (health.unserved(), health.broken()) == ("", "")
    assert PATIENCE == 60


def test_dead_thread_and_endless_work_are_broken(unwatched: Watches) -> None:
    """Only a restart helps."""
    health = Health(WorkQueue(), unwatched)
    dead = threading.Thread(name="applyprune-news")
    health.threads = (*ALIVE, dead)
    assert health.broken() == health.unserved() == "a thread has ended: applyprune-news"
    health.threads, health.busy_since["worker-1"] = ALIVE, time.monotonic() - 3601
    assert "busy with one Bundle for 3601 s" in health.broken()


def test_replica_without_a_share_is_not_healthy(unwatched: Watches) -> None:
    """Nothing is due then, which must not look like nothing to do."""
    health = Health(WorkQueue(), unwatched, threads=ALIVE)
    health.idle = lambda patience: f"no Lease for {patience:.0f} s"
    assert (health.broken(), health.unserved()) == ("", f"no Lease for {PATIENCE:.0f} s")
    assert not health.can_serve()  # the Bundles are not listed


def test_bundles_that_cannot_be_listed_are_not_healthy(unwatched: Watches) -> None:
    """The queue is empty then, which must not look like nothing to do."""
    health = Health(unwatched.queue, unwatched, patience=0.3, threads=ALIVE)
    over = threading.Event()
    unwatched.open()
    assert health.unserved() == ""
    attend = threading.Thread(target=unwatched.attend, args=(over.is_set,))
    attend.start()
    try:
        said = eventually(lambda: health.unserved() if "cannot" in health.unserved() else "")
    finally:
        over.set()
        attend.join()
    assert "the Bundles cannot be listed or watched for" in said
    assert "127.0.0.1" in said
    assert health.broken() == ""

"""What /healthz says: nobody is served although Bundles are due, or nobody can see them."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.auth.kubeconfig import connect
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport.transport import Transport
from applyprune.controller.runtime.health import PATIENCE, Health
from applyprune.controller.runtime.watches import Watches
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.errors import UsageError
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.controller.runtime.impersonation import ServiceAccountClient

A, B = ("shop", "a"), ("shop", "b")
ALIVE = (threading.main_thread(),)


def _nobody(_namespace: str, _account: str) -> ServiceAccountClient:
    raise UsageError("no account is watched here")


@pytest.fixture
def unwatched(tmp_path: Path) -> Iterator[Watches]:
    """Watches of a server at whose port nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = tmp_path / "kubeconfig"
    file.write_text(
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "users: [{name: u, user: {}}]\ncurrent-context: c\n"
    )
    access = connect(kubeconfig=str(file), environ={})
    with closing(Transport(access, retry_budget=0.1)) as transport:
        watches = Watches(WorkQueue(), KubernetesClient(transport, "test"), _nobody)
        yield watches
        watches.close()


def test_due_bundles_that_nobody_serves_are_not_healthy(unwatched: Watches) -> None:
    """A worker that ends, or an empty queue, is health; work that only goes on is not."""
    queue = WorkQueue(min_gap=0)
    health = Health(queue, unwatched, patience=0.05)
    queue.add(A)
    time.sleep(0.1)
    assert health.unserved() == ""  # it does not lead
    health.threads = ALIVE
    assert queue.get() == A
    assert health.unserved() == ""  # none is due
    queue.add(B)
    said = eventually(health.unserved, "the reason")
    assert "no reconcile has ended for 0 s; Bundles due: 1, being reconciled: 1" in said
    queue.done(A)
    assert health.unserved() == ""
    assert eventually(health.unserved, "the reason") != ""
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

"""A reconcile that uses too much is ended, its Bundle says so, and nobody else notices."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.support.controller import controller, served
from tests.support.costly import MEGABYTE, doubling
from tests.support.objects import config_map
from tests.support.processes import children, is_running
from tests.support.waiting import HANG, eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

EXCEEDED = "ReconcileLimitExceeded"
MANY = 8000
"""Objects whose apply takes more than three seconds of CPU time."""


@contextmanager
def limited(
    site: Plane, folder: Path, tenants: tuple[Tenant, ...], *limits: str
) -> Iterator[Controller]:
    """Run a controller with three workers and small limits for some tenants."""
    namespaces = ",".join(one.namespace for one in tenants)
    arguments = ("lease=0", "--workers", "3", "--watch-namespaces", namespaces)
    with controller(site.kubeconfig, folder / "log", *arguments, *limits) as running:
        tenants[-1].bundle("first", config_map("first"))
        tenants[-1].ready("first")
        yield running


def exceeded(running: Controller, limit: str) -> float:
    """Return how many reconciles were ended at a limit."""
    return running.metric(f'applyprune_ended_reconciles_total{{limit="{limit}"}}')


def told(tenant: Tenant, name: str, *words: str) -> str:
    """Wait until a Bundle says that its reconcile was ended; return the message."""
    message = tenant.failed(name, EXCEEDED)
    assert all(word in message for word in words), message
    assert tenant.condition(name, "Reconciling")[:2] == ("True", "Retrying")
    found = eventually(
        lambda: [one for one in tenant.events(name) if one[1] == EXCEEDED], lambda: "an Event"
    )
    assert found == [("Warning", EXCEEDED, message)]
    return message


@contextmanager
def hanging(site: Plane, api: Api, tenant: Tenant) -> Iterator[threading.Event]:
    """Let a webhook of a tenant hang on its ConfigMaps; the event ends that."""
    over = threading.Event()

    def reply(request: dict[str, Any]) -> None:
        # The check before the first write does not hang.
        if request["name"].startswith("slow") and not request.get("dryRun"):
            over.wait(HANG)

    with Webhook(site, api, tenant.namespace, ("CREATE", "UPDATE"), reply):
        try:
            yield over
        finally:
            over.set()


def test_memory_and_time_of_one_bundle_are_limited(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The kernel ends it: the condition, an Event and a metric name the limit."""
    greedy, other = new_tenant(), new_tenant()
    limits = ("--reconcile-memory", "160Mi", "cpu=3")
    with limited(site, tmp_path, (greedy, other), *limits) as running:
        greedy.bundle("large", source={"inline": "#" * MEGABYTE})
        greedy.failed("large", "InvalidSource")
        depends = [{"name": "large", "readyWhen": doubling("self.spec.source.inline")}]
        greedy.bundle("memory", config_map("a"), dependsOn=depends)
        served(other, running, "beside-memory")
        told(greedy, "memory", "its limit of memory", "160 MiB of memory")
        greedy.bundle("cpu", *(config_map(f"cpu-{number}") for number in range(MANY)))
        served(other, running, "beside-cpu")
        told(greedy, "cpu", "its limit of cpu", "3 s of CPU time")
        assert exceeded(running, "memory") > 0
        assert exceeded(running, "cpu") > 0
        assert exceeded(running, "time") == exceeded(running, "crash") == 0
        greedy.patch("cpu", suspend=True)
        greedy.bundle("memory", config_map("a"), dependsOn=[])
        greedy.ready("memory")


def test_reconcile_that_hangs_is_ended(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """At its deadline."""
    slow, other = new_tenant(), new_tenant()
    limits = ("time=4",)
    with (
        limited(site, tmp_path, (slow, other), *limits) as running,
        hanging(site, site_api, slow),
    ):
        for name in ("web", "more", "again"):
            slow.bundle(name, config_map(f"slow-{name}"))
        served(other, running, "beside-time")
        for name in ("web", "more"):
            told(slow, name, "its limit of time", "longer than 4 s")
        served(other, running, "after-time")
        assert exceeded(running, "time") >= 2
        for name in ("web", "more", "again"):
            slow.patch(name, suspend=True)
        assert exceeded(running, "memory") == exceeded(running, "cpu") == 0


def test_reconcile_whose_worker_is_killed_is_made_again(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """All workers are killed, and only start again; or the controller itself is."""
    killed, other = new_tenant(), new_tenant()
    with limited(site, tmp_path, (killed, other)) as running:
        with hanging(site, site_api, killed) as over:
            killed.bundle("web", config_map("slow"))
            eventually(lambda: killed.exists("applyprune-web") == [True], lambda: "a run under way")
            workers = running.workers()
            assert len(workers) == 3
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            told(killed, "web", "ended by a crash", "SIGKILL")
            for worker in workers:
                eventually(partial(_has_ended, worker), lambda: "its end")
            over.set()
            served(other, running, "after-crash")
            killed.ready("web")
        assert killed.exists("slow") == [True]
        assert exceeded(running, "memory") == exceeded(running, "cpu") == 0
        # The controller itself is killed in the middle of a reconcile: its workers end it.
        with hanging(site, site_api, killed) as over:
            killed.bundle("last", config_map("slow-last"))
            eventually(
                lambda: killed.exists("applyprune-last") == [True], lambda: "a run under way"
            )
            (server,) = (one for one in children(running.process.pid) if children(one))
            workers = running.workers()
            running.process.kill()
            over.set()
            for one in (*workers, server):
                eventually(partial(_has_ended, one), lambda: "its end")
        header = killed.get_map("applyprune-last")["data"]["header"]
        assert '"holder": null' in header


def _has_ended(process: int) -> bool:
    return not is_running(process)

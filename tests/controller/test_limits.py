"""A reconcile that uses too much is ended, its Bundle says so, and nobody else notices."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
from base64 import b64encode
from contextlib import contextmanager
from functools import partial
from gzip import compress
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.controller import controller, served
from tests.support.costly import MEGABYTE, doubling
from tests.support.kill import end_lock
from tests.support.objects import config_map, text
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
MANY = 4000
"""Objects whose apply takes more than two seconds of CPU time."""


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
    """The kernel ends it: the condition, an Event and a metric name the limit.

    Slow: a reconcile uses up its CPU time, and one its memory.
    """
    greedy, other = new_tenant(), new_tenant()
    limits = ("--reconcile-memory", "160Mi", "cpu=2")
    with limited(site, tmp_path, (greedy, other), *limits) as running:
        greedy.bundle("large", source={"inline": "#" * MEGABYTE})
        greedy.failed("large", "InvalidSource")
        depends = [{"name": "large", "readyWhen": doubling("self.spec.source.inline")}]
        greedy.bundle("memory", config_map("a"), dependsOn=depends)
        served(other, running, "beside-memory")
        told(greedy, "memory", "its limit of memory", "160 MiB of memory")
        greedy.bundle("cpu", *(config_map(f"cpu-{number}") for number in range(MANY)))
        served(other, running, "beside-cpu")
        told(greedy, "cpu", "its limit of cpu", "2 s of CPU time")
        assert exceeded(running, "memory") > 0
        assert exceeded(running, "cpu") > 0
        assert exceeded(running, "time") == exceeded(running, "crash") == 0
        greedy.patch("cpu", suspend=True)
        greedy.bundle("memory", config_map("a"), dependsOn=[])
        greedy.ready("memory")


def test_reconcile_that_hangs_is_ended(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """At its deadline.

    Slow: a reconcile hangs for the whole of its limit.
    """
    slow, other = new_tenant(), new_tenant()
    limits = ("time=2", "grace=1")
    with (
        limited(site, tmp_path, (slow, other), *limits) as running,
        hanging(site, site_api, slow),
    ):
        for name in ("web", "more"):
            slow.bundle(name, config_map(f"slow-{name}"))
        served(other, running, "beside-time")
        for name in ("web", "more"):
            told(slow, name, "its limit of time", "longer than 2 s")
            slow.patch(name, suspend=True)
        served(other, running, "after-time")
        assert exceeded(running, "time") >= 2
        assert exceeded(running, "memory") == exceeded(running, "cpu") == 0


def test_reconcile_whose_worker_is_killed_is_made_again(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """All workers are killed, and only start again; or the controller itself is.

    Slow: a reconcile that a limit ended is made again after 5 seconds.
    """
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
            end_lock(killed.api, killed.path("configmaps", "applyprune-web"))
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


MIB = 2**20
SMALL = ("env", "MALLOC_ARENA_MAX=2", "prlimit", f"--as={2**30}")
SUSPENDED = 'applyprune_reconciles_total{reason="Suspended"}'
BUNDLES = 20
HUNDREDS = 300


def source(name: str, more: str) -> dict[str, Any]:
    """Return a source with one ConfigMap and more text."""
    return {"inline": text(config_map(name)) + "\n---\n" + more}


def suspended(tenant: Tenant, count: int) -> None:
    """Create suspended Bundles, each of almost a megabyte."""
    for number in range(count):
        body = {
            "apiVersion": "applyprune.dev/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": f"large-{number}"},
            "spec": {"source": {"inline": "#" * MEGABYTE}, "suspend": True},
        }
        assert tenant.api("POST", tenant.bundle_path(), body)[0] == 201


@pytest.mark.sweep
def test_hundreds_of_large_bundles_take_nothing_from_others(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """300 of them, each suspended and of almost a megabyte, at the start and while it works."""
    attacker, other = new_tenant(), new_tenant()
    namespaces = f"{attacker.namespace},{other.namespace}"
    arguments = ("lease=0", "--watch-namespaces", namespaces)
    with controller(site.kubeconfig, tmp_path / "first", *arguments, within=SMALL) as running:
        other.bundle("first", config_map("first"))
        other.ready("first")
        suspended(attacker, HUNDREDS)
        served(other, running, "at-once")
        eventually(lambda: running.metric(SUSPENDED) >= HUNDREDS, lambda: "their first turns")
        served(other, running, "later")
    with controller(site.kubeconfig, tmp_path / "second", *arguments, within=SMALL) as running:
        eventually(lambda: running.ask("/readyz")[0] == 200, lambda: "a list of all Bundles")
        served(other, running, "after-start")
        eventually(lambda: running.metric(SUSPENDED) >= HUNDREDS, lambda: "their first turns")
        served(other, running, "in-the-end")


def aliases() -> str:
    """Return documents that are each within Go's limit for aliases, and together are a bomb."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    each = f"{head}x: &x [{'[],' * 300}]\ny: [{'*x,' * 97}]\n---\n"
    return each * (989_000 // len(each))


def forged(tenant: Tenant, name: str, parts: list[bytes], times: int) -> None:
    """Let the inventory of a Bundle name some shards, each of them several times."""
    digests = []
    for lines in parts:
        digests.append(hashlib.sha256(lines).hexdigest())
        shard = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"applyprune-{name}.{digests[-1][:32]}"},
            "immutable": True,
            "binaryData": {"entries.gz": b64encode(compress(lines, 1)).decode()},
        }
        assert tenant.api("POST", tenant.path("configmaps"), shard)[0] == 201
    path = tenant.path("configmaps", f"applyprune-{name}")
    root = tenant.api.get(path)
    header = json.loads(root["data"]["header"])
    header["shards"] = [[digest, 1] for digest in digests] * times
    root["data"] = {"header": json.dumps(header)}
    assert tenant.api("PUT", path, root)[0] == 200
    tenant.annotate(name, reconcile_now="forged")


def test_no_tenants_input_takes_down_the_controller(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Aliases, CEL, forged inventories, large Bundles, nesting and errors.

    Slow: each input takes a worker to its limit.
    """
    attacker, other = new_tenant(), new_tenant()
    suspended(attacker, BUNDLES)
    namespaces = f"{attacker.namespace},{other.namespace}"
    arguments = ("lease=0", "--watch-namespaces", namespaces)
    with controller(site.kubeconfig, tmp_path / "log", *arguments, within=SMALL) as running:
        eventually(lambda: running.metric(SUSPENDED) >= BUNDLES, lambda: "their first turns")
        served(other, running, "suspended")

        attacker.bundle("aliases", source=source("a", aliases()))
        message = attacker.failed("aliases", "InvalidSource")
        assert "spec.source.inline:" in message
        assert "with all aliases expanded, it takes more than 64 MiB" in message
        served(other, running, "aliases")

        rules: dict[str, Any] = {"readyWhen": [f"cm={doubling('self.data.key')}"], "wait": True}
        large = config_map("ruled", "x" * MEGABYTE)
        attacker.bundle("ruled", large, **rules, timeout="2s", retryInterval="1h")
        served(other, running, "beside-ruled")
        attacker.failed("ruled", "ReconcileLimitExceeded")
        served(other, running, "ruled")

        for name in ("again", "many"):
            attacker.bundle(name, config_map(name))
            attacker.ready(name)
        forged(attacker, "again", [b"\n" * 15 * MIB], 80)
        assert " twice" in attacker.failed("again", "InventoryUnreadable")
        different = [b"\n" * (15 * MIB + number) for number in range(12)]
        forged(attacker, "many", different, 1)
        message = attacker.failed("many", "InventoryUnreadable")
        assert "its unpacked entries are larger than 128 MiB" in message
        served(other, running, "forged")

        attacker.bundle("deep", source=source("d", "[" * MEGABYTE))
        assert "nested deeper than 100 levels" in attacker.failed("deep", "InvalidSource")
        attacker.bundle("errors", source=source("e", "a\n---\n" * 150_000))
        message = attacker.failed("errors", "InvalidSource")
        assert "(and " in message
        assert len(json.dumps(attacker.get("errors")["status"])) < 10_000
        served(other, running, "errors")

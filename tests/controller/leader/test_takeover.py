"""Replicas as processes: one leads, and another one takes over, from one that is killed too."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import applyprune
from tests.support.controller import controller, served
from tests.support.fault_proxy import FaultProxy, Held, faults
from tests.support.namespaces import PROVED, pod, resume_inside, stop_inside
from tests.support.objects import config_map
from tests.support.replicas import Fleet, agent, check_written_once, deleted, leads, written
from tests.support.settings import settings
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange, Fault
    from tests.support.fault_proxy.exchange import Wire

BUNDLES = 5
LEASE = 2.0
STEADY = 6.0
"""So long that a busy machine renews it in time: who leads is exact."""


def change(tenant: Tenant, version: int) -> None:
    """Give each Bundle one object with a new value."""
    for number in range(BUNDLES):
        tenant.bundle(f"b{number}", config_map(f"b{number}", str(version)))


def await_values(tenant: Tenant, version: int) -> None:
    """Wait until every Bundle has applied a version, and says so."""

    def values() -> bool:
        items = tenant.api.get(tenant.path("configmaps"))["items"]
        found = [one["data"]["key"] for one in items if "key" in one.get("data", {})]
        return found.count(str(version)) == BUNDLES

    eventually(values, lambda: f"version {version} of every Bundle")
    for number in range(BUNDLES):
        tenant.ready(f"b{number}")


def status_writers(audit: AuditTrail, tenant: Tenant) -> set[str]:
    """Return which replicas have written the status of a Bundle since the log was begun."""
    found = set()
    for one in audit.events():
        about = one.get("objectRef", {})
        if (about.get("namespace"), about.get("subresource")) == (tenant.namespace, "status"):
            found.add(agent(one))
    audit.restart()
    return found


def test_one_replica_serves_all_bundles_until_another_one_takes_over(
    site: Plane,
    new_tenant: Callable[[], Tenant],
    site_audit: AuditTrail,
    tmp_path: Path,
) -> None:
    """It is asked to end; who stands by is alive, ready and healthy.

    One that is killed is replaced in ``test_killed_replicas.py``.

    Slow: five Bundles are applied twice, by replicas in Pods.
    """
    tenant = new_tenant()
    with Fleet(site.kubeconfig, tmp_path, tenant, STEADY, pod(proof=False)) as fleet:
        for _ in range(2):
            fleet.start()
        leader = fleet.leader()
        events = []
        site_audit.restart()
        change(tenant, 1)
        await_values(tenant, 1)
        for running in fleet.replicas:
            assert [running.ask(path)[0] for path in ("/livez", "/readyz", "/healthz")] == [200] * 3
        bundles = tenant.api.get(tenant.bundle_path())["items"]
        assert {one["status"]["replica"] for one in bundles} == {leader.replica}
        spec = fleet.lease()["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (leader.replica, 0)
        events += site_audit.events()
        assert status_writers(site_audit, tenant) == {leader.replica}

        # It is asked to end: the other one need not wait for the end of its Lease.
        fleet.stop(leader)
        change(tenant, 2)
        await_values(tenant, 2)
        (last,) = fleet.replicas
        spec = fleet.lease()["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (last.replica, 1)
        events += site_audit.events()
        assert status_writers(site_audit, tenant) == {last.replica}
        fleet.stop(last)
        assert fleet.lease()["spec"]["holderIdentity"] == ""
    check_written_once(events, tenant.namespace)


def is_of_prune(seen: Exchange) -> bool:
    """Return whether a request deletes a ConfigMap."""
    return seen.method == "DELETE" and "/configmaps/" in seen.path


INTERVAL = 5
"""Seconds, at most, between two looks at a Bundle."""


def reconciles(running: Controller) -> list[dict[str, Any]]:
    """Return what a replica has logged about each reconcile."""
    return [one for one in running.lines if one["message"] == "bundle reconciled"]


@pytest.mark.parametrize("proof", PROVED)
def test_stopped_leader_stops_its_prune_when_it_goes_on(
    site: Plane,
    new_tenant: Callable[[], Tenant],
    site_audit: AuditTrail,
    tmp_path: Path,
    proof: bool,
) -> None:
    """Another one has decided again, and what was wanted again stays: each change is one.

    What it had sent before reaches the server only then. In the sweep it is stopped for longer than
    any of its requests may take.

    Slow: another replica takes over when a Lease has ended.
    """
    tenant, names = new_tenant(), [f"p{number}" for number in range(30)]
    with (
        FaultProxy(site) as proxy,
        Fleet(site.kubeconfig, tmp_path, tenant, LEASE, pod(proof=proof)) as fleet,
    ):
        one = fleet.start(kubeconfig=proxy.kubeconfig(tmp_path))
        fleet.leader()
        stays = config_map("stays", "1")
        spec: dict[str, Any] = {"prune": {"maxPrune": "100%"}, "interval": f"{INTERVAL}s"}
        tenant.bundle("web", stays, *(config_map(name, "1") for name in names), **spec)
        tenant.ready("web")
        site_audit.restart()
        held = Held(proxy, 9, is_of_prune, then_sent=True)
        tenant.bundle("web", config_map("stays", "2"), **spec)
        held.await_one()
        stop_inside(one.process)
        seen = {one.path.rpartition("/")[2]: one for one in proxy.exchanges if is_of_prune(one)}
        late = {name for name, one in seen.items() if not one.forwarded}
        assert late
        back = {*late, *[name for name in names if name not in seen][:5]}
        wanted = [config_map("stays", "3"), *(config_map(name, "1") for name in sorted(back))]
        tenant.bundle("web", *wanted, **spec)
        two = fleet.start()
        eventually(lambda: leads(two), lambda: "it takes over")
        status = tenant.ready("web")
        objects = {"total": len(wanted), "failing": 0, "elsewhere": 0}
        assert (status["objects"], status["replica"]) == (objects, two.replica)
        assert tenant.exists(*names) == [name in back for name in names]
        if proof:
            looks = len(reconciles(two)) + 60 / INTERVAL
            eventually(lambda: len(reconciles(two)) >= looks, lambda: "a minute of looks")
        stopped, before = one.replica, len(site_audit.events())
        resume_inside(one.process)
        held.over.set()
        # It stands by, and nothing of what it was about to do is done.
        assert fleet.leader() is two
        fleet.stop(one)
        tenant.reconciled("web", "again")
        tenant.ready("web")
        assert {tenant.value(name) for name in back} == {"1"}
        decided = two.replica
    events = site_audit.events()
    removed = deleted(events, tenant.namespace)
    assert len(removed) == len(names) - len(back)
    assert {len(who) for who in removed.values()} == {1}
    kept = [one for one in events if one.get("objectRef", {}).get("name") in back]
    check_written_once([one for one in events if one not in kept], tenant.namespace)
    # A mark is set and removed: no deletion that comes late is about the present state.
    assert written(kept, tenant.namespace) == {(name, "1"): [decided] * 2 for name in back}
    maps = [one for one in events[before:] if agent(one) == stopped and one["verb"] == "delete"]
    assert {one["objectRef"]["resource"] for one in maps} == {"configmaps"}
    # They name the state before it.
    assert {one["objectRef"]["name"]: one["responseStatus"]["code"] for one in maps} == (
        dict.fromkeys(late, 409)
    )


def test_leader_without_its_lease_serves_nothing(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """It ends what it is doing; another one serves all, and goes on when the first one is back.

    Slow: a Lease of 6 seconds ends.
    """
    tenant = new_tenant()
    with (
        FaultProxy(site) as proxy,
        Fleet(site.kubeconfig, tmp_path, tenant, STEADY) as fleet,
    ):
        cut = fleet.start(kubeconfig=proxy.kubeconfig(tmp_path))
        fleet.leader()
        other = fleet.start()
        change(tenant, 1)
        await_values(tenant, 1)
        is_cut = False

        def without_lease(seen: Exchange) -> Fault | None:
            return faults.reset() if is_cut and "/leases" in seen.path else None

        proxy.rule = without_lease
        held = Held(proxy, 5, lambda seen: "/b0-object-" in seen.path, then_sent=True)
        site_audit.restart()
        tenant.bundle("b0", *(config_map(f"b0-object-{one}", "1") for one in range(40)))
        held.await_one()
        is_cut = True
        eventually(lambda: not leads(cut), lambda: "it serves nothing")
        code, told = cut.ask("/readyz")
        assert (code, "its Lease could not be renewed" in told) == (503, True), told
        # It is not unhealthy before a minute, and a restart would not help.
        assert [cut.ask(path)[0] for path in ("/livez", "/healthz")] == [200, 200]
        assert cut.process.poll() is None
        eventually(lambda: leads(other), lambda: "the other one leads")
        begun = {one.path for one in held.seen}
        held.over.set()
        assert tenant.ready("b0")["objects"] == {"total": 40, "failing": 0, "elsewhere": 0}
        assert tenant.get("b0")["status"]["replica"] == other.replica
        by_cut = {
            one["requestURI"].partition("?")[0]
            for one in site_audit.events()
            if agent(one) == cut.replica and "/b0-object-" in one["requestURI"]
        }
        # What was in flight is sent, and nothing is begun.
        assert by_cut <= begun
        assert len(begun) < 40
        tenant.bundle("b0", config_map("b0", "1"), prune={"maxPrune": "100%"})
        tenant.ready("b0")

        is_cut = False
        eventually(lambda: cut.ask("/readyz")[0] == 200, lambda: "it stands by")
        assert fleet.leader() is other
        change(tenant, 2)
        await_values(tenant, 2)
        assert any(one["message"] == "the Lease was not renewed in time" for one in cut.lines)
        fleet.stop(other)
        assert fleet.leader() is cut
        change(tenant, 3)
        await_values(tenant, 3)


OBJECTS = 80
DONE = {"web": 47, "leaving": 20}
"""After how many objects of each Bundle its replica is killed."""


@dataclass(slots=True)
class HeldBack:
    """Lets so many applies of each Bundle pass, and none of the others as long as it lives."""

    proxy: FaultProxy
    passed: Counter[str] = field(default_factory=Counter)
    reached: dict[str, threading.Event] = field(
        default_factory=lambda: {name: threading.Event() for name in DONE}
    )
    killed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin."""
        self.proxy.rule = self._rule

    def _rule(self, seen: Exchange) -> Fault | None:
        name, is_object, _ = seen.path.rpartition("/")[2].partition("-object-")
        if seen.method != "PATCH" or not is_object or "dryRun" in seen.query:
            return None
        with self.lock:
            self.passed[name] += 1
            if self.passed[name] <= DONE[name]:
                return None
        self.reached[name].set()
        return self._hold

    def _hold(self, wire: Wire) -> None:
        assert self.killed.wait(HANG)
        wire.reset()


def objects(name: str, count: int) -> list[dict[str, Any]]:
    """Return ConfigMaps whose names say which Bundle they belong to."""
    return [config_map(f"{name}-object-{number}") for number in range(count)]


def applied(tenant: Tenant, name: str) -> int:
    """Return how many objects of a Bundle exist."""
    found = tenant.api.get(tenant.path("configmaps"))["items"]
    return sum(one["metadata"]["name"].startswith(f"{name}-object-") for one in found)


def holder(tenant: Tenant, name: str) -> str:
    """Return the run that holds the inventory of a Bundle; empty if none does."""
    header = json.loads(tenant.get_map(f"applyprune-{name}")["data"]["header"])
    return str((header["holder"] or {}).get("run", ""))


@pytest.mark.parametrize("proof", PROVED)
def test_replica_in_another_pod_finishes_the_work_of_a_killed_one(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path, proof: bool
) -> None:
    """A Bundle becomes ready, another one is deleted, and the command line may work.

    Slow: the lock of a run that nobody sees ends after 15 seconds.
    """
    within, tenant, another = pod(proof=proof), new_tenant(), new_tenant()
    arguments = (
        *("lease=4", "-n", tenant.namespace),
        *("--watch-namespaces", f"{tenant.namespace},{another.namespace}"),
    )
    with ExitStack() as ends:
        proxy = ends.enter_context(FaultProxy(site))
        held_back, through = HeldBack(proxy), proxy.kubeconfig(tmp_path)
        one = controller(through, tmp_path / "one", *arguments, within=within)
        running = ends.enter_context(one)
        tenant.bundle("web", *objects("web", OBJECTS))
        tenant.bundle("leaving", *objects("leaving", 40))
        assert all(reached.wait(HANG) for reached in held_back.reached.values())
        running.kill()
        other = controller(site.kubeconfig, tmp_path / "other", *arguments, within=within)
        follower = ends.enter_context(other)
        held_back.killed.set()
        killed = {name: holder(tenant, name) for name in DONE}
        assert all(killed.values())
        assert 0 < applied(tenant, "web") <= DONE["web"]
        tenant.delete("leaving")
        for name, run in killed.items():
            told = tenant.failed(name, "InventoryLocked")
            assert told == (
                f"the set {name} is locked by another run: "
                f"Bundle {tenant.namespace}/{name}, run {run}, holds the lock"
            )
        served(another, follower, "beside")
        line = ("delete", "web", "-n", tenant.namespace, "--dry-run")
        hurried = settings(tmp_path, lock_timeout="1s")
        short = applyprune(*line, *hurried, kubeconfig=site.kubeconfig, within=within)
        assert (short.code, "has not renewed it in the " in short.err) == (8, True), short.err
        patient = applyprune(*line, kubeconfig=site.kubeconfig, within=within)
        assert patient.code == 0, patient.err
        assert tenant.ready("web")["objects"] == {"total": OBJECTS, "failing": 0, "elsewhere": 0}
        tenant.gone("leaving")
        served(another, follower, "after")
        looks = [one for one in follower.lines if one.get("reason") == "InventoryLocked"]
    assert (applied(tenant, "web"), applied(tenant, "leaving")) == (OBJECTS, 0)
    assert holder(tenant, "web") == ""
    assert tenant.exists("applyprune-leaving") == [False]
    # A look each, and one more for each change of the Bundle: no worker waited for the lease.
    assert len(looks) <= 3 * len(DONE)

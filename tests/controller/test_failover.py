"""A replica takes over from one that died in another Pod: it sees neither its process nor its file.

What is left of a replica that was killed is the lock on the inventory of each Bundle that it was
applying. Nobody can see that it has ended, so its lease must end: by observing that nobody renews
it, for longer than one reconcile lasts.
"""

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
from tests.support.fault_proxy import FaultProxy
from tests.support.namespaces import PROVED, pod
from tests.support.objects import config_map
from tests.support.settings import settings
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant
    from tests.support.fault_proxy import Exchange, Fault
    from tests.support.fault_proxy.exchange import Wire

OBJECTS = 160
DONE = {"web": 87, "leaving": 20}
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
    """A Bundle becomes ready, another one is deleted, and the command line may work."""
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

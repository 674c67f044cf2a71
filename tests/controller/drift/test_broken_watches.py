"""Watches that break, or that strangers flood: drift is still found, and no loop is busy."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.api import Api
from tests.support.controller import Controller, Tenant, controller
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.fault_proxy.exchange import Wire
from tests.support.fights import changed
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.fault_proxy import Exchange

GONE = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old"}
LONG = {"interval": "1h", "retryInterval": "1h"}
EXPIRED = faults.text(200, json.dumps({"type": "ERROR", "object": GONE}) + "\n")
"""The first event of a watch that begins too far back."""


def of_objects(exchange: Exchange) -> bool:
    """Return whether this is the watch of what Bundles have applied."""
    return "watch" in exchange.query and "labelSelector" in exchange.query


def goes_on(exchange: Exchange) -> bool:
    """Return whether it is a watch that begins where another one was."""
    return of_objects(exchange) and "resourceVersion" in exchange.query


def is_set_back(tenant: Tenant, name: str = "a") -> bool:
    """Return whether a ConfigMap is as the Bundle has it."""
    return tenant.exists(name) == [True] and tenant.value(name) == "ours"


def test_drift_is_set_back_although_watches_break(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Cut each second, one watch at a time goes on where the last one was: nothing is missed.

    One that begins again shows what exists, and what is missing is looked for. While each expires
    at once, the interval finds drift. Slow: watches are cut and tried again by real time.
    """
    tenant, cuts = new_tenant(), list[Wire]()
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)
    with (
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", *alone) as running,
    ):
        proxy.rule = always(faults.cut_watch(1.0, cuts.append), where=of_objects)
        objects = [config_map(name, "ours") for name in "ab"]
        tenant.bundle("web", *objects, drift={"reverts": 50}, **LONG)
        tenant.ready("web")
        for number in itertools.count():
            changed(tenant, f"theirs-{number}")
            tenant.drop("b")
            for name in "ab":
                eventually(partial(is_set_back, tenant, name), lambda: "the revert")
            # How many rounds a second has, and what a watch shows in it, is up to the machine.
            if number >= 3 and any(map(goes_on, proxy.exchanges)):
                break
        assert sum(map(of_objects, proxy.exchanges)) <= len(cuts) + 1

        proxy.rule = always(EXPIRED, where=of_objects)
        refused = lambda: sum(map(of_objects, proxy.exchanges)) > len(cuts) + 1  # noqa: E731
        eventually(refused, lambda: "the end of the watch")
        tenant.drop("b")
        changed(tenant, "theirs")
        tenant.patch("web", interval="1s")
        for name in "ab":
            eventually(partial(is_set_back, tenant, name), lambda: "the revert at the interval")
        before = len(running.reconciles(tenant, "web")), sum(map(of_objects, proxy.exchanges))
        # At a steady pace, there would be as many tries as reconciles.
        eventually(
            lambda: (
                len(running.reconciles(tenant, "web")) - before[0]
                > 2 * (sum(map(of_objects, proxy.exchanges)) - before[1]) + 2
            ),
            lambda: "fewer tries than reconciles",
        )
        tenant.patch("web", interval="1h")
        tenant.ready("web")
        tenant.drop("b")
        changed(tenant, "theirs-again")
        proxy.rule = always(faults.cut_watch(60.0), where=of_objects)
        for name in "ab":
            eventually(partial(is_set_back, tenant, name), lambda: "the revert of what was missed")
        assert running.ask("/healthz") == (200, "ok\n")


MIB = 2**20
LABEL = "applyset.kubernetes.io/part-of"


def create(site: Plane, tenant: Tenant, label: str, numbers: range) -> None:
    """Create ConfigMaps with a label."""
    api = Api(site)
    for number in numbers:
        body = config_map(f"stranger-{number}", labels={LABEL: label})
        status, reply = api("POST", tenant.path("configmaps"), body)
        assert status == 201, reply
    api.close()


def resident(running: Controller) -> int:
    """Return the memory of the main process in bytes."""
    lines = Path(f"/proc/{running.process.pid}/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(found.split()[1]) * 1024


def flooded(site: Plane, tenant: Tenant, other: Tenant, log: Path, count: int, most: int) -> None:
    """Create so many before and after a controller starts; it may grow by ``most`` bytes."""
    tenant.bundle("web", config_map("a", "ours"), interval="1h", suspend=True)
    names = f"{tenant.namespace},{other.namespace}"
    alone = ("lease=0", "--watch-namespaces", names)
    with controller(site.kubeconfig, log, *alone) as running:
        tenant.patch("web", suspend=False)
        tenant.ready("web")
        label = tenant.get("web")["status"]["inventory"]["set"]
        before = resident(running)
        parts = [range(start, count, 8) for start in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(partial(create, site, tenant, label), parts))
        changed(tenant, "theirs")
        eventually(lambda: tenant.value("a") == "ours", lambda: "the revert")
        other.bundle("other", config_map("b"))
        other.ready("other")
        assert running.ask("/healthz") == (200, "ok\n")
        # As a whole, too.
        tenant.reconciled("web", "now")
        assert tenant.condition("web")[0] == "True"
        assert tenant.get("web")["status"]["objects"]["total"] == 1
        assert resident(running) - before < most
    found = tenant.api.get(f"{tenant.path('configmaps')}?labelSelector={LABEL}={label}")["items"]
    assert len(found) == count + 1


def test_labelled_strangers_cost_little(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """More than are kept for a moment.

    Slow: 1500 objects are created.
    """
    flooded(site, new_tenant(), new_tenant(), tmp_path / "log", 1500, 30 * MIB)

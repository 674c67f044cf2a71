"""Watches that break: drift is still found, soon or at the interval, and no loop is busy."""

from __future__ import annotations

import itertools
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.controller import Tenant, controller
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.fault_proxy.exchange import Wire
from tests.support.fights import changed
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.fault_proxy import Exchange, Fault

GONE = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old"}
LONG = {"interval": "1h", "retryInterval": "1h"}
MANY = {"reverts": 50}


def of_objects(exchange: Exchange) -> bool:
    """Return whether this is the watch of what Bundles have applied."""
    return "watch" in exchange.query and "labelSelector" in exchange.query


def goes_on(exchange: Exchange) -> bool:
    """Return whether it is a watch that begins where another one was."""
    return of_objects(exchange) and "resourceVersion" in exchange.query


def is_set_back(tenant: Tenant, name: str = "a") -> bool:
    """Return whether a ConfigMap is as the Bundle has it."""
    return tenant.exists(name) == [True] and tenant.value(name) == "ours"


def test_drift_is_set_back_although_watches_are_cut(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Each second; one watch at a time goes on where the last one was, so nothing is missed."""
    tenant, cuts = new_tenant(), list[Wire]()
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)
    with FaultProxy(site) as proxy:
        proxy.rule = always(faults.cut_watch(1.0, cuts.append), where=of_objects)
        with controller(proxy.kubeconfig(tmp_path), tmp_path / "log", *alone) as running:
            objects = [config_map(name, "ours") for name in "ab"]
            tenant.bundle("web", *objects, drift=MANY, **LONG)
            tenant.ready("web")
            for number in itertools.count():
                changed(tenant, f"theirs-{number}")
                tenant.drop("b")
                for name in "ab":
                    eventually(partial(is_set_back, tenant, name), lambda: "the revert")
                # How many rounds a second has, and what a watch shows in it, is up to the machine.
                if number >= 3 and any(map(goes_on, proxy.exchanges)):
                    break
            assert running.ask("/healthz") == (200, "ok\n")
        watches = sum(map(of_objects, proxy.exchanges))
    assert watches <= len(cuts) + 1


EXPIRED: dict[str, Fault] = {
    "the reply": faults.status(410, "old"),
    "the first event": faults.text(200, json.dumps({"type": "ERROR", "object": GONE}) + "\n"),
}


@pytest.mark.parametrize(
    "where",
    # In the reply, the same error comes before the first event.
    ["the first event", pytest.param("the reply", marks=pytest.mark.sweep)],
)
def test_watch_that_always_expires_leaves_drift_to_the_interval(
    where: str, site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """It is tried again, less often than the interval; another Bundle is served meanwhile."""
    tenant = new_tenant()
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)
    with FaultProxy(site) as proxy:
        proxy.rule = always(EXPIRED[where], where=of_objects)
        with controller(proxy.kubeconfig(tmp_path), tmp_path / "log", *alone) as running:
            tenant.bundle("web", config_map("a", "ours"), drift=MANY, interval="1s")
            tenant.ready("web")
            for number in range(3):
                changed(tenant, f"theirs-{number}")
                eventually(partial(is_set_back, tenant), lambda: "the revert")
            tenant.bundle("other", config_map("c"), interval="1h")
            tenant.ready("other")
            assert running.ask("/healthz") == (200, "ok\n")

            def tries() -> int:
                return sum(map(of_objects, proxy.exchanges))

            assert tries() >= 1
            # At a steady pace, there would be as many of them as of the reconciles.
            eventually(
                lambda: len(running.reconciles(tenant, "web")) > 2 * tries(),
                lambda: f"{tries()} tries, reconciles: {len(running.reconciles(tenant, 'web'))}",
            )


def test_deletion_that_no_watch_has_shown_is_found(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A watch that begins again shows what exists; what is missing is looked for."""
    tenant = new_tenant()
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)
    with FaultProxy(site) as proxy:
        proxy.rule = always(faults.cut_watch(2.0), where=of_objects)
        with controller(proxy.kubeconfig(tmp_path), tmp_path / "log", *alone):
            objects = [config_map(name, "ours") for name in "ab"]
            tenant.bundle("web", *objects, drift=MANY, **LONG)
            tenant.ready("web")
            # It goes on at a version when it has shown what exists.
            eventually(
                lambda: any(map(goes_on, proxy.exchanges)),
                lambda: "the watch",
            )
            proxy.rule = always(faults.status(410, "old"), where=of_objects)
            refused = lambda: [one for one in proxy.exchanges if one.status == 410]  # noqa: E731
            eventually(refused, lambda: "the end of the watch")
            tenant.drop("b")
            changed(tenant, "theirs")
            proxy.rule = always(faults.cut_watch(60.0), where=of_objects)
            for name in "ab":
                eventually(partial(is_set_back, tenant, name), lambda: "the revert")

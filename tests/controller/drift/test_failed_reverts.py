"""Drift whose revert fails for a reason that passes: tried again within seconds, less and less."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.controller import Controller, Tenant, controller, tenants
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.fights import changed
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import Fault

TRIES = 2
LONG = {"interval": "1h", "retryInterval": "1h"}
FAULTS: dict[str, Fault] = {
    "409": faults.status(409, "Conflict", "somebody has changed it"),
    "500": faults.status(500, "InternalError", "the server has a bug"),
}


@pytest.fixture(scope="module")
def proxy(site: Plane) -> Iterator[FaultProxy]:
    """A proxy between the controller and the server."""
    with FaultProxy(site) as one:
        yield one


@pytest.fixture(scope="module")
def running(
    site: Plane, proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """A controller behind the proxy."""
    folder: Path = tmp_path_factory.mktemp("controller")
    with controller(proxy.kubeconfig(folder), folder / "log", "--no-lease") as one:
        yield one


@pytest.fixture
def shop(running: Controller, proxy: FaultProxy, site_api: Api) -> Iterator[Tenant]:
    """A tenant with a Bundle of two objects that is ready."""
    assert running.process.poll() is None
    with tenants(site_api) as make:
        tenant = make()
        tenant.bundle("web", config_map("a"), config_map("b"), **LONG)
        tenant.ready("web")
        yield tenant
        proxy.rule = lambda _: None


def writes_of_a(proxy: FaultProxy, tenant: Tenant) -> int:
    """Return how often the controller has tried to write the object ``a``."""
    path = tenant.path("configmaps", "a")
    return sum(one.method == "PATCH" and one.path == path for one in proxy.exchanges)


def fails(proxy: FaultProxy, tenant: Tenant, fault: Fault) -> None:
    """Let every write of the object ``a`` fail."""
    path = tenant.path("configmaps", "a")
    proxy.rule = always(fault, where=lambda one: one.method == "PATCH" and one.path == path)


@pytest.mark.parametrize("name", FAULTS)
def test_failed_revert_is_tried_again_within_seconds(
    name: str, proxy: FaultProxy, shop: Tenant
) -> None:
    """Whatever ``retryInterval`` is, and also while another object is set back at once."""
    fails(proxy, shop, FAULTS[name])
    changed(shop, "theirs")
    changed(shop, "theirs", name="b")
    eventually(lambda: shop.value("b") == "v", lambda: "the revert of the other object")
    began = time.monotonic()
    runs = len(runs_about_a(proxy, shop))
    eventually(lambda: len(runs_about_a(proxy, shop)) >= runs + TRIES, lambda: "more tries")
    # After one second and two, a tenth less or more.
    assert time.monotonic() - began > 1.5
    assert shop.condition("web")[0] == "False"
    proxy.rule = lambda _: None
    eventually(lambda: shop.value("a") == "v", lambda: "the revert")
    shop.ready("web")
    assert shop.condition("web", "Drifted")[:2] == ("False", "NoDrift")


def runs_about_a(proxy: FaultProxy, tenant: Tenant) -> set[str]:
    """Return the runs that have tried to write the object ``a``."""
    path = tenant.path("configmaps", "a")
    return {
        one.header("User-Agent").rpartition(" run/")[2]
        for one in proxy.exchanges
        if one.method == "PATCH" and one.path == path
    }


def test_failure_of_a_first_apply_waits_for_its_interval(proxy: FaultProxy, shop: Tenant) -> None:
    """A changed manifest is not drift: ``retryInterval`` says when it is tried again."""
    fails(proxy, shop, FAULTS["500"])
    shop.bundle("web", config_map("a", "new"), config_map("b"), **LONG)
    shop.failed("web", "ApplyFailed")
    tried = writes_of_a(proxy, shop)
    time.sleep(2.5)  # nothing happens, which no condition shows
    assert writes_of_a(proxy, shop) == tried

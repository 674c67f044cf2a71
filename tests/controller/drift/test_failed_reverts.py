"""Drift whose revert fails for a reason that passes: tried again within seconds, less and less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.controller import Controller, Tenant, controller, tenants
from tests.support.fault_proxy import FaultProxy, faults
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
CONFLICT = faults.status(409, "Conflict", "somebody has changed it")
BUG = faults.status(500, "InternalError", "the server has a bug")


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
    with controller(proxy.kubeconfig(folder), folder / "log", "lease=0") as one:
        yield one


@pytest.fixture
def shop(running: Controller, proxy: FaultProxy, site_api: Api) -> Iterator[Tenant]:
    """A tenant with a Bundle of three objects that is ready."""
    assert running.process.poll() is None
    with tenants(site_api) as make:
        tenant = make()
        tenant.bundle("web", *map(config_map, "abd"), **LONG)
        tenant.ready("web")
        yield tenant
        proxy.rule = lambda _: None


def fails(proxy: FaultProxy, tenant: Tenant, **names: Fault) -> None:
    """Let every write of these objects fail in its way."""
    paths = {tenant.path("configmaps", name): fault for name, fault in names.items()}
    proxy.rule = lambda one: paths.get(one.path) if one.method == "PATCH" else None


def test_failed_revert_is_tried_again_within_seconds(proxy: FaultProxy, shop: Tenant) -> None:
    """Whatever ``retryInterval`` is, and also while another object is reverted at once."""
    fails(proxy, shop, a=CONFLICT, d=BUG)
    for name in "adb":
        changed(shop, "theirs", name=name)
    eventually(lambda: shop.value("b") == "v", lambda: "the revert of the other object")
    before = {name: len(runs_about(proxy, shop, name)) for name in "ad"}
    eventually(
        lambda: all(len(runs_about(proxy, shop, name)) >= before[name] + TRIES for name in "ad"),
        lambda: "more tries",
    )
    assert shop.condition("web")[0] == "False"
    proxy.rule = lambda _: None
    eventually(lambda: [shop.value(name) for name in "ad"] == ["v", "v"], lambda: "the reverts")
    shop.ready("web")
    assert shop.condition("web", "Drifted")[:2] == ("False", "NoDrift")


def runs_about(proxy: FaultProxy, tenant: Tenant, name: str = "a") -> set[str]:
    """Return the runs that have tried to write an object."""
    path = tenant.path("configmaps", name)
    return {
        one.header("User-Agent").rpartition(" run/")[2]
        for one in proxy.exchanges
        if one.method == "PATCH" and one.path == path
    }


def test_failure_of_a_first_apply_waits_for_its_interval(proxy: FaultProxy, shop: Tenant) -> None:
    """A changed manifest is not drift: ``retryInterval`` says when it is tried again."""
    fails(proxy, shop, a=BUG, c=BUG)
    shop.bundle("web", config_map("a", "new"), config_map("b"), config_map("d"), **LONG)
    shop.failed("web", "ApplyFailed")
    tried = runs_about(proxy, shop)
    # It fails later, and is tried again each time when the other one would be, as drift is.
    shop.bundle("other", config_map("c"), retryInterval="1s", interval="1h")
    eventually(lambda: len(runs_about(proxy, shop, "c")) > TRIES, lambda: "more tries")
    assert runs_about(proxy, shop) == tried

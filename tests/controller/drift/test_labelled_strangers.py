"""Thousands of objects with the label of a set that belong to nobody: bounded, and not touched."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api
from tests.support.controller import Controller, Tenant, controller
from tests.support.fights import changed
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane

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
    """More than are kept for a moment."""
    flooded(site, new_tenant(), new_tenant(), tmp_path / "log", 1500, 30 * MIB)


@pytest.mark.sweep
def test_ten_thousand_labelled_strangers_cost_little(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The same, with more."""
    flooded(site, new_tenant(), new_tenant(), tmp_path / "log", 10_000, 60 * MIB)

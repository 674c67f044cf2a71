"""The counts of a fight are in the status: another process of the controller goes on with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.support.controller import controller
from tests.support.fights import DRIFT, changed, contended
from tests.support.namespaces import pod
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant


def _has_counted(tenant: Tenant, times: int) -> bool:
    counts = tenant.get("web")["status"].get("contention", ())
    return [count["reverts"] for count in counts] == [times]


def test_counts_survive_a_killed_replica(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Two reverts by one process, then none by the next."""
    tenant = new_tenant()
    tenant.bundle("web", config_map("a", "ours"), drift=DRIFT, interval="1h")
    lease, within = ("lease=4",), pod(proof=False)
    with controller(site.kubeconfig, tmp_path / "one", *lease, within=within) as one:
        tenant.ready("web")
        for number in range(2):
            changed(tenant, f"theirs-{number}")
            eventually(partial(_has_counted, tenant, number + 1), lambda: "the count")
        one.kill()
    changed(tenant, "theirs")
    with controller(site.kubeconfig, tmp_path / "two", *lease):
        assert "configmap/a /data/key: kubectl-patch" in contended(tenant)
    assert tenant.value("a") == "theirs"

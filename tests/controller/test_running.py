"""The controller as a process: what it reads, its end, and an address that is taken."""

from __future__ import annotations

import platform
import socket
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from applyprune._version import __version__
from tests.support.command import applyprune
from tests.support.controller import Controller, Tenant, controller
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import config_map
from tests.support.waiting import eventually
from tests.support.workloads import workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail


def test_bundle_write_is_not_followed_by_a_read(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """The reply to a write is what is stored: each reconcile of a Bundle reads it once.

    Nothing is read or written for a namespace outside ``--watch-namespaces``.
    """
    tenant, other = new_tenant(), new_tenant()
    other.bundle("web", config_map("a"))
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)

    def since_restart() -> Counter[str]:
        counts = Counter(
            "/".join((one["verb"], *filter(None, (one["objectRef"].get("subresource"),))))
            for one in site_audit.events()
            if one.get("objectRef", {}).get("resource") == "bundles"
            and one["objectRef"].get("namespace") == tenant.namespace
            and str(one.get("userAgent", "")).startswith("applyprune/")
            and one["verb"] not in {"list", "watch"}
            # The deletion wakes one more pass, which finds nothing.
            and one["responseStatus"]["code"] != 404
        )
        site_audit.restart()
        return counts

    with controller(site.kubeconfig, tmp_path / "log", *alone):
        site_audit.restart()
        tenant.bundle("web", config_map("a"))
        tenant.ready("web")
        # One pass: the finalizer and the result.
        assert since_restart() == {"get": 1, "patch": 1, "update/status": 1}
        tenant.bundle("web", config_map("a", "changed"))
        tenant.ready("web")
        assert since_restart() == {"get": 1, "update/status": 1}
        tenant.bundle("many", *(config_map(f"m-{number}") for number in range(25)))
        tenant.ready("many")
        # More than a moment's work: it is progressing first.
        assert since_restart() == {"get": 1, "patch": 1, "update/status": 2}
        tenant.delete("web")
        tenant.gone("web")
        # The second read is of the newest state, from which the finalizer is removed.
        assert since_restart() == {"get": 2, "patch": 1}
    assert other.get("web")["status"] == {"observedGeneration": -1}


def has_metrics_from_the_start(running: Controller) -> None:
    """At zero: an alert on a rate must not miss the first failure."""
    text = running.ask("/metrics")[1]
    assert 'applyprune_reconciles_total{reason="PruneRefused"} 0.0' in text
    assert 'applyprune_api_requests_total{code="5xx",method="DELETE"} 0.0' in text
    assert 'applyprune_objects{state="failing"} 0.0' in text
    assert "applyprune_queue_depth 0.0" in text
    versions = f'python="{platform.python_version()}",version="{__version__}"'
    assert f"applyprune_build_info{{{versions}}} 1.0" in text
    assert running.metric("process_resident_memory_bytes") > 0


def test_stop_finishes_the_reconcile_in_progress(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The running work ends, the Lease is given up, and the next replica serves at once.

    Slow: two controllers are started, one after the other.
    """
    tenant = new_tenant()
    lease = ("lease=3600",)
    with controller(site.kubeconfig, tmp_path / "one", *lease, "-n", tenant.namespace) as one:
        has_metrics_from_the_start(one)
        # No node exists: it never becomes ready, and the reconcile waits for it.
        never = workload("Deployment", "never")
        tenant.bundle("web", config_map("a"), never, wait=True, timeout="1h")
        eventually(lambda: tenant.exists("a") == [True], lambda: "the pass under way")
        eventually(lambda: tenant.condition("web")[1] == "Progressing", lambda: "the wait")
        assert one.ask("/healthz")[0] == 200
        assert eventually(lambda: one.ask("/readyz")[0] == 200)
        assert one.ask("/nothing")[0] == 404
        assert one.stop() == 0
    inventory = tenant.api.get(tenant.path("configmaps", "applyprune-web"))
    assert '"holder": null' in inventory["data"]["header"]
    with controller(site.kubeconfig, tmp_path / "two", *lease, "-n", tenant.namespace) as two:
        eventually(lambda: two.metric("applyprune_leader") == 1, lambda: "it leads")
        tenant.bundle("web", config_map("a"))
        tenant.ready("web")
        tenant.delete("web")
        tenant.gone("web")


@pytest.mark.holds("bundle-metadata")
def test_bundles_are_watched_by_their_metadata(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A Bundle may be a megabyte: whole ones are read one at a time, when they are due."""
    tenant = new_tenant()
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)
    with (
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", *alone),
    ):
        for value in ("a", "b"):
            tenant.bundle("web", config_map("web", value))
            tenant.ready("web")
        asked = [one for one in proxy.exchanges if one.path == tenant.bundle_path()]
        assert {"limit", "watch"} <= {key for one in asked for key in one.query}
        accepted = [one.header("Accept") for one in asked]
        assert [one for one in accepted if "as=PartialObjectMetadata" not in one] == []


def test_taken_address_is_named(site: Plane) -> None:
    """An error, and no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = applyprune("controller", "--listen", address, kubeconfig=site.kubeconfig)
    assert (refused.code, address in refused.err) == (2, True)
    assert "cannot listen" in refused.err

"""What a replica writes and logs: another one, a server or a namespace may be ahead of it."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.clients import BundleObjects, status_of
from applyprune.controller.reasons import LOG, Reason
from applyprune.controller.report import EventRecorder, Reporter
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.errors import Interrupted, RunFailed
from applyprune.planning.marks import FINALIZER
from tests.support.fault_proxy import FaultProxy, faults, first
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant
    from tests.support.fault_proxy import Exchange

MERGE = "application/merge-patch+json"


@pytest.fixture
def bundles(site: Plane) -> Iterator[BundleObjects]:
    """The Bundles, as a replica reads and writes them."""
    access = cluster_access(kubeconfig=str(site.kubeconfig), environ={})
    with closing(Transport(access)) as transport:
        yield BundleObjects(KubernetesClient(transport, access.server))


@pytest.mark.holds("status-overtaken")
def test_status_of_another_replica_stays(
    bundles: BundleObjects, new_tenant: Callable[[], Tenant]
) -> None:
    """Other changes of the Bundle do not count, nor does its own write whose reply was lost."""
    tenant = new_tenant()
    key = (tenant.namespace, "web")

    def status(replica: str) -> dict[str, Any]:
        return {"observedGeneration": 1, "replica": replica}

    tenant.bundle("web", config_map("a"))
    read = bundles.get(key)
    assert read is not None
    tenant.annotate("web", reconcile_now="1")
    stored = bundles.write_status(read, status("a"))
    assert stored is not None
    assert status_of(stored) == status("a")
    # Again, by what was read before: it is there already.
    assert bundles.write_status(read, status("a")) is not None
    path = f"{tenant.bundle_path('web')}/status"
    assert tenant.api("PATCH", path, {"status": status("b")}, content_type=MERGE)[0] == 200
    with pytest.raises(Interrupted):
        bundles.write_status(stored, status("a-late"))
    assert tenant.get("web")["status"] == status("b")


@pytest.fixture
def spoiled(through: KubernetesClient) -> BundleObjects:
    """The Bundles, through the proxy."""
    return BundleObjects(through)


@pytest.mark.holds("finalizer-is-stored")
def test_finalizer_that_is_not_stored_is_not_believed(
    spoiled: BundleObjects, proxy: FaultProxy, new_tenant: Callable[[], Tenant]
) -> None:
    """Without it, a Bundle that is deleted would leave its objects."""
    tenant = new_tenant()
    tenant.bundle("web", config_map("a"))
    read = spoiled.get((tenant.namespace, "web"))
    assert read is not None
    proxy.rule = first(1, faults.dry_run(), where=_is_patch)
    with pytest.raises(RunFailed, match="it was not written"):
        spoiled.add_finalizer(read)
    proxy.rule = first(1, faults.without_metadata("resourceVersion"), where=_is_patch)
    assert FINALIZER in spoiled.add_finalizer(read).finalizers
    proxy.rule = first(1, faults.dry_run(), where=_is_patch)
    spoiled.remove_finalizer(read)
    assert "finalizers" not in tenant.get("web")["metadata"]


@pytest.mark.holds("status-is-stored")
def test_status_that_is_not_stored_is_not_believed(
    spoiled: BundleObjects, proxy: FaultProxy, new_tenant: Callable[[], Tenant]
) -> None:
    """It says before a run that the namespace does not take all objects along."""
    tenant = new_tenant()
    tenant.bundle("web", config_map("a"))
    read = spoiled.get((tenant.namespace, "web"))
    assert read is not None
    proxy.rule = first(1, faults.dry_run(), where=_is_put)
    with pytest.raises(RunFailed, match="it was not written"):
        spoiled.write_status(read, {"objects": {"elsewhere": 1}})
    assert status_of(read) == tenant.get("web").get("status", {})
    proxy.rule = first(1, faults.without_metadata("resourceVersion"), where=_is_put)
    stored = spoiled.write_status(read, {"objects": {"elsewhere": 1}, "unknown": 1})
    assert stored is not None
    assert stored.resource_version == tenant.get("web")["metadata"]["resourceVersion"]
    assert status_of(stored)["objects"] == {"elsewhere": 1}
    assert "unknown" not in status_of(stored)


def _is_put(seen: Exchange) -> bool:
    return seen.method == "PUT"


def _is_patch(seen: Exchange) -> bool:
    return seen.method == "PATCH"


REFUSED = ReconcileResult(ConditionStatus.NOT_READY, Reason.FORBIDDEN, "no", retries=True)


@pytest.fixture
def reporter(site: Plane) -> Iterator[Reporter]:
    """It reports to the plane."""
    access = cluster_access(kubeconfig=str(site.kubeconfig), environ={})
    with closing(Transport(access)) as transport:
        client = KubernetesClient(transport, access.server)
        yield Reporter(BundleObjects(client), EventRecorder(client), "alone")


@pytest.mark.parametrize("is_deleted", [True, False])
def test_bundle_that_goes_with_its_namespace_warns_of_nothing(
    reporter: Reporter,
    new_tenant: Callable[[], Tenant],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_deleted: bool,
) -> None:
    """What it needs is deleted before it, and no Event can be written there; others warn."""
    tenant = new_tenant()
    held = config_map("a", finalizers=["example.com/slow"])
    tenant.put("configmaps", held)
    body = tenant.bundle("web", config_map("b"), suspend=True)
    assert body["metadata"]["name"] == "web"
    live = reporter.bundles.get((tenant.namespace, "web"))
    assert live is not None
    path = f"/api/v1/namespaces/{tenant.namespace}"
    if is_deleted:
        assert tenant.api("DELETE", path)[0] == 200
        eventually(lambda: tenant.api.get(path)["status"]["phase"] == "Terminating")
    monkeypatch.setattr(LOG, "propagate", True)
    with caplog.at_level(logging.DEBUG, LOG.name):
        reporter.report(live, REFUSED, 1.0)
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warned == ([] if is_deleted else ["bundle reconciled"])
    tenant.strip("a")

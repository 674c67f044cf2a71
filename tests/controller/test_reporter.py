"""What the log says of a Bundle whose namespace is being deleted."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.clients import BundleObjects
from applyprune.controller.reasons import LOG, Reason
from applyprune.controller.report import EventRecorder, Reporter
from applyprune.controller.status import ConditionStatus, ReconcileResult
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant

FAILED = ReconcileResult(ConditionStatus.NOT_READY, Reason.FORBIDDEN, "no", retries=True)


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
        reporter.report(live, FAILED, 1.0)
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warned == ([] if is_deleted else ["bundle reconciled"])
    tenant.strip("a")

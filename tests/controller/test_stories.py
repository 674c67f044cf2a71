"""The life of Bundles: applied, changed, pruned, broken, repaired, suspended, deleted."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.controller import served
from tests.support.drifting import AFTER, BEFORE, DRIFTS, deployment, documented
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.plane import Kubectl


def test_bundle_reads_a_source_in_the_cluster(tenant: Tenant) -> None:
    """Applied, changed by its watch, pruned, broken, mended; a ConfigMap is read as a Secret is."""

    def store(**values: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "src"}, "data": data}
        tenant.put("secrets", body)

    tenant.bundle("web", source={"secretRefs": [{"name": "src", "keys": ["one", "two"]}]})
    assert "src does not exist" in tenant.failed("web", "SourceNotFound")
    store(one=text(config_map("a")))
    eventually(lambda: "src has no key 'two'" in tenant.condition("web")[2])
    store(one=text(config_map("a")), two=text(config_map("b")), other="[")
    status = tenant.ready("web")
    assert status["objects"] == {"total": 2, "failing": 0, "elsewhere": 0}
    assert status["lastChange"]["created"] == 2
    # The watch of the source: well before the interval of ten minutes.
    store(one=text(config_map("a", "w")), two="", other="[")
    eventually(lambda: tenant.get("web")["status"]["objects"]["total"] == 1)
    after = tenant.ready("web")
    assert (tenant.value("a"), tenant.exists("b")) == ("w", [False])
    assert after["lastChange"]["removed"] == 1
    assert after["lastAppliedRevision"] != status["lastAppliedRevision"]
    store(one="key: 1\nkey: 2\n", two="")
    assert "src[one]" in tenant.failed("web", "InvalidSource")
    assert tenant.condition("web", "Stalled")[0] == "True"
    assert tenant.exists("a") == [True]
    store(one=text(config_map("a", "x")), two="")
    tenant.ready("web")
    assert tenant.value("a") == "x"


@pytest.mark.holds("held-before-run")
def test_bundle_lives_from_start_to_end(tenant: Tenant, running: Controller) -> None:
    """Inline: created, refused, suspended, resumed, deleted."""
    applied = 'applyprune_reconciles_total{reason="Applied"}'
    before = running.metric(applied)
    tenant.bundle("web", config_map("a"), config_map("b"))
    status = tenant.ready("web")
    assert status["inventory"]["name"] == "applyprune-web"
    held = tenant.get("web")["metadata"].get("finalizers")
    assert held == ["applyprune.dev/finalizer"]
    assert tenant.condition("web", "PruneBlocked")[:2] == ("False", "NothingToDo")
    eventually(lambda: ("Normal", "Applied", "2 created") in tenant.events("web"))
    # The Event names the run by the ID that the inventory has.
    header = json.loads(tenant.get_map("applyprune-web")["data"]["header"])
    assert header["last"]["run"] in tenant.runs("web")
    # The metrics come after the status.
    eventually(lambda: running.metric(applied) > before)
    # One object that the server would refuse stops all, and is named; nothing is pruned.
    tenant.bundle("web", config_map("c"), {**config_map("b"), "data": {"not a key": ""}})
    assert "configmap/b" in tenant.failed("web", "ApplyFailed")
    assert tenant.get("web")["status"]["failing"][0]["object"] == "configmap/b"
    assert tenant.exists(*"abc") == [True, True, False]
    eventually(lambda: any(one[:2] == ("Warning", "ApplyFailed") for one in tenant.events("web")))
    # Suspended: not a finger is moved, whatever is asked.
    more = {"prune": {"maxPrune": 2}}
    tenant.bundle("web", config_map("c", "w"), suspend=True, **more)
    eventually(lambda: tenant.condition("web", "Reconciling")[1] == "Suspended")
    tenant.reconciled("web", "1")
    assert tenant.exists(*"ac") == [True, False]
    tenant.patch("web", suspend=False)
    tenant.ready("web")
    assert (tenant.value("c"), *tenant.exists(*"ab")) == ("w", False, False)
    tenant.delete("web")
    tenant.gone("web")
    assert tenant.exists("c", "applyprune-web") == [False, False]


def test_bundle_waits_for_its_dependencies(tenant: Tenant) -> None:
    """For the Ready condition, or what the expression says, by a watch; not in a circle."""
    long = {"retryInterval": "10m"}
    tenant.bundle("app", config_map("app"), dependsOn=[{"name": "db"}], **long)
    assert "db does not exist" in tenant.failed("app", "DependencyNotReady")
    after = [{"name": "db", "readyWhen": "self.status.objects.total == 2"}]
    tenant.bundle("late", config_map("late"), dependsOn=after, **long)
    tenant.failed("late", "DependencyNotReady")
    tenant.bundle("db", config_map("db"))
    tenant.ready("app")
    assert tenant.exists("app", "late") == [True, False]
    tenant.bundle("db", config_map("db"), config_map("more"))
    tenant.ready("late")
    for name, needs in ("ab", "bc", "ca"):
        tenant.bundle(name, config_map(name), dependsOn=[{"name": needs}])
    eventually(lambda: "a → b → c → a" in tenant.condition("a")[2])
    tenant.bundle("c", config_map("c"), dependsOn=[])
    tenant.ready("a")


def _has_handled(tenant: Tenant, request: str) -> bool:
    return bool(tenant.get("web")["status"].get("lastHandledReconcileAt") == request)


def test_bundle_reports_drift_as_the_guide_says(
    running: Controller, site: Plane, new_tenant: Callable[[], Tenant], kubectl: Kubectl
) -> None:
    """At its next reconcile, and at the one after that: the refused apply hides nothing."""
    assert running.process.poll() is None
    tenants = {row: new_tenant() for row in DRIFTS}
    for tenant in tenants.values():
        tenant.bundle("web", deployment(), retryInterval="1h")
    for row, tenant in tenants.items():
        tenant.ready("web")
        _, change = DRIFTS[row]
        change(partial(kubectl, plane=site), tenant.api, tenant.namespace)
    for number, when in enumerate((BEFORE, AFTER), 1):
        for tenant in tenants.values():
            tenant.annotate("web", reconcile_now=str(number))
        for row, tenant in tenants.items():
            eventually(partial(_has_handled, tenant, str(number)))
            reason = documented(row, when)["Bundle"]
            status = "True" if reason == "Applied" else "False"
            assert tenant.condition("web")[:2] == (status, reason)
            live = tenant.api.get(tenant.path("deployments", "web", "apps/v1"))
            assert live["spec"]["replicas"] == (3 if reason == "Applied" else 1)


def test_change_of_a_suspended_bundle_is_not_ready(
    tenant: Tenant, running: Controller, new_tenant: Callable[[], Tenant]
) -> None:
    """Changed and suspended in one edit: no dependent goes on. What tools read of it is a table."""
    tenant.bundle("db", config_map("db"))
    tenant.bundle("app", config_map("app"), dependsOn=[{"name": "db"}])
    rule = {"name": "db", "readyWhen": "self.status.objects.total == 1"}
    tenant.bundle("late", config_map("late"), dependsOn=[rule])
    for name in ("db", "app", "late"):
        tenant.ready(name)
    tenant.suspended("db", source={"inline": text(config_map("db", "new"))})
    for name in ("app", "late"):
        tenant.patch(name, source={"inline": text(config_map(name, "new"))})
        message = tenant.failed(name, "DependencyNotReady")
        assert message == "the Bundle db is suspended, and its last change has not been applied"
        assert tenant.value(name) == "v"
    served(new_tenant(), running, "beside")
    status = tenant.get("db")["status"]
    assert (status["observedGeneration"], tenant.value("db")) == (1, "v")
    # One that was never applied is not ready either.
    tenant.bundle("never", config_map("never"), suspend=True)
    tenant.suspended("never")
    assert tenant.get("never")["status"]["observedGeneration"] == -1
    assert tenant.condition("never")[0] == "Unknown"
    tenant.patch("db", suspend=False)
    for name in ("app", "late"):
        tenant.ready(name)
        assert tenant.value(name) == "new"

"""A Bundle is ready only in a generation that was applied: without a controller, and suspended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.command import applyprune
from tests.support.controller import controller, served
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant
    from tests.support.plane import Kubectl


def test_bundle_without_a_controller_is_never_ready(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The CRD says that nothing was tried, for longer than anybody waits for a status."""
    tenant = new_tenant()
    body = {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": "web"},
        "spec": {"source": {"inline": text(config_map("a"))}},
    }
    (tmp_path / "bundle.json").write_text(json.dumps(body))
    ended = applyprune(
        *("apply", "bundles", "-n", tenant.namespace, "-f", tmp_path / "bundle.json"),
        *("--wait", "--timeout", "2s"),
        kubeconfig=site.kubeconfig,
    )
    assert ended.code == 5, ended
    assert "bundle.applyprune.dev/web" in ended.out + ended.err
    assert tenant.get("web")["status"] == {"observedGeneration": -1}


def test_change_of_a_suspended_bundle_is_not_ready(
    site: Plane, new_tenant: Callable[[], Tenant], kubectl: Kubectl, tmp_path: Path
) -> None:
    """Changed and suspended in one edit: neither a dependent nor kubectl wait goes on."""
    tenant = new_tenant()
    with controller(site.kubeconfig, tmp_path / "log", "--no-lease") as running:
        tenant.bundle("db", config_map("db"))
        tenant.bundle("app", config_map("app"), dependsOn=[{"name": "db"}])
        rule = {"name": "db", "readyWhen": "self.status.objects.total == 1"}
        tenant.bundle("late", config_map("late"), dependsOn=[rule])
        for name in ("db", "app", "late"):
            tenant.ready(name)
        new = {"source": {"inline": text(config_map("db", "new"))}}
        tenant.patch("db", **new, suspend=True)
        eventually(lambda: tenant.condition("db", "Reconciling")[1] == "Suspended")
        for name in ("app", "late"):
            tenant.patch(name, source={"inline": text(config_map(name, "new"))})
            message = tenant.failed(name, "DependencyNotReady")
            assert message == "the Bundle db is suspended, and its last change has not been applied"
            assert tenant.value(name) == "v"
        wait = ("wait", "bundle/db", "-n", tenant.namespace, "--for=condition=Ready")
        with pytest.raises(AssertionError, match="timed out"):
            kubectl(*wait, "--timeout=2s", plane=site)
        served(new_tenant(), running, "beside")
        status = tenant.get("db")["status"]
        assert (status["observedGeneration"], tenant.value("db")) == (1, "v")
        # One that was never applied is not ready either.
        tenant.bundle("none", config_map("none"), suspend=True)
        eventually(lambda: tenant.condition("none", "Reconciling")[1] == "Suspended")
        assert tenant.get("none")["status"]["observedGeneration"] == -1
        assert tenant.condition("none")[0] == "Unknown"
        tenant.patch("db", suspend=False)
        kubectl(*wait, "--timeout=300s", plane=site)
        for name in ("app", "late"):
            tenant.ready(name)
            assert tenant.value(name) == "new"

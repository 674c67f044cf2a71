"""A Bundle whose input has errors: its status has them, and the faults of the other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.objects import config_map
from tests.support.workloads import workload

if TYPE_CHECKING:
    from tests.support.controller import Controller, Tenant


def test_bundle_with_errors_in_its_input_has_all_faults_in_its_status(
    tenant: Tenant, running: Controller
) -> None:
    """Those of the input in its conditions, those of the other objects by name; nothing changes."""
    tenant.bundle("web", config_map("a"), config_map("gone"))
    tenant.ready("web")
    tenant.put("configmaps", config_map("a", "hers"))
    unknown = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    hook = config_map("hook", annotations={"helm.sh/hook": "pre-install"})
    typo = {**config_map("typo"), "datum": {}}
    tenant.bundle("web", unknown, hook, typo, config_map("a", "ours"), config_map("new"))
    message = tenant.failed("web", "InvalidSource")
    assert "no matches for kind Foo" in message
    assert "configmap/hook is an install or upgrade hook" in message
    status = tenant.get("web")["status"]
    assert status["objects"] == {"total": 2, "failing": 2, "elsewhere": 0}
    conflict, fault = status["failing"]
    assert ("configmap/a" in conflict["message"], "tenant" in conflict["message"]) == (True, True)
    assert (fault["object"], "datum" in fault["message"]) == ("configmap/typo", True)
    assert (tenant.value("a"), tenant.exists("gone", "new")) == ("hers", [True, False])
    tenant.bundle("web", config_map("a"), config_map("gone"), conflicts="force")
    assert "failing" not in tenant.ready("web")


def test_bundle_that_the_server_would_refuse_in_part_applies_nothing(
    tenant: Tenant, running: Controller
) -> None:
    """One bad value among good ones: nothing is written before the server has checked all."""
    tenant.bundle("web", config_map("a"), workload("Deployment", "web", spec={"replicas": -1}))
    assert "nothing was changed" in tenant.failed("web", "ApplyFailed")
    (refused,) = tenant.get("web")["status"]["failing"]
    assert (refused["object"], "replicas" in refused["message"]) == ("deployment.apps/web", True)
    assert tenant.exists("a") == [False]
    tenant.bundle("web", config_map("a"), workload("Deployment", "web", spec={"replicas": 0}))
    tenant.ready("web")
    assert tenant.exists("a") == [True]

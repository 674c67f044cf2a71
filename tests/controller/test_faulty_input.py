"""A Bundle whose input has errors: its status has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.objects import config_map
from tests.support.workloads import workload

if TYPE_CHECKING:
    from tests.support.controller import Controller, Tenant


def test_bundle_with_errors_in_its_input_has_all_of_them_in_its_status(
    tenant: Tenant, running: Controller
) -> None:
    """And nothing changes."""
    tenant.bundle("web", config_map("a"), config_map("gone"))
    tenant.ready("web")
    unknown = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    hook = config_map("hook", annotations={"helm.sh/hook": "pre-install"})
    tenant.bundle("web", unknown, hook, config_map("a", "ours"), config_map("new"))
    message = tenant.failed("web", "InvalidSource")
    assert "no matches for kind Foo" in message
    assert "configmap/hook is an install or upgrade hook" in message
    assert (tenant.value("a"), tenant.exists("gone", "new")) == ("v", [True, False])


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

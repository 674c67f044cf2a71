"""A Bundle is deleted, and its inventory is lost: its objects are searched by their label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.controller import controller
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import api_service, config_map, crd, custom_resource
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Tenant
    from tests.support.fault_proxy import Exchange

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def test_finalizer_stays_while_the_list_of_kinds_is_not_complete(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Nothing was found, because the kind was not searched: that proves nothing."""
    tenant = new_tenant()
    assert site_api("POST", DEFINITIONS, crd())[0] == 201
    foos = f"/apis/x.example.com/v1/namespaces/{tenant.namespace}/foos"
    eventually(lambda: site_api("GET", foos)[0] == 200, "the kind")
    with (
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", "--no-leader-elect"),
    ):
        tenant.bundle("web", custom_resource("f"))
        tenant.ready("web")
        cut = faults.without_groups("x.example.com")
        proxy.before_forward = _unconditional
        proxy.rule = always(cut, where=lambda seen: seen.path == "/apis")
        assert site_api("DELETE", tenant.path("configmaps", "applyprune-web"))[0] == 200
        tenant.delete("web")
        eventually(lambda: "cannot count yet" in tenant.condition("web")[2], "the refusal")
        told = tenant.condition("web")[2]
        assert "the kind of the CRD foos.x.example.com is not served" in told
        assert site_api.exists(f"{foos}/f")
        proxy.rule = lambda _seen: None
        message = tenant.failed("web", "InventoryUnreadable")
        assert "1 objects have the set's label: foo.x.example.com/f" in message


def _unconditional(seen: Exchange) -> None:
    """Let the server send its whole list of kinds, not that it has not changed."""
    seen.headers = [one for one in seen.headers if one[0].lower() != "if-none-match"]


def test_silent_api_group_does_not_hold_every_bundle(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A dead metrics API blocks only its own group; the log says that it was not searched."""
    tenant = new_tenant()
    service = api_service("silent.example.com")
    assert site_api("POST", SERVICES, service)[0] == 201
    log = tmp_path / "log"
    with controller(site.kubeconfig, log, "--no-leader-elect") as running:
        tenant.bundle("applied", config_map("a"))
        tenant.ready("applied")
        tenant.bundle("never", source={"inline": "["})
        tenant.failed("never", "InvalidSource")
        for name in ("applied", "never"):
            tenant.delete(name)
            tenant.gone(name)
        assert not site_api.exists(tenant.path("configmaps", "a"))
        told = [str(line.get("detail")) for line in running.lines if line.get("bundle") == "never"]
        assert "the API group silent.example.com does not answer" in told[-1]

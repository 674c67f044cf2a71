"""Rules of a Bundle by which the objects of a kind are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.objects import config_map, crd, custom_resource

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "x.example.com/v1"
FILLED = "cm=has(self.data.done)"
DONE = "ruled.x.example.com=has(self.note) && self.note == 'done'"


def test_rule_decides_when_objects_of_a_kind_are_ready(
    running: Controller, site_api: Api, tenant: Tenant
) -> None:
    """Of a kind that comes later, and of one that is ready at once by itself; a removal has none.

    By the rules of their kinds, both objects would be ready as soon as they are stored.
    """
    assert running.process.poll() is None
    tenant.bundle("web", config_map("a"), wait=True, retryInterval="1h", readyWhen=[FILLED, DONE])
    message = tenant.failed("web", "KindNotFound")
    assert message.startswith("spec.readyWhen ruled.x.example.com: unknown kind: no matches for")
    assert tenant.exists("a") == [False]
    assert site_api("POST", DEFINITIONS, crd("Ruled"))[0] == 201
    tenant.waits("web", "waiting for configmap/a")
    tenant.api.patch(tenant.path("configmaps", "a"), {"data": {"done": "yes"}})
    tenant.ready("web")

    inline = tenant.get("web")["spec"]["source"]["inline"]
    tenant.bundle(
        "web", config_map("a"), custom_resource("b", "Ruled"), wait=True, retryInterval="1h",
        readyWhen=[FILLED, DONE],
    )  # fmt: skip
    assert tenant.get("web")["spec"]["source"]["inline"] != inline
    tenant.waits("web", "waiting for ruled.x.example.com/b")
    tenant.api.patch(tenant.path("ruleds", "b", GROUP), {"note": "done"})
    tenant.ready("web")

    tenant.patch("web", readyWhen=["never.x.example.com=true"])
    tenant.failed("web", "KindNotFound")
    tenant.delete("web")
    tenant.gone("web")
    assert tenant.exists("a") == [False]


def test_invalid_rules_are_reported_together(running: Controller, tenant: Tenant) -> None:
    """Each by its index; the Bundle goes on when they are repaired."""
    assert running.process.poll() is None
    tenant.bundle("web", config_map("a"), readyWhen=["cm=self.(", "cm=true", "cm='x'"])
    message = tenant.failed("web", "InvalidSpec")
    assert "spec.readyWhen[0]: the rule “self.(” is not a CEL expression" in message
    assert "spec.readyWhen[2]: the rule “'x'” is not a CEL expression" in message
    assert tenant.condition("web", "Stalled")[0] == "True"
    tenant.patch("web", readyWhen=[])
    tenant.ready("web")

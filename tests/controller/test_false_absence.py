"""What a Bundle is not told truly: by a webhook that says 404, by a label, by another owner."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import OwnedByBundle
from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.marks import ORPHAN
from tests.support.command import applyprune
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.webhook import Webhook, missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Tenant

    Reply = Callable[[dict[str, Any]], dict[str, Any] | None]
    from pathlib import Path

STILL_EXISTS = "it still exists: the server answered 404"


def _for_bundles(refuses: Callable[[dict[str, Any]], bool]) -> Reply:
    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        is_bundle = request["resource"]["resource"] == "bundles"
        return missing(request) if is_bundle and refuses(request) else None

    return reply


def _finalizers(request: dict[str, Any]) -> bool:
    return bool(request["object"]["metadata"].get("finalizers"))


def test_webhook_answers_the_write_of_the_finalizer_with_404(
    site: Plane, site_api: Api, tenant: Tenant
) -> None:
    """The condition names the webhook; without its finalizer, a Bundle applies nothing."""
    reply = _for_bundles(lambda one: _finalizers(one) and not one.get("subResource"))
    with Webhook(site, site_api, tenant.namespace, ("UPDATE",), reply, resources=("*/*",)):
        tenant.bundle("web", config_map("a"))
        eventually(lambda: STILL_EXISTS in tenant.condition("web")[2], lambda: "the condition")
        assert "missing.example.com" in tenant.condition("web")[2]
        assert tenant.exists("a", "applyprune-web") == [False, False]
    tenant.ready("web")


@pytest.mark.holds("bundle-absence")
def test_webhook_answers_the_end_of_a_bundle_with_404(
    site: Plane, site_api: Api, tenant: Tenant
) -> None:
    """Its objects are deleted; the condition names the webhook until the finalizer can go."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    reply = _for_bundles(lambda one: not _finalizers(one))
    with Webhook(site, site_api, tenant.namespace, ("UPDATE",), reply):
        tenant.delete("web")
        eventually(lambda: STILL_EXISTS in tenant.condition("web")[2], lambda: "the condition")
        assert "missing.example.com" in tenant.condition("web")[2]
        assert tenant.exists("a") == [False]
    tenant.gone("web")


def test_set_moves_to_a_bundle_and_back(site: Plane, tenant: Tenant, tmp_path: Path) -> None:
    """Nobody else has it meanwhile; it is given back once its Bundle is known to be inactive.

    Slow: each command is a process, and three Bundles are removed.
    """
    ours = Stage(site.kubeconfig, tenant.namespace, "shop")
    release = ("inventory", "release", "shop", "-n", tenant.namespace)

    def uids() -> list[str]:
        return [tenant.get_map(name)["metadata"]["uid"] for name in "ab"]

    ours.run(config_map("a"), config_map("b"))
    before = uids()
    # To have the name of the set by chance is not to have been given it.
    tenant.bundle("shop", config_map("c"))
    assert "spec.inventoryName: shop" in tenant.failed("shop", "InventoryOwned")
    tenant.bundle("web", config_map("a", "by bundle"), config_map("b"), inventoryName="shop")
    tenant.ready("web")
    assert (tenant.value("a"), uids()) == ("by bundle", before)
    bundle = f"Bundle {tenant.namespace}/web"
    with pytest.raises(OwnedByBundle, match=bundle):
        ours.run(config_map("a"), config_map("b"))
    tenant.bundle("other", config_map("a"), inventoryName="shop")
    assert bundle in tenant.failed("other", "InventoryOwned")
    active = applyprune(*release, kubeconfig=site.kubeconfig)
    assert (active.code, bundle in active.err, "Suspend" in active.err) == (2, True, True)
    # An API server that has just started knows no Bundle: that does not make it inactive.
    with FaultProxy(site) as proxy:
        missing = faults.text(404, "404 page not found\n")
        proxy.rule = always(missing, where=lambda seen: "/bundles/" in seen.path)
        unknown = applyprune(*release, kubeconfig=proxy.kubeconfig(tmp_path))
    assert unknown.code == 7, unknown
    tenant.suspended("web")
    assert applyprune(*release, kubeconfig=site.kubeconfig).code == 0
    ours.run(config_map("a"), config_map("b"))
    assert tenant.value("a") == "v"
    # The Bundles that have lost it, or never had it, take nothing along.
    for name in ("web", "shop", "other"):
        tenant.delete(name)
        tenant.gone(name)
    assert uids() == before


def test_object_with_a_forged_label_keeps_its_bundle(tenant: Tenant) -> None:
    """It is neither deleted nor forgotten; the condition names the object and the label."""
    tenant.bundle("web", config_map("a"), config_map("b"))
    tenant.ready("web")
    _label(tenant, "b", "applyset-x-v1")
    tenant.delete("web")
    message = tenant.failed("web", "RemovalFailed")
    assert "configmap/b" in message
    assert "applyset-x-v1" in message
    # What to do is in the Event too.
    own, where = applyset_identity("web", tenant.namespace).id, f"-n {tenant.namespace}"
    told = eventually(partial(_failures, tenant), lambda: "an Event about it")
    for said in (message, *told):
        assert f"kubectl label --overwrite configmap/b {where} {PART_OF}={own}" in said
        assert f"kubectl annotate bundles.applyprune.dev web {where} {ORPHAN}=true" in said
    assert tenant.exists("a", "b") == [False, True]
    _label(tenant, "b", applyset_identity("web", tenant.namespace).id)
    tenant.gone("web")
    assert tenant.exists("b") == [False]


def _failures(tenant: Tenant) -> list[str]:
    """Return the messages of the Events about a removal that fails."""
    return [message for _, reason, message in tenant.events("web") if reason == "RemovalFailed"]


def _label(tenant: Tenant, name: str, label: str) -> None:
    tenant.api.patch(tenant.path("configmaps", name), {"metadata": {"labels": {PART_OF: label}}})

"""A set moves from the command line to a Bundle and back: no object is deleted or re-created."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.marks import ORPHAN
from tests.support.command import Ended, applyprune
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.forged import remove_entries
from tests.support.objects import config_map, text
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant


def test_set_moves_to_a_bundle_and_back(site: Plane, tenant: Tenant) -> None:
    """Each side is refused while the other one owns the set, and the message names the owner."""
    manifests = text(config_map("a"), config_map("b"))

    def ours(*arguments: str, stdin: str = manifests) -> Ended:
        where = ("-n", tenant.namespace)
        return applyprune(*arguments, *where, kubeconfig=site.kubeconfig, stdin=stdin)

    def uids() -> list[str]:
        return [tenant.get_map(name)["metadata"]["uid"] for name in "ab"]

    assert ours("apply", "shop", "-f", "-").code == 0
    before = uids()
    # To have the name of the set by chance is not to have been given it.
    tenant.bundle("shop", config_map("c"))
    assert "spec.inventoryName: shop" in tenant.failed("shop", "InventoryOwned")
    tenant.delete("shop")
    tenant.gone("shop")
    assert uids() == before
    tenant.bundle("web", config_map("a", "by bundle"), config_map("b"), inventoryName="shop")
    tenant.ready("web")
    assert tenant.value("a") == "by bundle"
    bundle = f"Bundle {tenant.namespace}/web"
    for call in (("apply", "shop", "-f", "-"), ("delete", "shop", "--yes")):
        refused = ours(*call)
        assert refused.code == 2, refused
        assert bundle in refused.err
        assert "inventory release shop" in refused.err
    active = ours("inventory", "release", "shop")
    assert (active.code, bundle in active.err, "Suspend" in active.err) == (2, True, True)
    # Another Bundle cannot have it either.
    tenant.bundle("other", config_map("a"), inventoryName="shop")
    assert bundle in tenant.failed("other", "InventoryOwned")
    tenant.delete("other")
    tenant.gone("other")
    tenant.suspended("web")
    assert ours("inventory", "release", "shop").code == 0
    assert ours("apply", "shop", "-f", "-").code == 0
    assert tenant.value("a") == "v"
    # The Bundle that has lost it takes nothing along.
    tenant.delete("web")
    tenant.gone("web")
    assert uids() == before


def test_set_is_not_released_while_bundles_are_not_served(
    site: Plane, tenant: Tenant, tmp_path: Path
) -> None:
    """An API server that has just started knows no Bundle: that does not make it inactive."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    release = ("inventory", "release", "web", "-n", tenant.namespace)
    with FaultProxy(site) as proxy:
        missing = faults.text(404, "404 page not found\n")
        proxy.rule = always(missing, where=lambda seen: "/bundles/" in seen.path)
        refused = applyprune(*release, kubeconfig=proxy.kubeconfig(tmp_path))
    assert refused.code == 7, refused
    active = applyprune(*release, kubeconfig=site.kubeconfig)
    assert (active.code, "is active" in active.err) == (2, True)


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


def test_bundle_with_a_removed_entry_is_kept(tenant: Tenant) -> None:
    """Its inventory does not list everything: nothing is removed, not even the inventory."""
    tenant.bundle("web", config_map("a"), config_map("b"))
    tenant.ready("web")
    stage = Stage(Path(), tenant.namespace)
    tenant.suspended("web")
    remove_entries(stage, tenant.api, "b")
    # In this order, no other reconcile comes before the removal.
    tenant.delete("web")
    tenant.patch("web", suspend=False)
    assert "configmap/b" in tenant.failed("web", "InventoryUnreadable")
    assert tenant.exists("a", "applyprune-web") == [True, True]
    tenant.drop("b")
    tenant.gone("web")


def _failures(tenant: Tenant) -> list[str]:
    """Return the messages of the Events about a removal that fails."""
    return [message for _, reason, message in tenant.events("web") if reason == "RemovalFailed"]


def _label(tenant: Tenant, name: str, label: str) -> None:
    tenant.api.patch(tenant.path("configmaps", name), {"metadata": {"labels": {PART_OF: label}}})

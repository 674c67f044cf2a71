"""The end of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.node.installed import COMPONENT, DEPLOYMENT, SYSTEM, Installed, deployment
from tests.support.command import applyprune
from tests.support.controller import SYSTEM_NAMESPACE
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.controller import Tenant

BUNDLES = "/apis/applyprune.dev/v1alpha1/bundles"
UNINSTALL = ("delete", "applyprune", "-n", SYSTEM_NAMESPACE, "--yes")


def test_controller_can_be_uninstalled_without_bundles(
    installed: Installed, tenant: Tenant
) -> None:
    """As long as there is one, it is refused; afterwards no Pod of the controller is left."""
    tenant.bundle("web", deployment("web"), wait=True)
    tenant.ready("web")
    kubeconfig = installed.plane.kubeconfig
    assert applyprune(*UNINSTALL, kubeconfig=kubeconfig).code != 0
    assert len(installed.pods()) == 2
    tenant.delete("web")
    tenant.gone("web")
    # Those of other stories go with their namespaces.
    eventually(lambda: not installed.api.get(BUNDLES)["items"], lambda: "the end of all Bundles")
    reply = applyprune(*UNINSTALL, kubeconfig=kubeconfig)
    assert reply.code == 0, reply
    assert not installed.api.exists(DEPLOYMENT)
    path = f"{SYSTEM}/pods?labelSelector={COMPONENT}"
    eventually(lambda: not installed.api.get(path)["items"], lambda: "the end of its Pods")

"""What happens when the CRD is deleted: on its own plane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from applyprune.localplane import API_SERVER_ONLY
from applyprune.sources import read
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.controller import BUNDLE_CRD, Tenant, controller
from tests.support.objects import config_map
from tests.support.waiting import eventually, next_second

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.plane import FreshPlane


def test_deleting_the_crd_deletes_no_object(fresh_plane: FreshPlane, tmp_path: Path) -> None:
    """Every Bundle goes, by the server's cascade; their sets stay, and the command line has them.

    A Bundle that somebody has deleted before is removed as it asks for.
    """
    plane = fresh_plane(API_SERVER_ONLY)
    api = Api(plane)
    (crd,) = read([str(BUNDLE_CRD)])
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api("POST", path, crd.body)[0] == 201
    eventually(
        lambda: api("GET", "/apis/applyprune.dev/v1alpha1/bundles")[0] == 200, lambda: "the CRD"
    )
    tenant = Tenant(api, "default")
    tenant.account("default")
    with controller(plane.kubeconfig, tmp_path / "log", "lease=0"):
        for name in ("a", "b"):
            tenant.bundle(name, config_map(f"of-{name}"))
            tenant.ready(name)
        tenant.bundle("meant", config_map("of-meant", finalizers=["example.com/slow"]))
        tenant.ready("meant")
        tenant.delete("meant")
        eventually(
            lambda: (
                "deletionTimestamp" in api.get(tenant.path("configmaps", "of-meant"))["metadata"]
            )
        )
        next_second()  # of the times of deletion
        assert api("DELETE", f"{path}/bundles.applyprune.dev")[0] == 200
        for name in ("a", "b"):
            tenant.gone(name)
        assert tenant.exists("of-a", "of-b") == [True, True]
        tenant.strip("of-meant")
        eventually(lambda: not api.exists(f"{path}/bundles.applyprune.dev"), lambda: "the CRD gone")
        assert tenant.exists("of-meant", "applyprune-meant") == [False, False]
    shown = applyprune("inventory", "show", "a", kubeconfig=plane.kubeconfig)
    assert "configmap/of-a" in shown.out
    deleted = applyprune("delete", "a", "--yes", kubeconfig=plane.kubeconfig)
    assert (deleted.code, *tenant.exists("of-a")) == (0, False), deleted.err
    # Without the CRD there is no Bundle, so nobody needs the controller.
    labels = {"app.kubernetes.io/name": "applyprune", "app.kubernetes.io/component": "controller"}
    file = tmp_path / "account.json"
    metadata = {"name": "controller", "labels": labels}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    file.write_text(json.dumps(account))
    for verb in (("apply", "c", "-f", str(file)), ("delete", "c", "--yes")):
        reply = applyprune(*verb, kubeconfig=plane.kubeconfig)
        assert reply.code == 0, reply
    assert "serviceaccount/controller deleted" in reply.out
    api.close()

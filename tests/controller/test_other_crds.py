"""A controller over another CRD than its own, an older one or none, on a plane of their own."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.sources import read
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.controller import BUNDLE_CRD, Tenant, controller
from tests.support.git_servers import git_site
from tests.support.objects import config_map
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials, git_source
from tests.support.waiting import eventually, next_second

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{DEFINITIONS}/bundles.applyprune.dev"
ALONE = ("lease=0", "--workers", "1")
LACKS = "the CRD of Bundles is older than the controller: the API server does not store"


def without(crd: dict[str, Any], *fields: str) -> dict[str, Any]:
    """Return a CRD whose status lacks fields."""
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]
    kept = {name: one for name, one in status["properties"].items() if name not in fields}
    properties = {**schema["properties"], "status": {**status, "properties": kept}}
    older = {**version, "schema": {"openAPIV3Schema": {**schema, "properties": properties}}}
    return {**crd, "spec": {**crd["spec"], "versions": [older]}}


@pytest.fixture(scope="module")
def bare(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The plane of this module, without a CRD at first."""
    with start(binaries, API_SERVER_ONLY, tmp_path_factory.mktemp("planes") / "crds") as one:
        yield one


@pytest.fixture
def tenant(bare: Plane) -> Iterator[Tenant]:
    """The default namespace."""
    with closing(Api(bare)) as api:
        tenant = Tenant(api, "default")
        tenant.account("default")
        yield tenant


def install(api: Api, crd: dict[str, Any]) -> None:
    """Create or replace the CRD of Bundles."""
    if api.exists(CRD):
        api.patch(CRD, {"spec": crd["spec"]})
    else:
        assert api("POST", DEFINITIONS, crd)[0] == 201
    served = "/apis/applyprune.dev/v1alpha1/bundles"
    eventually(lambda: api("GET", served)[0] == 200, lambda: "the CRD")


def test_field_that_an_older_crd_lacks_is_named(
    bare: Plane, tenant: Tenant, tmp_path: Path
) -> None:
    """By each Bundle that has it, in the log once, and by who waits for it; a new CRD ends it.

    Slow: the server goes by another CRD a little later.
    """
    api, (crd,) = tenant.api, read([str(BUNDLE_CRD)])
    install(api, without(dict(crd.body), "source"))
    with (
        git_site(tmp_path / "git", login="me:hunter2") as git,
        controller(bare.kubeconfig, tmp_path / "log", *ALONE, *LOOPBACK) as running,
    ):
        git_credentials(tenant, git)
        git.repository().commit({"a/a.yaml": file_of("a"), "b/b.yaml": file_of("b")})
        tenant.bundle("inline", config_map("c"))
        tenant.bundle("a", source=git_source(git, path="a"), interval="1h")
        after = [{"name": "a"}]
        tenant.bundle("b", source=git_source(git, path="b"), interval="1h", dependsOn=after)
        eventually(lambda: LACKS in tenant.condition("a")[2], lambda: str(tenant.condition("a")))
        assert tenant.condition("a")[0] == "True"
        assert f"{LACKS} status.source. Apply the CRD" in tenant.condition("a")[2]
        waits = "the status of the Bundle a does not say what it has applied"
        eventually(lambda: waits in tenant.condition("b")[2], lambda: str(tenant.condition("b")))
        tenant.reconciled("a", "again")
        assert LACKS in tenant.condition("a")[2]
        tenant.ready("inline")
        assert LACKS not in tenant.condition("inline")[2]
        lines = [one for one in running.lines if one["message"] == "status not stored"]
        assert [one["lacks"] for one in lines] == [["status.source"]]
        install(api, dict(crd.body))
        eventually(lambda: _stores(tenant, "a"), lambda: "the new CRD")
        tenant.ready("b")
        assert LACKS not in tenant.condition("a")[2]
        for name in ("inline", "a", "b"):
            tenant.delete(name)
        for name in ("inline", "a", "b"):
            tenant.gone(name)


def _stores(tenant: Tenant, name: str) -> bool:
    """Ask for another reconcile; return whether its status has the field."""
    tenant.reconciled(name, tenant.get(name)["metadata"]["resourceVersion"])
    return "source" in tenant.get(name)["status"]


def test_deleting_the_crd_deletes_no_object(bare: Plane, tenant: Tenant, tmp_path: Path) -> None:
    """Every Bundle goes, by the server's cascade; their sets stay, and the command line has them.

    A Bundle that somebody has deleted before is removed as it asks for.

    Slow: the server deletes the objects of a CRD before it.
    """
    api, (crd,) = tenant.api, read([str(BUNDLE_CRD)])
    install(api, dict(crd.body))
    with controller(bare.kubeconfig, tmp_path / "log", *ALONE):
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
        assert api("DELETE", CRD)[0] == 200
        for name in ("a", "b"):
            tenant.gone(name)
        assert tenant.exists("of-a", "of-b") == [True, True]
        tenant.strip("of-meant")
        eventually(lambda: not api.exists(CRD), lambda: "the CRD gone")
        assert tenant.exists("of-meant", "applyprune-meant") == [False, False]
    shown = applyprune("inventory", "show", "a", kubeconfig=bare.kubeconfig)
    assert "configmap/of-a" in shown.out
    deleted = applyprune("delete", "a", "--yes", kubeconfig=bare.kubeconfig)
    assert (deleted.code, *tenant.exists("of-a")) == (0, False), deleted.err
    # Without the CRD there is no Bundle, so nobody needs the controller.
    labels = {"app.kubernetes.io/name": "applyprune", "app.kubernetes.io/component": "controller"}
    file = tmp_path / "account.json"
    metadata = {"name": "controller", "labels": labels}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    file.write_text(json.dumps(account))
    for verb in (("apply", "c", "-f", str(file)), ("delete", "c", "--yes")):
        reply = applyprune(*verb, kubeconfig=bare.kubeconfig)
        assert reply.code == 0, reply
    assert "serviceaccount/controller deleted" in reply.out

"""A controller over a CRD of an older version: on its own plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.localplane import API_SERVER_ONLY
from applyprune.sources import read
from tests.support.api import Api
from tests.support.controller import BUNDLE_CRD, Tenant, controller
from tests.support.git_servers import git_site
from tests.support.objects import config_map
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials, git_source
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.plane import FreshPlane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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


def test_field_that_an_older_crd_lacks_is_named(fresh_plane: FreshPlane, tmp_path: Path) -> None:
    """By each Bundle that has it, in the log once, and by who waits for it; a new CRD ends it."""
    plane = fresh_plane(API_SERVER_ONLY)
    api = Api(plane)
    (crd,) = read([str(BUNDLE_CRD)])
    assert api("POST", DEFINITIONS, without(dict(crd.body), "source"))[0] == 201
    eventually(
        lambda: api("GET", "/apis/applyprune.dev/v1alpha1/bundles")[0] == 200, lambda: "the CRD"
    )
    tenant = Tenant(api, "default")
    tenant.account("default")
    log = tmp_path / "log"
    with (
        git_site(tmp_path / "git", login="me:hunter2") as git,
        controller(plane.kubeconfig, log, "lease=0", "--workers", "1", *LOOPBACK) as running,
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
        api.patch(f"{DEFINITIONS}/bundles.applyprune.dev", {"spec": crd.body["spec"]})
        eventually(lambda: _stores(tenant, "a"), lambda: "the new CRD")
        tenant.ready("b")
        assert LACKS not in tenant.condition("a")[2]
    api.close()


def _stores(tenant: Tenant, name: str) -> bool:
    """Ask for another reconcile; return whether its status has the field."""
    tenant.reconciled(name, tenant.get(name)["metadata"]["resourceVersion"])
    return "source" in tenant.get(name)["status"]

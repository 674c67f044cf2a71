"""Bundles whose objects have Pods: drift, prune and removal, beside what the Pods do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.node.installed import deployment, pods_of
from tests.support.objects import config_map
from tests.support.remote_bundles import set_value
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.controller import Tenant


def run(tenant: Tenant, app: str, count: int) -> None:
    """Wait until a Deployment has this number of Pods, all ready and none that ends."""

    def counted() -> bool:
        found = pods_of(tenant, app)
        ready = [
            one
            for one in found
            for condition in one["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]
        return len(found) == len(ready) == count

    eventually(counted, lambda: f"{count} Pods of {app}: {pods_of(tenant, app)}")


def test_drift_is_reverted(tenant: Tenant) -> None:
    """Of a ConfigMap, of replicas and of an image: the Pods are the ones of before, and as many."""
    tenant.bundle("web", config_map("a"), deployment("web", replicas=2), wait=True)
    tenant.ready("web")
    run(tenant, "web", 2)
    before = {one["metadata"]["uid"] for one in pods_of(tenant, "web")}
    set_value(tenant, "a", "theirs")
    eventually(lambda: tenant.value("a") == "v", lambda: "the drift of a ConfigMap is reverted")
    path = tenant.path("deployments", "web", "apps/v1")
    tenant.api.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    eventually(lambda: tenant.api.get(path)["spec"]["replicas"] == 2, lambda: "its replicas")
    run(tenant, "web", 2)
    image = "/spec/template/spec/containers/0/image"
    tenant.api.patch(path, [{"op": "replace", "path": image, "value": "localhost/no-image:1"}])

    def image_of() -> str:
        (container,) = tenant.api.get(path)["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    eventually(lambda: image_of() != "localhost/no-image:1", lambda: "its image")
    run(tenant, "web", 2)
    tenant.ready("web")
    assert before & {one["metadata"]["uid"] for one in pods_of(tenant, "web")}
    (drifted,) = (
        one for one in tenant.get("web")["status"]["conditions"] if one["type"] == "Drifted"
    )
    assert drifted["status"] == "False"


def test_pruned_deployment_takes_its_pods_with_it(tenant: Tenant) -> None:
    """Those of what stays go on."""
    tenant.bundle("web", deployment("old"), deployment("kept"), wait=True)
    tenant.ready("web")
    run(tenant, "old", 1)
    (kept,) = pods_of(tenant, "kept")
    tenant.bundle("web", deployment("kept"), wait=True)
    tenant.ready("web")
    assert not tenant.api.exists(tenant.path("deployments", "old", "apps/v1"))
    eventually(lambda: pods_of(tenant, "old") == [], lambda: "the end of its Pods")
    (now,) = pods_of(tenant, "kept")
    assert now["metadata"]["uid"] == kept["metadata"]["uid"]


def test_deleted_bundle_is_gone_after_its_pods(tenant: Tenant) -> None:
    """The finalizer holds it until nothing of its set is left."""
    tenant.bundle("web", deployment("web", replicas=2), config_map("a"), wait=True)
    tenant.ready("web")
    run(tenant, "web", 2)
    assert tenant.get("web")["metadata"]["finalizers"]
    tenant.delete("web")
    tenant.gone("web")
    assert not tenant.api.exists(tenant.path("deployments", "web", "apps/v1"))
    assert tenant.exists("a") == [False]
    eventually(lambda: pods_of(tenant, "web") == [], lambda: "the end of its Pods")


def test_namespace_with_running_pods_can_be_deleted(tenant: Tenant) -> None:
    """Its Bundle, their Deployment and their Pods end with it."""
    tenant.bundle("web", deployment("web", replicas=2), config_map("a"), wait=True)
    tenant.ready("web")
    run(tenant, "web", 2)
    path = f"/api/v1/namespaces/{tenant.namespace}"
    assert tenant.api("DELETE", path)[0] == 200
    eventually(
        lambda: not tenant.api.exists(path),
        lambda: f"the end of the namespace: {tenant.api.get(path)['status']}",
    )

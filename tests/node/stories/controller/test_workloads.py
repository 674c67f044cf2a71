"""Bundles whose Pods do not become ready: the reasons are the kubelet's, and nothing is pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.node.installed import deployment, pods_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.controller import Tenant

UNREADY: Mapping[str, tuple[dict[str, Any], str]] = {
    "pull": (deployment("pull", image="localhost/no-image:1"), "container main: ImagePullBackOff"),
    "crash": (deployment("crash", "exit", "3", readinessProbe=None), "exit code 3"),
    "probe": (deployment("probe", "serve", "-ready", "false"), "Readiness probe failed"),
}
"""What the kubelet says of each."""
ENDING: Mapping[str, dict[str, Any]] = {
    "at-once": deployment("at-once", "exit", "1", readinessProbe=None),
    "later": deployment("later", "exit", "1", "5", readinessProbe=None),
    "oom": deployment(
        "oom", "eat", "64", readinessProbe=None, resources={"limits": {"memory": "32Mi"}}
    ),
}
SHORT = "15s"


def failing(tenant: Tenant, bundle: str) -> Mapping[str, str]:
    """Return what the status of a Bundle says of each object."""
    found = tenant.get(bundle).get("status", {}).get("failing", ())
    return {one["object"]: one["message"] for one in found}


def await_reason(tenant: Tenant, name: str, reason: str) -> None:
    """Wait until a Bundle says this of its Deployment, which has the same name."""
    eventually(
        lambda: reason in failing(tenant, name).get(f"deployment.apps/{name}", ""),
        lambda: f"{reason} of {name}: {failing(tenant, name)}",
    )


def is_there(tenant: Tenant, name: str) -> bool:
    """Return whether a Deployment exists."""
    return tenant.api.exists(tenant.path("deployments", name, "apps/v1"))


def test_bundle_says_why_it_waits(tenant: Tenant) -> None:
    """While it waits and when its time is over; a repair makes it ready."""
    for name, (body, _) in UNREADY.items():
        tenant.bundle(name, body, wait=True, timeout=SHORT)
    for name in UNREADY:
        tenant.waits(name, f"waiting for deployment.apps/{name}")
    for name, (_, reason) in UNREADY.items():
        await_reason(tenant, name, reason)
    for name, (_, reason) in UNREADY.items():
        message = tenant.failed(name, "NotReady")
        assert message == f"1 object is not ready: deployment.apps/{name}"
        assert reason in tenant.failures(name)[f"deployment.apps/{name}"]
    for name in UNREADY:
        tenant.bundle(name, deployment(name), wait=True)
    for name in UNREADY:
        tenant.ready(name)
        assert "failing" not in tenant.get(name)["status"]


def test_working_deployment_is_not_pruned_for_one_that_crashes(tenant: Tenant) -> None:
    """At once, after it was ready for a while, and for want of memory; a repair lets it go."""
    for name in ENDING:
        tenant.bundle(name, deployment(f"old-{name}"), wait=True, timeout=SHORT)
    for name in ENDING:
        tenant.ready(name)
    before = {name: pods_of(tenant, f"old-{name}") for name in ENDING}
    for name, body in ENDING.items():
        tenant.bundle(name, body, wait=True, timeout=SHORT)
    for name in ENDING:
        tenant.failed(name, "NotReady")
        assert f"deployment.apps/{name}" in tenant.failures(name)
        (was,), (now,) = before[name], pods_of(tenant, f"old-{name}")
        assert now["metadata"]["uid"] == was["metadata"]["uid"]
        assert now["status"]["containerStatuses"][0]["restartCount"] == 0
    for name in ENDING:
        tenant.bundle(name, deployment(name), wait=True)
    for name in ENDING:
        tenant.ready(name)
        assert not is_there(tenant, f"old-{name}")

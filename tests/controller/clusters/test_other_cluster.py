"""A Bundle in another cluster: applied, corrected, pruned and removed there, by a kubeconfig."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import applyprune
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.other_cluster import OtherCluster

WORKERS = ("applyprune_workers_busy", "applyprune_queue_depth")
LONG = {"interval": "1h", "retryInterval": "1h"}


@pytest.mark.holds("recorded-cluster")
def test_bundle_lives_in_another_cluster(tenant: Tenant, other: OtherCluster, site: Plane) -> None:
    """All of it: nothing but the Bundle, its source and the kubeconfig is in its own."""
    spec = {**other.admit(tenant, key="value.yaml"), "interval": "2s"}
    tenant.bundle("web", config_map("a"), config_map("b"), **spec)
    message = tenant.failed("web", "NamespaceNotFound")
    assert message.startswith(f"the namespace {tenant.namespace} does not exist in the other")
    other.make_namespace(tenant.namespace)
    status = tenant.ready("web")
    # Recorded before the first write.
    assert status.get("cluster") == {"uid": other.uid(), "namespace": "kube-system"}
    assert other.exists(tenant, "a", "b", "applyprune-web") == [True, True, True]
    assert tenant.exists("a", "b", "applyprune-web") == [False, False, False]
    drifted = tenant.condition("web", "Drifted")
    assert drifted[:2] == ("Unknown", "NotWatched")
    assert drifted[2].endswith("looks again: nothing is watched in another cluster")
    # A change of the source, and a prune.
    tenant.patch("web", source={"inline": text(config_map("a", "new"), config_map("c"))})
    tenant.ready("web")
    assert other.value(tenant, "a") == "new"
    assert other.exists(tenant, "b", "c") == [False, True]
    # Drift, at the interval.
    merge = "application/merge-patch+json"
    drift = {"data": {"key": "theirs"}}
    path = other.path(tenant, "a")
    assert other.api("PATCH", path, drift, content_type=merge)[0] == 200
    assert other.api("DELETE", other.path(tenant, "c"))[0] == 200
    eventually(lambda: other.value(tenant, "a") == "new", lambda: "the drift is reverted")
    eventually(lambda: other.exists(tenant, "c") == [True], lambda: "the object again")
    # The account of the Bundle is only that of its own cluster: no request impersonates it.
    managed = other.api.get(path)["metadata"]["managedFields"]
    assert [one["manager"] for one in managed] == [f"applyprune/{tenant.namespace}/web"]
    tenant.delete("web")
    tenant.gone("web")
    assert other.exists(tenant, "a", "c", "applyprune-web") == [False, False, False]


@pytest.mark.holds("owner-of-another-cluster")
def test_bundles_of_one_name_in_two_clusters_are_two(tenant: Tenant, other: OtherCluster) -> None:
    """The owner of an inventory names its cluster: the other one's Bundle takes nothing over."""
    other.make_namespace(tenant.namespace)
    spec = other.admit(tenant)
    tenant.bundle("web", config_map("a"), **spec)
    tenant.ready("web")
    # The same set, as if a controller of the other cluster had a Bundle of this name.
    kubeconfig = other.second.plane.kubeconfig
    place = ("web", "-n", tenant.namespace)
    applied = applyprune("delete", *place, "--yes", kubeconfig=kubeconfig)
    assert applied.code == 2, applied
    home = tenant.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert f"belongs to Bundle {tenant.namespace}/web of cluster {home}" in applied.err
    released = applyprune("inventory", "release", *place, kubeconfig=kubeconfig)
    assert released.code == 0, released
    tenant.annotate("web", reconcile_now="1")
    tenant.failed("web", "InventoryOwned")
    tenant.delete("web")
    tenant.gone("web")
    assert other.exists(tenant, "a") == [True]


def test_rotated_credentials_are_used_at_once(tenant: Tenant, other: OtherCluster) -> None:
    """The Secret is watched, as a source is; the identity needs only rights of the namespace."""
    other.make_namespace(tenant.namespace)
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
    token = other.account(tenant, *rules)
    spec = {"kubeConfig": {"secretRef": {"name": "prod", "key": "value"}}, **LONG}
    tenant.bundle("web", config_map("a"), **spec)
    assert "secret/prod does not exist" in tenant.failed("web", "KubeConfigNotFound")
    other.admit(tenant, other.kubeconfig(token="wrong"), key="value.yaml")
    eventually(lambda: "no key 'value'" in tenant.condition("web")[2])
    other.admit(tenant, other.kubeconfig(token="wrong"))
    message = tenant.failed("web", "ClusterUnreachable")
    assert message == "the other cluster refuses the credentials of the kubeconfig"
    other.admit(tenant, other.kubeconfig(token=token))
    # It may read no Namespace: nobody can know which cluster this is.
    assert "cannot get resource" in tenant.failed("web", "Forbidden")
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{tenant.namespace}/roles/deployer"
    rules.append({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]})
    merge = "application/merge-patch+json"
    assert other.api("PATCH", role, {"rules": rules}, content_type=merge)[0] == 200
    tenant.annotate("web", reconcile_now="1")
    status = tenant.ready("web")
    uid = other.api.get(f"/api/v1/namespaces/{tenant.namespace}")["metadata"]["uid"]
    assert status["cluster"] == {"uid": uid, "namespace": tenant.namespace}
    # More rights: the cluster is known by the same Namespace as before.
    other.admit(tenant)
    other.put(tenant, config_map("wake"))
    tenant.annotate("web", reconcile_now="2")
    eventually(lambda: tenant.get("web")["status"]["lastHandledReconcileAt"] == "2")
    assert tenant.ready("web")["cluster"]["uid"] == uid


@pytest.mark.holds("turn-of-a-cluster")
def test_cluster_that_hangs_holds_nobody_up(
    new_tenant: Callable[[], Tenant], running: Controller, other: OtherCluster
) -> None:
    """It has a quarter of the workers: others are served, and the controller is healthy."""
    assert running.process.poll() is None
    hanging = [new_tenant() for _ in range(3)]
    for tenant in hanging:
        other.make_namespace(tenant.namespace)
        spec = other.admit(tenant)
        for name in ("one", "two"):
            tenant.bundle(name, config_map(name), **spec)
            tenant.ready(name)

    def workers() -> list[float]:
        """Return how many Bundles have a worker, and how many are due and have none."""
        return [running.metric(one) for one in WORKERS]

    other.second.pause()
    try:
        for tenant in hanging:
            for name in ("one", "two"):
                tenant.patch(name, source={"inline": text(config_map(name, "new"))})
        assert eventually(lambda: sum(found := workers()) == 6 and found) == [1, 5]
        for number in range(6):
            # Even in the namespaces of those that wait for it.
            tenant, name = hanging[number % 3], f"here-{number}"
            tenant.bundle(name, config_map(name))
            tenant.ready(name)
        assert running.ask("/healthz")[0] == 200
        message = hanging[0].failed("one", "ClusterUnreachable")
        late = "accepted the connection, and the TLS handshake took longer than 5 s"
        assert message == f"the cluster of secret/prod {late}"
    finally:
        other.second.resume()
    for tenant in hanging:
        for name in ("one", "two"):
            tenant.ready(name)
            assert other.value(tenant, name) == "new"


def test_recreated_cluster_is_another_one(tenant: Tenant, lost: OtherCluster) -> None:
    """Nothing is applied or deleted in it, whatever it has, until somebody names it."""
    lost.make_namespace(tenant.namespace)
    tenant.bundle("web", config_map("a"), **lost.admit(tenant), **LONG)
    tenant.ready("web")
    old = lost.uid()
    lost.second.replace("--etcd-prefix=/recreated")
    new = lost.uid()
    assert new != old
    lost.make_namespace(tenant.namespace)
    lost.put(tenant, config_map("a", "theirs"))
    tenant.annotate("web", reconcile_now="1")
    message = tenant.failed("web", "ClusterChanged")
    assert message.startswith(f"another cluster answers ({new}) than has its objects ({old}): ")
    assert tenant.condition("web", "Stalled")[0] == "True"
    # Neither a request nor a change of the spec is consent, nor is another value.
    tenant.patch("web", source={"inline": text(config_map("b"))})
    tenant.failed("web", "ClusterChanged")
    tenant.annotate("web", accept_cluster=old, reconcile_now="2")
    eventually(lambda: tenant.get("web")["status"]["lastHandledReconcileAt"] == "2")
    tenant.failed("web", "ClusterChanged")
    assert lost.exists(tenant, "a", "b", "applyprune-web") == [True, False, False]
    command = message.partition("kubectl annotate bundle ")[2]
    assert command == (f"web -n {tenant.namespace} --overwrite applyprune.dev/accept-cluster={new}")
    tenant.annotate("web", accept_cluster=new)
    status = tenant.ready("web")
    assert status["cluster"]["uid"] == new
    assert lost.value(tenant, "a") == "theirs"
    assert lost.exists(tenant, "b", "applyprune-web") == [True, True]
    events = [one[2] for one in tenant.events("web") if one[1] == "ClusterChanged"]
    assert any(f"what it applied in the cluster {old} is kept there" in one for one in events)


def test_bundle_that_moves_leaves_its_objects_only_with_consent(
    tenant: Tenant, other: OtherCluster
) -> None:
    """From its own cluster to another one, and back."""
    other.make_namespace(tenant.namespace)
    tenant.bundle("web", config_map("a"), **LONG)
    tenant.ready("web")
    home = tenant.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    tenant.patch("web", **other.admit(tenant))
    message = tenant.failed("web", "ClusterChanged")
    assert message.startswith(
        f"another cluster answers ({other.uid()}) than has its objects ({home})"
    )
    assert other.exists(tenant, "a") == [False]
    tenant.annotate("web", accept_cluster=other.uid())
    tenant.ready("web")
    assert (tenant.exists("a"), other.exists(tenant, "a")) == ([True], [True])
    tenant.patch("web", kubeConfig=None)
    tenant.failed("web", "ClusterChanged")
    tenant.annotate("web", accept_cluster=home)
    assert "cluster" not in tenant.ready("web")
    tenant.delete("web")
    tenant.gone("web")
    assert (tenant.exists("a"), other.exists(tenant, "a")) == ([False], [True])


def _unreachable(tenant: Tenant, other: OtherCluster) -> str:
    other.second.stop()
    return "ClusterUnreachable"


def _without_secret(tenant: Tenant, other: OtherCluster) -> str:
    assert tenant.api("DELETE", tenant.path("secrets", "prod"))[0] == 200
    return "KubeConfigNotFound"


def _recreated(tenant: Tenant, other: OtherCluster) -> str:
    other.second.replace("--etcd-prefix=/again")
    other.uid()
    other.make_namespace(tenant.namespace)
    other.put(tenant, config_map("a", "theirs"))
    return "ClusterChanged"


def removed_without_a_cluster(
    tenant: Tenant, other: OtherCluster, lose: Callable[[Tenant, OtherCluster], str]
) -> None:
    """Delete three Bundles without their cluster: one in time, one by the annotation, one stays."""
    other.make_namespace(tenant.namespace)
    spec: dict[str, Any] = other.admit(tenant)
    for name, timeout in (("soon", "3s"), ("orphaned", "1h"), ("long", "1h")):
        tenant.bundle(name, config_map(f"of-{name}"), timeout=timeout, **spec)
        tenant.ready(name)
    reason = lose(tenant, other)
    for name in ("soon", "orphaned", "long"):
        tenant.delete(name)
    message = tenant.failed("long", reason)
    assert "left in the inventory applyprune-long: 1 object; the Bundle goes at 20" in message
    tenant.gone("soon")
    told = [one for one in tenant.events("soon") if one[1] == "RemovalIncomplete"]
    arguments = f"soon -n {tenant.namespace} --kubeconfig FILE"
    assert [one[0] for one in told] == ["Warning"]
    assert (
        f"applyprune inventory release {arguments}, then applyprune delete {arguments}"
        in told[0][2]
    )
    assert tenant.api.exists(tenant.bundle_path("orphaned"))
    tenant.annotate("orphaned", orphan="true")
    tenant.gone("orphaned")
    assert tenant.api.exists(tenant.bundle_path("long"))


def test_removal_ends_without_its_cluster(tenant: Tenant, lost: OtherCluster) -> None:
    """At the timeout, or by the annotation; when the cluster is back, the last one is removed."""
    removed_without_a_cluster(tenant, lost, _unreachable)
    lost.second.restart()
    tenant.gone("long")
    assert lost.exists(tenant, "of-soon", "of-orphaned", "of-long") == [True, True, False]


def test_removal_ends_without_its_kubeconfig(tenant: Tenant, other: OtherCluster) -> None:
    """The Secret may be deleted first, as by `kubectl delete -f` of both."""
    removed_without_a_cluster(tenant, other, _without_secret)
    other.admit(tenant)
    tenant.annotate("long", reconcile_now="1")
    tenant.gone("long")
    assert other.exists(tenant, "of-soon", "of-orphaned", "of-long") == [True, True, False]


def test_removal_ends_although_another_cluster_answers(tenant: Tenant, lost: OtherCluster) -> None:
    """Nothing is deleted in that one."""
    removed_without_a_cluster(tenant, lost, _recreated)
    assert lost.value(tenant, "a") == "theirs"
    tenant.annotate("long", accept_cluster=lost.uid())
    tenant.gone("long")
    assert lost.value(tenant, "a") == "theirs"


def test_namespace_goes_without_the_other_cluster(tenant: Tenant, lost: OtherCluster) -> None:
    """Its Secrets and accounts go first: an Event elsewhere says what may be left."""
    lost.make_namespace(tenant.namespace)
    tenant.bundle("web", config_map("a"), timeout="3s", **lost.admit(tenant))
    tenant.ready("web")
    lost.second.stop()
    namespace = f"/api/v1/namespaces/{tenant.namespace}"
    assert tenant.api("DELETE", namespace)[0] == 200
    eventually(lambda: not tenant.api.exists(namespace), lambda: "the namespace gone")
    events = tenant.api.get("/api/v1/namespaces/default/events")["items"]
    told = [one["message"] for one in events if tenant.namespace in one["message"]]
    assert len(told) == 1
    assert "See, in the other cluster: kubectl get -A -l" in told[0]

"""A Bundle in another cluster: applied and removed there, by a kubeconfig that is told nowhere."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.canaries import TOKEN, encoded, untold
from tests.support.command import applyprune
from tests.support.controller import told, told_of_namespace
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.kubeconfigs import (
    COSTLY,
    FOREIGN,
    MALFORMED,
    SERVERS,
    kubeconfig,
    with_foreign,
)
from tests.support.objects import config_map, text
from tests.support.other_cluster import put_kubeconfig
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange
    from tests.support.other_cluster import OtherCluster

WORKERS = ("applyprune_workers_busy", "applyprune_queue_depth")
LONG = {"interval": "1h", "retryInterval": "1h"}


@pytest.mark.holds("recorded-cluster")
def test_bundle_lives_in_another_cluster(tenant: Tenant, other: OtherCluster, site: Plane) -> None:
    """All of it: nothing but the Bundle, its source and the kubeconfig is in its own.

    Slow: a second control plane answers for the other cluster.
    """
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
    """It has a quarter of the workers: others are served, and the controller is healthy.

    Slow: a request to the cluster ends after 5 seconds.
    """
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
    """Nothing is applied or deleted in it, whatever it has, until somebody names it.

    Slow: a server is started in place of another one.
    """
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


LEAVING = {"soon": "3s", "orphaned": "1h", "long": "1h"}
"""The timeout of each Bundle: one goes at it, one by the annotation, and one stays."""


def leaving(tenant: Tenant, other: OtherCluster) -> None:
    """Apply Bundles in the other cluster."""
    other.make_namespace(tenant.namespace)
    spec: dict[str, Any] = other.admit(tenant)
    for name, timeout in LEAVING.items():
        tenant.bundle(name, config_map(f"of-{name}"), timeout=timeout, **spec)
        tenant.ready(name)


def removed_without_a_cluster(tenant: Tenant, reason: str) -> None:
    """Delete the Bundles; all but the last one go."""
    for name in LEAVING:
        tenant.delete(name)
    message = tenant.failed("long", reason)
    assert "left in the inventory applyprune-long: 1 object; the Bundle goes at 20" in message
    tenant.gone("soon")
    told = [one for one in tenant.events("soon") if one[1] == "RemovalIncomplete"]
    arguments = f"soon -n {tenant.namespace} --kubeconfig FILE"
    assert [one[0] for one in told] == ["Warning"]
    command = f"applyprune inventory release {arguments}, then applyprune delete {arguments}"
    assert command in told[0][2]
    assert tenant.api.exists(tenant.bundle_path("orphaned"))
    tenant.annotate("orphaned", orphan="true")
    tenant.gone("orphaned")
    assert tenant.api.exists(tenant.bundle_path("long"))


def test_removal_ends_without_its_cluster(
    new_tenant: Callable[[], Tenant], running: Controller, lost: OtherCluster
) -> None:
    """At the timeout, or by the annotation; when the cluster is back, the last one is removed.

    Its Secret may be deleted first, it may be away, or another cluster may answer, in which nothing
    is deleted. A namespace goes at once, and an Event elsewhere says what may be left. Slow: a
    removal ends at its timeout, and the deletion of a namespace takes its controller some seconds.
    """
    assert running.process.poll() is None
    secretless, away, elsewhere, gone = (new_tenant() for _ in range(4))
    for tenant in (secretless, away, elsewhere):
        leaving(tenant, lost)
    lost.make_namespace(gone.namespace)
    gone.bundle("web", config_map("a"), timeout="1h", **lost.admit(gone))
    gone.ready("web")
    assert secretless.api("DELETE", secretless.path("secrets", "prod"))[0] == 200
    removed_without_a_cluster(secretless, "KubeConfigNotFound")
    lost.admit(secretless)
    secretless.annotate("long", reconcile_now="1")
    secretless.gone("long")

    lost.second.stop()
    namespace = f"/api/v1/namespaces/{gone.namespace}"
    assert gone.api("DELETE", namespace)[0] == 200
    removed_without_a_cluster(away, "ClusterUnreachable")
    eventually(lambda: not gone.api.exists(namespace), lambda: "the namespace gone")
    (told,) = told_of_namespace(gone)
    assert "See, in the other cluster: kubectl get -A -l" in told
    lost.second.restart()
    away.annotate("long", reconcile_now="1")
    away.gone("long")
    for tenant in (secretless, away):
        assert lost.exists(tenant, *(f"of-{name}" for name in LEAVING)) == [True, True, False]

    lost.second.replace("--etcd-prefix=/again")
    lost.uid()
    lost.make_namespace(elsewhere.namespace)
    lost.put(elsewhere, config_map("a", "theirs"))
    removed_without_a_cluster(elsewhere, "ClusterChanged")
    elsewhere.annotate("long", accept_cluster=lost.uid())
    elsewhere.gone("long")
    assert lost.value(elsewhere, "a") == "theirs"


SHOWN = "what-the-server-says"
"""It stays beside the token that the server quotes; the log is that of the whole module."""


REFUSED: tuple[dict[str, Any] | bytes, ...] = (
    with_foreign("exec", FOREIGN["exec"][1]),
    # In these tests, loopback addresses are allowed.
    kubeconfig({"server": next(one for one, why in SERVERS.items() if "loopback" not in why)}),
    *(next(iter(table.values()))[0] for table in (MALFORMED, COSTLY)),
)
"""One of each kind: why each is refused is a table in tests/controller/test_clusters.py."""


def test_refused_kubeconfigs_are_untold(tenant: Tenant, running: Controller) -> None:
    """In status, Events, log and metrics; nothing is sent for them, and no Bundle is held."""
    for number, content in enumerate(REFUSED):
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        spec = put_kubeconfig(tenant, raw, name=f"b-{number}")
        tenant.bundle(f"b-{number}", config_map("a"), **spec, **LONG)
    for number in range(len(REFUSED)):
        message = tenant.failed(f"b-{number}", "InvalidKubeConfig")
        assert message.startswith(f"the kubeconfig of secret/b-{number} cannot be used: ")
        assert "finalizers" not in tenant.get(f"b-{number}")["metadata"]
    untold(told(tenant, running))


def unreachable(site: Plane) -> dict[str, dict[str, Any]]:
    """Return kubeconfigs with which no request succeeds, and that have a secret each."""
    good = {
        "server": site.server,
        "certificate-authority-data": encoded(site.ca_file.read_text()),
    }
    return {
        "a name that does not exist": kubeconfig({"server": f"https://{TOKEN}.invalid"}),
        "a name of the metadata": kubeconfig({"server": "https://2852039166"}),
        "another name": kubeconfig({**good, "tls-server-name": f"{TOKEN}.example"}),
        "a token that is refused": kubeconfig(good),
        "the system's authorities": kubeconfig({"server": site.server}),
    }


WHY = {
    "a name that does not exist": "the name of the cluster of secret/b-0 cannot be resolved",
    "a name of the metadata": "means a link-local address; nothing was sent",
    "another name": "cannot be trusted: Hostname mismatch",
    "a token that is refused": "the other cluster refuses the credentials of the kubeconfig",
    "the system's authorities": "the certificate of the cluster of secret/b-4 cannot be trusted",
}


@pytest.mark.holds("quoted-name")
def test_unreachable_clusters_are_untold(tenant: Tenant, running: Controller, site: Plane) -> None:
    """Errors of name resolution, of TLS and of the server say what is wrong, and no value."""
    for number, content in enumerate(unreachable(site).values()):
        name = f"b-{number}"
        spec = put_kubeconfig(tenant, json.dumps(content).encode(), name=name)
        tenant.bundle(name, config_map(name), **spec, **LONG)
    for number, why in enumerate(WHY.values()):
        assert why in tenant.failed(f"b-{number}", "ClusterUnreachable")
    untold(told(tenant, running))


def _failed(tenant: Tenant, name: str) -> bool:
    return tenant.condition(name)[0] == "False"


@pytest.mark.holds("quoted-token")
def test_server_that_quotes_the_token_is_not_repeated(
    tenant: Tenant, running: Controller, site: Plane
) -> None:
    """In an error, a page, a redirect or a warning, before a run and in one."""
    quote = f"not {site.token} of {SHOWN}"
    location = (("Location", f"https://127.0.0.1:1/{site.token}"),)
    warning = (("Warning", f'299 - "{quote}"'),)
    quoting = {
        "unauthorized": faults.status(401, "Unauthorized", quote),
        "forbidden": faults.status(403, "Forbidden", quote),
        "text": faults.text(400, quote),
        "redirect": faults.answer(302, headers=location),
        "missing": faults.status(404, "NotFound", quote, name="kube-system", kind="namespaces"),
    }

    def content(server: str) -> bytes:
        authority = encoded(site.ca_file.read_text())
        cluster = {"server": server, "certificate-authority-data": authority}
        return json.dumps(kubeconfig(cluster, {"token": site.token})).encode()

    def is_write(exchange: Exchange) -> bool:
        return exchange.method == "PATCH"

    with FaultProxy(site) as proxy:
        spec = put_kubeconfig(tenant, content(proxy.server))
        for name, fault in quoting.items():
            proxy.rule = always(fault)
            tenant.bundle(name, config_map(name), **spec, **LONG)
            eventually(partial(_failed, tenant, name), partial("{} failed".format, name))
        paths = {exchange.path for exchange in proxy.exchanges}
        namespaces = ("kube-system", tenant.namespace)
        # A 404 that does not name the object may mean that its version is not served.
        kinds = {"/api", "/apis"}
        assert paths <= kinds | {f"/api/v1/namespaces/{name}" for name in namespaces}
        proxy.rule = always(faults.status(422, "Invalid", quote, headers=warning), where=is_write)
        tenant.bundle("run", config_map("run"), **spec, **LONG)
        tenant.failed("run", "ApplyFailed")
        message = tenant.failures("run")["configmap/run"]
        assert f": not *** of {SHOWN}: PATCH /api/v1/namespaces/" in message
    found = told(tenant, running)
    assert f"not *** of {SHOWN}" in found
    assert site.token not in found

"""A plane as tests and users see it: everything real, everything proved by its clients."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING

import pytest
import urllib3

from applyprune.localplane import API_SERVER_ONLY

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.plane import FreshPlane, Kubectl


def test_deployment_becomes_ready_and_a_job_completes(namespace: str, kubectl: Kubectl) -> None:
    kubectl("-n", namespace, "create", "deployment", "web", "--image=web", "--replicas=2")
    kubectl("-n", namespace, "create", "job", "once", "--image=once")
    kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=300s")
    kubectl("-n", namespace, "wait", "job/once", "--for=condition=Complete", "--timeout=300s")
    pods = json.loads(kubectl("-n", namespace, "get", "pods", "-l", "app=web", "-o", "json"))
    assert [pod["spec"]["nodeName"] for pod in pods["items"]] == ["node-0", "node-0"]


def test_pods_get_every_resource_that_published_manifests_request(
    namespace: str, kubectl: Kubectl
) -> None:
    """Argo Rollouts, for example, requests ephemeral storage."""
    requests = {
        "cpu": "100m",
        "memory": "1Gi",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "nvidia.com/gpu": "1",
    }
    container = {"name": "c", "image": "c", "resources": {"requests": requests, "limits": requests}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container]},
    }
    kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(pod))
    kubectl("-n", namespace, "wait", "pod/p", "--for=condition=Ready", "--timeout=300s")
    placed = json.loads(kubectl("-n", namespace, "get", "pod/p", "-o", "json"))["spec"]
    assert placed["nodeName"] == "node-0"
    assert placed["containers"][0]["resources"] == container["resources"]


def test_namespace_is_deleted_with_its_contents(api: Api, kubectl: Kubectl) -> None:
    """Slow: the controllers of a new control plane delete a namespace."""
    kubectl("create", "namespace", "short-lived")
    kubectl("-n", "short-lived", "create", "configmap", "a", "--from-literal=a=b")
    kubectl("delete", "namespace", "short-lived", "--timeout=300s")
    assert not api.exists("/api/v1/namespaces/short-lived/configmaps/a")
    assert not api.exists("/api/v1/namespaces/short-lived")


def test_both_credentials_are_admin_and_the_certificate_is_verified(
    plane: Plane, kubectl: Kubectl
) -> None:
    for context in (plane.name, f"{plane.name}-cert"):
        who = json.loads(kubectl("--context", context, "auth", "whoami", "-o", "json"))
        assert who["status"]["userInfo"]["username"] == "admin"
        assert "system:masters" in who["status"]["userInfo"]["groups"]
    strict = ssl.create_default_context(cafile=str(plane.ca_file))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    strict.load_cert_chain(plane.client_cert_file, plane.client_key_file)
    with urllib3.PoolManager(ssl_context=strict) as pool:
        for host in ("127.0.0.1", "localhost"):
            port = plane.server.rpartition(":")[2]
            assert pool.request("GET", f"https://{host}:{port}/api/v1/nodes").status == 200
    with (
        urllib3.PoolManager(retries=False) as pool,
        pytest.raises(urllib3.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        pool.request("GET", plane.server)


def test_audit_log_has_every_answered_request(api: Api, audit: AuditTrail, namespace: str) -> None:
    audit.restart()
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}}
    assert api("POST", path, body)[0] == 201
    assert api("DELETE", f"{path}/seen")[0] == 200
    ours = [
        event
        for event in audit.events()
        if event["userAgent"] == "applyprune-tests" and event["requestURI"].startswith(path)
    ]
    assert [(event["verb"], event["level"]) for event in ours] == [
        ("create", "RequestResponse"),
        ("delete", "RequestResponse"),
    ]
    audit.restart()
    assert [event for event in audit.events() if event["requestURI"].startswith(path)] == []


def test_api_server_alone_serves_and_stores(fresh_plane: FreshPlane, kubectl: Kubectl) -> None:
    """Slow: a control plane starts."""
    small = fresh_plane(API_SERVER_ONLY)
    kubectl("create", "configmap", "a", "--from-literal=a=b", plane=small)
    assert "a" in kubectl("get", "configmaps", "-o", "name", plane=small)
    assert kubectl("get", "nodes", "-o", "name", plane=small) == ""
    # What an aggregated API server learns of whom it may believe.
    trust = ("configmap", "extension-apiserver-authentication", "-o", "json")
    data = json.loads(kubectl("-n", "kube-system", "get", *trust, plane=small))["data"]
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    assert small.audit_log is None
    assert small.token not in repr(small)

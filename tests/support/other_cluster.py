"""A second cluster: a real API server with objects of its own, and kubeconfigs that lead to it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.controller import Tenant
    from tests.support.second_server import SecondServer

SYSTEM = "/api/v1/namespaces/kube-system"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(slots=True)
class OtherCluster:
    """The second server, and plain requests to it."""

    second: SecondServer
    api: Api

    def uid(self) -> str:
        """Return the UID of its Namespace kube-system, which a new cluster has soon."""
        eventually(lambda: self.api.exists(SYSTEM), lambda: "the Namespace kube-system")
        return str(self.api.get(SYSTEM)["metadata"]["uid"])

    def make_namespace(self, name: str) -> None:
        """Create a namespace."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert self.api("POST", "/api/v1/namespaces", body)[0] == 201

    def path(self, tenant: Tenant, name: str = "", plural: str = "configmaps") -> str:
        """Return the path of objects in the namespace with the name of a tenant's."""
        base = f"/api/v1/namespaces/{tenant.namespace}/{plural}"
        return f"{base}/{name}" if name else base

    def exists(self, tenant: Tenant, *names: str) -> list[bool]:
        """Return for each ConfigMap whether it exists there."""
        return [self.api.exists(self.path(tenant, name)) for name in names]

    def value(self, tenant: Tenant, name: str) -> str:
        """Return the only value of a ConfigMap there."""
        return str(self.api.get(self.path(tenant, name))["data"]["key"])

    def put(self, tenant: Tenant, body: dict[str, Any]) -> None:
        """Create a ConfigMap there."""
        status, reply = self.api("POST", self.path(tenant), body)
        assert status == 201, reply

    def account(self, tenant: Tenant, *rules: dict[str, Any]) -> str:
        """Create an account there with a role of the namespace; return a token of it."""
        where = {"name": "deployer", "namespace": tenant.namespace}
        accounts = self.path(tenant, plural="serviceaccounts")
        assert self.api("POST", accounts, {"metadata": where})[0] == 201
        home = f"{RBAC}/namespaces/{tenant.namespace}"
        assert self.api("POST", f"{home}/roles", {"metadata": where, "rules": rules})[0] == 201
        reference = {"apiGroup": RBAC.split("/")[2], "kind": "Role", "name": "deployer"}
        subjects = [{"kind": "ServiceAccount", **where}]
        binding = {"metadata": where, "roleRef": reference, "subjects": subjects}
        assert self.api("POST", f"{home}/rolebindings", binding)[0] == 201
        status, reply = self.api("POST", f"{accounts}/deployer/token", {"spec": {}})
        assert status == 201, reply
        return str(reply["status"]["token"])

    def kubeconfig(self, *, token: str = "", server: str = "") -> str:
        """Return a kubeconfig that leads there, as admin by default."""
        authority = base64.b64encode(self.second.plane.ca_file.read_bytes()).decode()
        cluster = {
            "server": server or self.second.plane.server,
            "certificate-authority-data": authority,
        }
        user = {"token": token or self.second.plane.token}
        content = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
        return json.dumps(content)

    def admit(self, tenant: Tenant, kubeconfig: str = "", *, key: str = "value") -> dict[str, Any]:
        """Store a kubeconfig in a tenant's Secret, and return the spec that names it."""
        return put_kubeconfig(tenant, (kubeconfig or self.kubeconfig()).encode(), key=key)


def put_kubeconfig(
    tenant: Tenant, content: bytes, *, name: str = "prod", key: str = "value"
) -> dict[str, Any]:
    """Store a kubeconfig in a tenant's Secret, and return the spec that names it."""
    meta = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    data = {key: base64.b64encode(content).decode()}
    tenant.put("secrets", {**meta, "data": data})
    return {"kubeConfig": {"secretRef": {"name": name}}}

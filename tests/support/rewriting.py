"""A policy of the cluster that rewrites a value of ConfigMaps with each write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.controller import Tenant

ROOT = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"
REWRITE = '[JSONPatch{op: "replace", path: "/data/key", value: "rewritten"}]'


@dataclass(frozen=True, slots=True)
class RewritingPolicy:
    """A MutatingAdmissionPolicy about the ConfigMaps ``a``, ``a0``, ``a1``… of a tenant."""

    api: Api
    tenant: Tenant

    def create(self) -> None:
        """Create it, and wait until it rewrites."""
        name = self.tenant.namespace
        rule = {
            "apiGroups": [""],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
        about = "object.metadata.name.matches('^a[0-9]*$')"
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [rule],
            },
            "matchConditions": [{"name": "a", "expression": about}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": REWRITE}}],
        }
        for plural, kind, told in (
            (POLICIES, "MutatingAdmissionPolicy", spec),
            (BINDINGS, "MutatingAdmissionPolicyBinding", {"policyName": name}),
        ):
            body = {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": told,
            }
            status, reply = self.api("POST", f"{ROOT}/{plural}", body)
            assert status == 201, reply
        eventually(lambda: self._sent() == "rewritten", lambda: "the policy")

    def delete(self) -> None:
        """Delete it, and wait until it rewrites no more."""
        for plural in (BINDINGS, POLICIES):
            self.api("DELETE", f"{ROOT}/{plural}/{self.tenant.namespace}")
        eventually(lambda: self._sent() != "rewritten", lambda: "the end of the policy")

    def _sent(self) -> str:
        """Return what a new ConfigMap would be stored with."""
        path = f"{self.tenant.path('configmaps')}?dryRun=All"
        reply = self.api("POST", path, config_map("a99"))[1]
        return str(reply["data"]["key"])

"""Every reference in the fields of an object, with the path of its field."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.live import mapping
from applyprune.planning.references import Reference, references

POD = {
    "serviceAccountName": "runner",
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
    "imagePullSecrets": [{"name": "registry"}],
    "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
    "containers": [
        {
            "env": [
                {"name": "A", "value": "x"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            ],
            "envFrom": [{"secretRef": {"name": "env", "optional": True}}],
        }
    ],
    "volumes": [
        {"name": "c", "configMap": {"name": "config", "items": [{"key": "k", "path": "p"}]}},
        {"name": "s", "secret": {"secretName": "files"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
        {
            "name": "p",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token"}},
                    {"secret": {"name": "part", "items": [{"key": "x", "path": "y"}]}},
                ]
            },
        },
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        {"name": "f", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi"}}},
    ],
}
NAMED_BY_A_POD = {
    "ServiceAccount/runner": "serviceAccountName",
    "Secret/registry": "imagePullSecrets.0.name",
    "ConfigMap/config": "volumes.0.configMap.name",
    "Secret/files": "volumes.1.secret.secretName",
    "PersistentVolumeClaim/data": "volumes.2.persistentVolumeClaim.claimName",
    "Secret/part": "volumes.3.projected.sources.1.secret.name",
    "Secret/env": "containers.0.envFrom.0.secretRef.name",
    "Secret/db": "containers.0.env.1.valueFrom.secretKeyRef.name",
    "ConfigMap/init": "initContainers.0.envFrom.0.configMapRef.name",
    "PriorityClass/high": "priorityClassName",
    "RuntimeClass/gvisor": "runtimeClassName",
    "StorageClass/fast": "volumes.4.ephemeral.volumeClaimTemplate.spec.storageClassName",
    "Secret/csi": "volumes.5.csi.nodePublishSecretRef.name",
}
RBAC, NETWORKING = "rbac.authorization.k8s.io", "networking.k8s.io"
ADMISSION, GATEWAY = "admissionregistration.k8s.io", "gateway.networking.k8s.io"
SERVICE = {"service": {"name": "s", "namespace": "x", "port": 1}}


def _at(value: object, path: str) -> object:
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else mapping(value)[step]
    return value


def _found(group: str, kind: str, body: dict[str, Any]) -> dict[str, Reference]:
    ref = Ref(group, kind, "home", "a")
    return {".".join(map(str, reference.field)): reference for reference in references(ref, body)}


WORKLOADS = {
    "a Pod": ("", "Pod", (), ""),
    "a Deployment": ("apps", "Deployment", ("spec", "template"), ""),
    "a CronJob": ("batch", "CronJob", ("spec", "jobTemplate", "spec", "template"), ""),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_pod_references_have_the_path_of_their_field(name: str) -> None:
    """The path leads to the name, whatever the workload is."""
    group, kind, template, _ = WORKLOADS[name]
    body: dict[str, Any] = {"spec": POD}
    for step in reversed(template):
        body = {step: body}
    found = _found(group, kind, body)
    prefix = ".".join((*template, "spec"))
    assert {f"{one.ref.kind}/{one.ref.name}": path for path, one in found.items()} == {
        named: f"{prefix}.{path}" for named, path in NAMED_BY_A_POD.items()
    }
    for path, reference in found.items():
        assert _at(body, path) == reference.ref.name
        for key, place in reference.keys:
            assert _at(body, ".".join(map(str, place))) == key
    keys = {one.ref.name: [key for key, _ in one.keys] for one in found.values() if one.keys}
    assert keys == {"config": ["k"], "part": ["x"], "db": ["password"]}
    assert [one.ref.name for one in found.values() if one.optional] == ["env"]
    cluster = {one.ref.kind for one in found.values() if not one.ref.namespace}
    assert cluster == {"PriorityClass", "RuntimeClass", "StorageClass"}


OTHERS: dict[str, tuple[str, str, dict[str, Any], dict[str, Ref]]] = {
    "the role and the accounts of a binding": (
        RBAC,
        "RoleBinding",
        {
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "apiGroup": RBAC, "name": "u"},
                {"kind": "ServiceAccount", "name": "s"},
                {"kind": "ServiceAccount", "name": "t", "namespace": "x"},
            ],
        },
        {
            "roleRef.name": Ref(RBAC, "Role", "home", "r"),
            "subjects.1.name": Ref("", "ServiceAccount", "home", "s"),
            "subjects.2.name": Ref("", "ServiceAccount", "x", "t"),
        },
    ),
    "a cluster role": (
        RBAC,
        "RoleBinding",
        {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}},
        {"roleRef.name": Ref(RBAC, "ClusterRole", "", "r")},
    ),
    "the Service of a webhook": (
        ADMISSION,
        "ValidatingWebhookConfiguration",
        {"webhooks": [{"clientConfig": {"url": "https://x"}}, {"clientConfig": SERVICE}]},
        {"webhooks.1.clientConfig.service.name": Ref("", "Service", "x", "s")},
    ),
    "the Service of an APIService": (
        "apiregistration.k8s.io",
        "APIService",
        {"spec": SERVICE},
        {"spec.service.name": Ref("", "Service", "x", "s")},
    ),
    "the policy of a binding": (
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        {"spec": {"policyName": "p"}},
        {"spec.policyName": Ref(ADMISSION, "ValidatingAdmissionPolicy", "", "p")},
    ),
    "the conversion of a CRD": (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        {"spec": {"conversion": {"webhook": {"clientConfig": SERVICE}}}},
        {"spec.conversion.webhook.clientConfig.service.name": Ref("", "Service", "x", "s")},
    ),
    "the class of a claim": (
        "",
        "PersistentVolumeClaim",
        {"spec": {"storageClassName": "fast"}},
        {"spec.storageClassName": Ref("storage.k8s.io", "StorageClass", "", "fast")},
    ),
    "a claim without a class": (
        "",
        "PersistentVolumeClaim",
        {"spec": {"storageClassName": ""}},
        {},
    ),
    "the credentials of an account": (
        "",
        "ServiceAccount",
        {"imagePullSecrets": [{"name": "r"}], "secrets": [{"name": "token"}]},
        {"imagePullSecrets.0.name": Ref("", "Secret", "home", "r")},
    ),
    "the Service and the classes of a StatefulSet": (
        "apps",
        "StatefulSet",
        {
            "spec": {
                "serviceName": "s",
                "volumeClaimTemplates": [{"spec": {"storageClassName": "fast"}}],
            }
        },
        {
            "spec.serviceName": Ref("", "Service", "home", "s"),
            "spec.volumeClaimTemplates.0.spec.storageClassName": Ref(
                "storage.k8s.io", "StorageClass", "", "fast"
            ),
        },
    ),
    "the target of an autoscaler": (
        "autoscaling",
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"apiVersion": "x.io/v1", "kind": "Rollout", "name": "w"}}},
        {"spec.scaleTargetRef.name": Ref("x.io", "Rollout", "home", "w")},
    ),
    "the parts of an Ingress": (
        NETWORKING,
        "Ingress",
        {
            "spec": {
                "ingressClassName": "nginx",
                "defaultBackend": {"service": {"name": "d"}},
                "rules": [
                    {"host": "x"},
                    {"http": {"paths": [{"backend": {"service": {"name": "w"}}}]}},
                ],
                "tls": [{"hosts": ["x"]}, {"secretName": "t"}],
            }
        },
        {
            "spec.ingressClassName": Ref(NETWORKING, "IngressClass", "", "nginx"),
            "spec.defaultBackend.service.name": Ref("", "Service", "home", "d"),
            "spec.rules.1.http.paths.0.backend.service.name": Ref("", "Service", "home", "w"),
            "spec.tls.1.secretName": Ref("", "Secret", "home", "t"),
        },
    ),
    "the parts of a Gateway": (
        GATEWAY,
        "Gateway",
        {
            "spec": {
                "gatewayClassName": "g",
                "listeners": [{"tls": {"certificateRefs": [{"name": "t", "namespace": "x"}]}}],
            }
        },
        {
            "spec.gatewayClassName": Ref(GATEWAY, "GatewayClass", "", "g"),
            "spec.listeners.0.tls.certificateRefs.0.name": Ref("", "Secret", "x", "t"),
        },
    ),
    "the parts of a route": (
        GATEWAY,
        "HTTPRoute",
        {
            "spec": {
                "parentRefs": [{"name": "g"}, {"group": "", "kind": "Service", "name": "m"}],
                "rules": [{"backendRefs": [{"name": "w", "port": 80}]}],
            }
        },
        {
            "spec.parentRefs.0.name": Ref(GATEWAY, "Gateway", "home", "g"),
            "spec.parentRefs.1.name": Ref("", "Service", "home", "m"),
            "spec.rules.0.backendRefs.0.name": Ref("", "Service", "home", "w"),
        },
    ),
    "a kind of the same name in another group": (
        "x.io",
        "Ingress",
        {"spec": {"ingressClassName": "nginx"}},
        {},
    ),
    "values of the wrong type": (
        NETWORKING,
        "Ingress",
        {"spec": {"ingressClassName": 1, "rules": {"http": {}}, "tls": [None, {"secretName": {}}]}},
        {},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_references_of_other_kinds_are_found(name: str) -> None:
    """With their own group, kind and namespace where the field names them."""
    group, kind, body, expected = OTHERS[name]
    found = _found(group, kind, body)
    assert {path: reference.ref for path, reference in found.items()} == expected
    assert [path for path, one in found.items() if _at(body, path) != one.ref.name] == []


FREE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "the certificate that cert-manager issues": (
        NETWORKING,
        "Ingress",
        {
            "metadata": {"annotations": {"cert-manager.io/cluster-issuer": "x"}},
            "spec": {"tls": [{"secretName": "t"}]},
        },
    ),
    "the class of a claim for a certain volume": (
        "",
        "PersistentVolumeClaim",
        {"spec": {"storageClassName": "manual", "volumeName": "v"}},
    ),
}


@pytest.mark.parametrize("name", FREE)
def test_reference_to_what_need_not_exist_is_optional(name: str) -> None:
    """Somebody else creates it, or nobody needs it."""
    assert [one.optional for one in _found(*FREE[name]).values()] == [True]

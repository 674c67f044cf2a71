"""One object of nearly every built-in kind, and a field of each that the object lacks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

JSON: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One object of a kind; ``path`` is where the API server has it."""

    path: str
    body: dict[str, Any] = field(repr=False)

    @property
    def kind(self) -> str:
        """Return the kind."""
        return str(self.body["kind"])

    def placed(self, namespace: str, name: str) -> Sample:
        """Return the same object in another namespace, or without one by another name."""
        metadata = {**self.body["metadata"]}
        if "namespace" in metadata:
            metadata["namespace"] = namespace
            path = self.path.replace("/namespaces/default/", f"/namespaces/{namespace}/")
        else:
            metadata["name"] = name
            path = f"{self.path.rpartition('/')[0]}/{name}"
        return replace(self, path=path, body={**self.body, "metadata": metadata})


def _sample(group: str, plural: str, kind: str, *, name: str = "one", **top: JSON) -> Sample:
    """Return an object with a label and an annotation of its own; ``group`` is ``apps/v1``."""
    metadata = {"name": name, "labels": {"team": "x"}, "annotations": {"note": "y"}}
    if kind not in CLUSTERED:
        metadata["namespace"] = "default"
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    home = "" if kind in CLUSTERED else "/namespaces/default"
    body = {"apiVersion": group, "kind": kind, "metadata": metadata, **top}
    return Sample(f"{root}{home}/{plural}/{name}", body)


CLUSTERED = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
    }
)
POD: dict[str, Any] = {
    "serviceAccountName": "one",
    "terminationGracePeriodSeconds": 20,
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "args": ["--a", "--b"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        },
        {"name": "side", "image": "side:1"},
    ],
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"hint": "z"}},
    "spec": POD,
}
ONCE: dict[str, Any] = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
CHOSEN = {"matchLabels": {"app": "web"}}
RULES = [{"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"]}]
RBAC = "rbac.authorization.k8s.io"
SUBJECTS = [
    {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in ("a", "b")
]
# About a group that does not exist: nobody sends a request there.
HOOK: dict[str, Any] = {
    "name": "one.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [
        {
            "apiGroups": ["nobody.example.com"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["nothings"],
        }
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "timeoutSeconds": 3,
}
SAMPLES: tuple[Sample, ...] = (
    _sample("v1", "configmaps", "ConfigMap", data={"a": "1", "b": "2"}),
    _sample("v1", "secrets", "Secret", type="Opaque", data={"a": "MQ==", "b": "Mg=="}),
    _sample(
        "v1",
        "services",
        "Service",
        spec={
            "selector": {"app": "web", "tier": "front"},
            "sessionAffinity": "None",
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
                {"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"},
            ],
        },
    ),
    _sample(
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        automountServiceAccountToken=False,
        imagePullSecrets=[{"name": "pull"}],
    ),
    # Not the name of the Service: the server deletes the Endpoints of that name with it.
    _sample(
        "v1",
        "endpoints",
        "Endpoints",
        name="alone",
        subsets=[{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "p", "port": 80}]}],
    ),
    _sample("v1", "resourcequotas", "ResourceQuota", spec={"hard": {"pods": "10"}}),
    _sample(
        "v1",
        "limitranges",
        "LimitRange",
        spec={"limits": [{"type": "Container", "max": {"cpu": "4", "memory": "4Gi"}}]},
    ),
    _sample(
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    ),
    _sample(
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
            "mountOptions": ["a", "b"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "none",
        },
    ),
    _sample("v1", "namespaces", "Namespace"),
    _sample("v1", "pods", "Pod", spec=POD),
    _sample("v1", "podtemplates", "PodTemplate", template=TEMPLATE),
    _sample(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        spec={"replicas": 0, "selector": {"app": "web"}, "template": TEMPLATE},
    ),
    _sample(
        "apps/v1",
        "deployments",
        "Deployment",
        spec={"replicas": 2, "selector": CHOSEN, "template": TEMPLATE, "minReadySeconds": 1},
    ),
    _sample(
        "apps/v1",
        "statefulsets",
        "StatefulSet",
        spec={"replicas": 2, "selector": CHOSEN, "serviceName": "one", "template": TEMPLATE},
    ),
    _sample(
        "apps/v1",
        "daemonsets",
        "DaemonSet",
        spec={"selector": CHOSEN, "template": TEMPLATE, "minReadySeconds": 2},
    ),
    _sample(
        "apps/v1",
        "replicasets",
        "ReplicaSet",
        spec={"replicas": 2, "selector": CHOSEN, "template": TEMPLATE},
    ),
    _sample(
        "batch/v1",
        "jobs",
        "Job",
        spec={"suspend": True, "parallelism": 2, "backoffLimit": 3, **ONCE},
    ),
    _sample(
        "batch/v1",
        "cronjobs",
        "CronJob",
        spec={
            "schedule": "30 3 * * *",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 60,
            "jobTemplate": {"spec": {"backoffLimit": 2, **ONCE}},
        },
    ),
    _sample(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"},
            "minReplicas": 2,
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                }
            ],
        },
    ),
    _sample(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web", "tier": "front"}}},
    ),
    _sample(
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        spec={
            "ingressClassName": "one",
            "rules": [
                {
                    "host": "one.example.com",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "one", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ],
        },
    ),
    _sample(
        "networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        spec={
            "podSelector": CHOSEN,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
        },
    ),
    _sample(
        "networking.k8s.io/v1",
        "ingressclasses",
        "IngressClass",
        spec={"controller": "example.com/one", "parameters": {"kind": "ConfigMap", "name": "a"}},
    ),
    _sample(f"{RBAC}/v1", "roles", "Role", rules=RULES),
    _sample(f"{RBAC}/v1", "clusterroles", "ClusterRole", rules=RULES),
    _sample(
        f"{RBAC}/v1",
        "rolebindings",
        "RoleBinding",
        roleRef={"apiGroup": RBAC, "kind": "Role", "name": "one"},
        subjects=SUBJECTS,
    ),
    _sample(
        f"{RBAC}/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "one"},
        subjects=SUBJECTS,
    ),
    _sample(
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        value=1000,
        description="of no use",
    ),
    _sample(
        "storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        provisioner="example.com/none",
        allowVolumeExpansion=True,
    ),
    _sample(
        "storage.k8s.io/v1",
        "csidrivers",
        "CSIDriver",
        spec={"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True},
    ),
    _sample(
        "node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        handler="none",
        scheduling={"nodeSelector": {"a": "1"}},
    ),
    _sample(
        "coordination.k8s.io/v1",
        "leases",
        "Lease",
        spec={"holderIdentity": "me", "leaseDurationSeconds": 15},
    ),
    _sample(
        "discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.1.2.4"]}, {"addresses": ["10.1.2.5"]}],
        ports=[{"name": "p", "port": 80, "protocol": "TCP"}],
    ),
    _sample(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        spec={
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": HOOK["rules"]},
            "validations": [{"expression": "true", "message": "fine"}],
        },
    ),
    _sample(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        webhooks=[HOOK],
    ),
    _sample(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        webhooks=[HOOK],
    ),
)
OTHERS_FIELDS: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"foreign": "1"}},
    "Secret": {"data": {"foreign": "MQ=="}},
    "Service": {"spec": {"publishNotReadyAddresses": True}},
    "ServiceAccount": {"secrets": [{"name": "foreign"}]},
    "PersistentVolume": {"spec": {"claimRef": {"namespace": "default", "name": "foreign"}}},
    "PodTemplate": {"template": {"spec": {"nodeSelector": {"foreign": "1"}}}},
    "Deployment": {"spec": {"revisionHistoryLimit": 3}},
    "StatefulSet": {"spec": {"revisionHistoryLimit": 3}},
    "DaemonSet": {"spec": {"template": {"metadata": {"annotations": {"foreign": "1"}}}}},
    "ReplicaSet": {"spec": {"minReadySeconds": 3}},
    "Job": {"spec": {"activeDeadlineSeconds": 600}},
    "CronJob": {"spec": {"successfulJobsHistoryLimit": 1}},
    "HorizontalPodAutoscaler": {"spec": {"behavior": {"scaleDown": {"selectPolicy": "Min"}}}},
    "PodDisruptionBudget": {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
    "NetworkPolicy": {"spec": {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}},
    "CSIDriver": {"spec": {"seLinuxMount": True}},
    "Lease": {"spec": {"leaseTransitions": 3}},
}
"""Fields that no sample has, by kind; other managers may write them."""

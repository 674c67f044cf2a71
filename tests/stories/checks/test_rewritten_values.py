"""No false report of a rewritten value: what the server itself makes of manifests is no rewriting.

`tests/stories/failures/test_webhooks.py` has the true reports.
"""

from __future__ import annotations

from typing import Any

from applyprune.model.options import DryRun
from tests.support.objects import CLAIM, GUARDED, SECRET, SERVICE, crd, event
from tests.support.stage import Stage
from tests.support.workloads import workload

POD: dict[str, Any] = {
    "serviceAccount": "default",
    "hostNetwork": False,
    "priorityClassName": "",
    "terminationGracePeriodSeconds": 0,
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": ""}],
    "securityContext": {},
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
        {"name": "nothing", "emptyDir": None},
        {"name": "told", "downwardAPI": {"items": [
            {"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ],
    "initContainers": [],
    "containers": [
        {
            "name": "c",
            "image": "c:1",
            "imagePullPolicy": "",
            "command": ["a", ""],
            "args": ["1000m", "1.0"],
            "env": [
                {"name": "A", "value": ""},
                {"name": "B", "value": "1000m"},
                {"name": "C", "valueFrom": {"resourceFieldRef":
                    {"resource": "limits.cpu", "divisor": "1000m"}}},
            ],
            "resources": {
                "requests": {"cpu": 0.5, "memory": "1024Mi"},
                "limits": {"cpu": 1, "memory": "2e9", "ephemeral-storage": "1048576Ki"},
            },
            "ports": [
                {"containerPort": 53, "name": "tcp", "hostPort": 0},
                {"containerPort": 53, "protocol": "UDP", "name": "udp"},
            ],
            "livenessProbe": {
                "httpGet": {"path": "", "port": "tcp", "scheme": ""},
                "periodSeconds": 0,
                "timeoutSeconds": 0,
                "initialDelaySeconds": 0,
            },
            "volumeMounts": [{"name": "scratch", "mountPath": "/a", "readOnly": False}],
            "stdin": False,
        }
    ],
}  # fmt: skip
LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS, "creationTimestamp": None}, "spec": POD}
ONCE = {"spec": {**POD, "restartPolicy": "Never"}}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}


def one(kind: str, group: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, **parts}


def _objects(stage: Stage) -> list[dict[str, Any]]:
    """Return objects of many kinds, written as people, tools and old versions write them."""
    rbac, apps = "rbac.authorization.k8s.io/v1", "apps/v1"
    subject = {"kind": "ServiceAccount", "name": "x", "namespace": stage.namespace}
    role = {"apiGroup": "", "kind": "Role", "name": "x"}
    rule = {"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["get", "list"]}
    metric = {"type": "Utilization", "averageUtilization": 80, "averageValue": None}
    autoscaled = {"apiVersion": apps, "kind": "Deployment", "name": "x"}
    old = crd("Rewritten", preserveUnknownFields=False, conversion={"strategy": "None"})
    version = old["spec"]["versions"][0]
    version["additionalPrinterColumns"] = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    version["schema"]["openAPIV3Schema"]["properties"]["size"] = {
        "type": "number", "minimum": 0.0, "maximum": 10.0, "default": 1.0, "nullable": False,
        "description": "", "enum": [1, 2.5],
    }  # fmt: skip
    old["status"] = {"conditions": [], "storedVersions": []}
    config = {"empty": "", "lines": "a\nb\n", "number": "010", "quantity": "1000m"}
    return [
        one("ConfigMap", data=config, binaryData={"b": "YWJj\nZGVm"}, immutable=False),
        SECRET,
        {**SECRET, "metadata": {"name": "t"}, "type": "", "data": {"a": "YWJj\nZGVm", "b": ""}},
        {**SERVICE, "spec": {**SERVICE["spec"], "type": "NodePort", "externalIPs": [],
            "ports": [
                {"name": "a", "port": 53, "nodePort": 0, "targetPort": 0, "protocol": ""},
                {"name": "b", "port": 53, "protocol": "UDP", "targetPort": "udp"},
            ]}},
        one("Service", spec={"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}],
            "selector": LABELS, "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"}),
        one("ServiceAccount", automountServiceAccountToken=False, imagePullSecrets=[{"name": "a"}]),
        one("Pod", spec=POD),
        one("ReplicationController", spec={"selector": LABELS, "template": TEMPLATE}),
        one("PodTemplate", template=TEMPLATE),
        one("Deployment", apps, spec={**SELECTED, "replicas": 0, "minReadySeconds": 0,
            "paused": False,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}, status={}),
        one("DaemonSet", apps, spec=SELECTED),
        one("ReplicaSet", apps, spec=SELECTED),
        one("StatefulSet", apps, spec={**SELECTED, "serviceName": "", "podManagementPolicy": "",
            "volumeClaimTemplates": [{"metadata": {"name": "d", "creationTimestamp": None},
                "spec": CLAIM["spec"], "status": {}}]}),
        one("Job", "batch/v1", spec={"template": ONCE, "backoffLimit": 0, "suspend": False}),
        one("CronJob", "batch/v1", spec={"schedule": "0 0 1 1 *", "suspend": False,
            "concurrencyPolicy": "", "jobTemplate": {"spec": {"template": ONCE}}}),
        CLAIM,
        one("ResourceQuota", spec={"hard": {"cpu": "1000m", "memory": "1024Mi", "pods": 5}}),
        one("LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}),
        one("Role", rbac, rules=[rule]),
        one("RoleBinding", rbac, roleRef=role, subjects=[subject, {"kind": "User", "name": "u"}]),
        one("NetworkPolicy", "networking.k8s.io/v1", spec={"podSelector": {}, "ingress": [
            {"from": [{"podSelector": {}}], "ports": [{"port": 80}, {"port": "web"}]}, {}]}),
        one("Ingress", "networking.k8s.io/v1", spec={"ingressClassName": "x", "rules": [
            {"host": "", "http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "x", "port": {"number": 80}}}}]}}]}),
        one("PodDisruptionBudget", "policy/v1", spec={"minAvailable": "50%", "selector": {}}),
        one("HorizontalPodAutoscaler", "autoscaling/v2", spec={"scaleTargetRef": autoscaled,
            "maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "memory", "target": metric}},
                {"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "AverageValue", "averageValue": "1000m"}}}]}),
        one("HorizontalPodAutoscaler", "autoscaling/v1", metadata={"name": "y"},
            spec={"scaleTargetRef": autoscaled, "maxReplicas": 3,
                "targetCPUUtilizationPercentage": 80}),
        one("Lease", "coordination.k8s.io/v1",
            spec={"renewTime": "2026-11-21T12:00:00.500000+02:00"}),
        one("EndpointSlice", "discovery.k8s.io/v1", addressType="IPv4",
            endpoints=[{"addresses": ["10.0.0.2", "10.0.0.1"]}], ports=[{"port": 80, "name": ""}]),
        one("Endpoints", subsets=[{"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}],
            "ports": [{"port": 80}]}]),
        event(stage, ""),
        *_cluster_scoped(stage.namespace, rbac, rule, subject),
        old,
    ]  # fmt: skip


def _cluster_scoped(
    name: str, rbac: str, rule: dict[str, Any], subject: dict[str, Any]
) -> list[dict[str, Any]]:
    named = {"metadata": {"name": name}}
    extra = {"metadata": {"name": f"{name}-more"}}
    webhook = {
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1/", "caBundle": ""},
        "rules": [{"apiGroups": ["x"], "apiVersions": ["v1"], "resources": ["y"],
            "operations": ["CREATE"]}],
        "failurePolicy": "Ignore",
    }  # fmt: skip
    flow = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 0}
    return [
        {**GUARDED["namespace"], **extra, "spec": {"finalizers": ["x.io/y"]}},
        {**GUARDED["persistentvolume"], **named},
        one("ClusterRole", rbac, **named, rules=[rule], aggregationRule=None),
        one("ClusterRoleBinding", rbac, **named, subjects=[subject],
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}),
        one("StorageClass", "storage.k8s.io/v1", **named, provisioner="x/y", parameters={"a": "1"},
            reclaimPolicy="Delete", allowVolumeExpansion=False, volumeBindingMode="Immediate"),
        one("PriorityClass", "scheduling.k8s.io/v1", **named, value=0, globalDefault=False,
            description="", preemptionPolicy="Never"),
        one("IngressClass", "networking.k8s.io/v1", **named, spec={"controller": "x/y"}),
        one("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", **named,
            webhooks=[webhook]),
        one("FlowSchema", "flowcontrol.apiserver.k8s.io/v1", **named, spec=flow),
        one("RuntimeClass", "node.k8s.io/v1", **named, handler="x",
            overhead={"podFixed": {"cpu": "1000m"}}),
    ]  # fmt: skip


def test_manifest_is_not_rewritten_by_the_server_alone(stage: Stage) -> None:
    """Forms of quantities, defaults, dropped empty values, allocated numbers, completed lists."""
    bodies = _objects(stage)
    story = stage.run(*bodies, dry_run=DryRun.SERVER)
    refused = [name for name, outcome in story.outcomes.items() if outcome == "failed"]
    assert "\n".join(story.problem(name) for name in refused) == ""
    assert len(story.outcomes) == len(bodies)
    assert not [step.desired.ref for step in story.plan.applies if not step.is_checked]
    assert [told for told in story.warnings if "stores other values" in told] == []


def test_old_name_of_an_account_is_no_rewriting(stage: Stage) -> None:
    """The server stores the value of ``serviceAccountName`` in both fields."""
    body = workload("Deployment")
    body["spec"]["template"]["spec"] |= {"serviceAccount": "a", "serviceAccountName": "default"}
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        (told,) = stage.run(body, dry_run=dry_run, check=True).warnings
        assert "serviceAccountName, which stands beside its old name, decides" in told
        assert "webhook" not in told

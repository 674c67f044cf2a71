"""Bodies of objects, and manifests with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import GVK
from applyprune.model.problem import Manifest, Origin
from applyprune.values import packed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.stage import Stage


def annotation_texts(**texts: str) -> dict[str, str]:
    """Return annotations by their keys; ``a_b__c_d`` is ``a.b/c-d``."""
    found = {}
    for key, value in texts.items():
        prefix, _, name = key.partition("__")
        found[f"{prefix.replace('_', '.')}/{name.replace('_', '-')}"] = value
    return found


def manifest(raw: dict[str, Any], line: int = 1) -> Manifest:
    """Return a manifest as if it were read from ``set.yaml``."""
    metadata = raw["metadata"]
    gvk = GVK.parse(raw["apiVersion"], raw["kind"])
    return Manifest(
        gvk,
        metadata.get("namespace", ""),
        metadata["name"],
        packed(raw),
        Origin("set.yaml", 1, line),
    )


def config_map(name: str, value: str = "v", **metadata: Any) -> dict[str, Any]:
    """Return the body of a ConfigMap with one key."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"key": value},
    }


_VERSIONS = {
    "apps/v1": ("DaemonSet", "Deployment", "StatefulSet"),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("CronJob", "Job"),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "rbac.authorization.k8s.io/v1": (
        "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    ),
}  # fmt: skip
_VERSION_OF = {kind: version for version, kinds in _VERSIONS.items() for kind in kinds}


def of_kind(
    kind: str, name: str, metadata: Mapping[str, Any] | None = None, *, api: str = "", **parts: Any
) -> dict[str, Any]:
    """Return the body of an object; ``api`` is its apiVersion, if that is not the usual one."""
    version = api or _VERSION_OF.get(kind, "v1")
    named = {"name": name, **(metadata or {})}
    return {"apiVersion": version, "kind": kind, "metadata": named, **parts}


def text(*bodies: dict[str, Any]) -> str:
    """Return objects as a stream of documents: JSON is YAML."""
    return "\n---\n".join(map(json.dumps, bodies))


SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "stringData": {"password": "hunter2-unique"},
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 80}]},
}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    # Without a probe, a Pod must have been ready for a while.
                    {
                        "name": "web",
                        "image": "web:1",
                        "readinessProbe": {"tcpSocket": {"port": 80}},
                    }
                ]
            },
        },
    },
}
CRON_JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "c"},
    "spec": {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "c", "image": "c:1"}],
                    }
                }
            }
        },
    },
}


def crd(kind: str = "Foo", *, scope: str = "Namespaced", **spec: Any) -> dict[str, Any]:
    """Return a CRD of the group ``x.example.com`` that accepts any spec."""
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "note": {"type": "string"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
            **spec,
        },
    }


def custom_resource(name: str, kind: str = "Foo", **metadata: Any) -> dict[str, Any]:
    """Return a custom resource."""
    return {
        "apiVersion": "x.example.com/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {"a": 1},
    }


def crd_name(kind: str) -> str:
    """Return the name by which stories refer to the CRD of a kind."""
    return f"customresourcedefinition.apiextensions.k8s.io/{kind.lower()}s.x.example.com"


GUARDED: dict[str, dict[str, Any]] = {
    "namespace": {"apiVersion": "v1", "kind": "Namespace", "metadata": {}},
    "persistentvolume": {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
        },
    },
    "persistentvolumeclaim": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    },
    "statefulset": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {},
        "spec": {
            "serviceName": "x",
            "replicas": 0,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    },
}

CLAIM: dict[str, Any] = {**GUARDED["persistentvolumeclaim"], "metadata": {"name": "data"}}


def event(stage: Stage, group: str) -> dict[str, Any]:
    """Return one Event, in the form of one of the two groups that serve it."""
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": stage.namespace}
    named = {"metadata": {"name": "told", "namespace": stage.namespace}, "reason": "Told"}
    if group:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "regarding": about,
            "action": "tell",
            "type": "Normal",
            "eventTime": "2026-11-21T10:00:00.000000Z",
            "reportingController": "example.com/teller",
            "reportingInstance": "t-1",
            **named,
        }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": about,
        "action": "tell",
        "type": "Normal",
        "eventTime": "2026-11-21T10:00:00.000000Z",
        "reportingComponent": "example.com/teller",
        "reportingInstance": "t-1",
        **named,
    }


def api_service(group: str) -> dict[str, Any]:
    """Return an APIService for ``v1`` of a group, whose backend is not there."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "nobody"},
        },
    }

"""What the API server serves: one resource for each kind and version, as discovery told it.

The few endpoints that the program itself needs, whatever discovery says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.model.identity import GVK, GroupKind

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Resource:
    """One endpoint: a kind in one version, its plural and its scope."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def gvk(self) -> GVK:
        """Return group, version and kind."""
        return GVK(self.group, self.version, self.kind)

    @property
    def group_kind(self) -> GroupKind:
        """Return group and kind."""
        return GroupKind(self.group, self.kind)

    @property
    def full_plural(self) -> str:
        """Return ``deployments.apps``; for a custom resource this is its CRD's name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class ResourceMap:
    """Every resource that discovery named.

    ``preferred`` holds, for each kind, the resource in the version that the server prefers.
    ``stale`` holds the groups for which the server could not say (an aggregated API that is down):
    a kind missing from such a group may well exist.
    """

    served: Mapping[GVK, Resource] = field(hash=False)
    preferred: Mapping[GroupKind, Resource] = field(hash=False)
    stale: frozenset[str] = frozenset()

    def find(self, gvk: GVK) -> Resource | None:
        """Return the resource that serves this very version."""
        return self.served.get(gvk)

    def find_kind(self, group_kind: GroupKind) -> Resource | None:
        """Return the resource of a kind in whatever version the server prefers."""
        return self.preferred.get(group_kind)


CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")

NAMESPACE = GroupKind("", "Namespace")

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
AUTOSCALERS = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True
)
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
BUNDLES = Resource("applyprune.dev", "v1alpha1", "Bundle", "bundles", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)

GUARDED_KINDS = {
    GroupKind("", "Namespace"): "namespace",
    GroupKind("", "PersistentVolume"): "persistentvolume",
    GroupKind("", "PersistentVolumeClaim"): "persistentvolumeclaim",
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): "customresourcedefinition",
    GroupKind("apps", "StatefulSet"): "statefulset",
}
"""The kinds that no prune deletes unless they are allowed, by the word that allows each."""

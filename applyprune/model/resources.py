"""The resources that the API server serves, and those that applyprune itself needs."""

from __future__ import annotations

from collections.abc import Mapping

from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.live import LiveObject
from applyprune.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Resource:
    """An endpoint: a kind in one version, its plural and its scope."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = field(default="", compare=False)
    """The singular, as users may write it; empty for the kind in lower case."""
    short_names: tuple[str, ...] = field(default=(), compare=False)
    """The short names, as users may write them: ``deploy``."""
    has_status: bool = field(default=False, compare=False)
    """Whether its status is a subresource: then a write of the object itself drops the status."""

    @property
    def gvk(self) -> GVK:
        """Return the group, version and kind."""
        return GVK(self.group, self.version, self.kind)

    @property
    def group_kind(self) -> GroupKind:
        """Return the group and kind."""
        return GroupKind(self.group, self.kind)

    @property
    def full_plural(self) -> str:
        """Return ``deployments.apps``; for a custom resource this is its CRD's name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class ResourceMap:
    """All resources of the server."""

    served: Mapping[GVK, Resource] = field(hash=False)
    """Every resource in every version."""
    preferred: Mapping[GroupKind, Resource] = field(hash=False)
    """The resource of each kind in the server's preferred version."""
    stale: frozenset[str] = frozenset()
    """The groups that discovery could not read, because an aggregated API is down.

    A kind that is missing in such a group may exist.
    """

    versions: frozenset[tuple[str, str]] = frozenset()
    """Every group version that discovery lists, also without a resource that a set may contain."""
    remembered: bool = field(default=False, compare=False)
    """Whether an earlier run has read it; then it may be outdated."""

    def find(self, gvk: GVK) -> Resource | None:
        """Return the resource of exactly this version; None if it is not served."""
        return self.served.get(gvk)

    def find_kind(self, group_kind: GroupKind) -> Resource | None:
        """Return the resource of a kind in the server's preferred version."""
        return self.preferred.get(group_kind)


@dataclass(frozen=True, slots=True)
class CompleteResourceMap:
    """What the server serves, with the proof that no kind is missing in some API groups.

    Only `planning.schema.served_kinds` makes one; a law test keeps it so.
    """

    resources: ResourceMap
    groups: frozenset[str] | None
    """The groups in which no kind is missing; None for all."""


@dataclass(frozen=True, slots=True)
class Registrations:
    """What the API server should serve: its CRDs and APIServices, read in full."""

    definitions: tuple[LiveObject, ...]
    services: tuple[LiveObject, ...]


CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")

NAMESPACE = GroupKind("", "Namespace")


def namespace_ref(name: str) -> Ref:
    """Return the ref of a Namespace."""
    return Ref(NAMESPACE.group, NAMESPACE.kind, "", name)


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
JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
AUTOSCALERS = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True
)
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
BUNDLES = Resource("applyprune.dev", "v1alpha1", "Bundle", "bundles", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)

IN_EACH_NAMESPACE = frozenset(
    {
        (GroupKind("", "ServiceAccount"), "default"),
        (GroupKind("", "ConfigMap"), "kube-root-ca.crt"),
    }
)
"""The objects that controllers create in each Namespace, by kind and name."""

GUARDED_KINDS = {
    GroupKind("", "Namespace"): "namespace",
    GroupKind("", "PersistentVolume"): "persistentvolume",
    GroupKind("", "PersistentVolumeClaim"): "persistentvolumeclaim",
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): "customresourcedefinition",
    GroupKind("apps", "StatefulSet"): "statefulset",
}
"""The kinds that no prune deletes unless they are allowed, by the word that allows each."""

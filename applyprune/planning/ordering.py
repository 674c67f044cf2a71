"""Which objects go before which: waves by kind and dependency; all of a wave goes at once.

Deletion takes the waves in reverse, so custom resources go before their CRD and contents before
their namespace. The table is by group and kind: a bare kind may belong to anybody's CRD.
"""

from __future__ import annotations

from applyprune.model.identity import GroupKind
from applyprune.model.inventory import Wave
from applyprune.model.resources import CRD, NAMESPACE

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

_FIRST: tuple[frozenset[GroupKind], ...] = (
    frozenset({NAMESPACE}),
    frozenset({CRD}),
    # What others name or are bounded by.
    frozenset(
        {
            GroupKind("", "ConfigMap"),
            GroupKind("", "LimitRange"),
            GroupKind("", "PersistentVolume"),
            GroupKind("", "ResourceQuota"),
            GroupKind("", "Secret"),
            GroupKind("", "ServiceAccount"),
            GroupKind("networking.k8s.io", "IngressClass"),
            GroupKind("networking.k8s.io", "NetworkPolicy"),
            GroupKind("node.k8s.io", "RuntimeClass"),
            GroupKind("policy", "PodDisruptionBudget"),
            GroupKind(_RBAC, "ClusterRole"),
            GroupKind(_RBAC, "Role"),
            GroupKind("scheduling.k8s.io", "PriorityClass"),
            GroupKind("storage.k8s.io", "CSIDriver"),
            GroupKind("storage.k8s.io", "StorageClass"),
        }
    ),
    # A binding needs its role: the server checks escalation against it.
    frozenset(
        {
            GroupKind("", "PersistentVolumeClaim"),
            GroupKind("", "Service"),
            GroupKind(_RBAC, "ClusterRoleBinding"),
            GroupKind(_RBAC, "RoleBinding"),
        }
    ),
)
_BUILT_IN = frozenset(
    {
        "",
        "apps",
        "autoscaling",
        "batch",
        "extensions",
        "policy",
        _ADMISSION,
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        _RBAC,
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
_WORKLOADS = len(_FIRST)
# After the workloads, and so deleted before them: the controller that must run the finalizers of
# a custom resource is often a Deployment of the same set.
_CUSTOM = _WORKLOADS + 1
# What routes or refuses other requests comes when everything else is there.
_LAST = frozenset(
    {
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind(_ADMISSION, "MutatingAdmissionPolicy"),
        GroupKind(_ADMISSION, "MutatingAdmissionPolicyBinding"),
        GroupKind(_ADMISSION, "MutatingWebhookConfiguration"),
        GroupKind(_ADMISSION, "ValidatingAdmissionPolicy"),
        GroupKind(_ADMISSION, "ValidatingAdmissionPolicyBinding"),
        GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"),
    }
)
_RANKS = {kind: rank for rank, kinds in enumerate(_FIRST) for kind in kinds} | dict.fromkeys(
    _LAST, _CUSTOM + 1
)


def is_built_in(group: str) -> bool:
    """Return whether the API server serves a group by itself: no CRD stands behind it."""
    return group in _BUILT_IN


def rank_of(group_kind: GroupKind) -> int:
    """Return the rank of a kind, from 0."""
    return _RANKS.get(group_kind, _WORKLOADS if is_built_in(group_kind.group) else _CUSTOM)


def wave_of(group_kind: GroupKind, *, asked: int = 0) -> Wave:
    """Return the wave of an object without dependencies whose manifest asks for wave ``asked``."""
    return Wave(asked, rank_of(group_kind))

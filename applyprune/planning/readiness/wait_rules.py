"""What is waited for, and by which rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.identity import GroupKind
from applyprune.model.json_access import mapping
from applyprune.planning.annotations import WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.identity import Ref
    from applyprune.model.manifest import Origin
    from applyprune.model.plan import Desired
    from applyprune.model.resources import Resource
    from applyprune.planning.readiness.cel import Rule

WITH_PODS = frozenset(
    {
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "ReplicaSet"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("batch", "Job"),
    }
)
"""The kinds whose Pods tell why they are not ready."""
_RBAC = "rbac.authorization.k8s.io"
# What is as ready as it will ever be once it is stored; a watch would be for nothing.
_AT_ONCE = frozenset(
    {
        GroupKind("", "ConfigMap"),
        GroupKind("", "LimitRange"),
        GroupKind("", "ResourceQuota"),
        GroupKind("", "Secret"),
        GroupKind("", "ServiceAccount"),
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        GroupKind("networking.k8s.io", "IngressClass"),
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("storage.k8s.io", "StorageClass"),
        GroupKind(_RBAC, "ClusterRole"),
        GroupKind(_RBAC, "ClusterRoleBinding"),
        GroupKind(_RBAC, "Role"),
        GroupKind(_RBAC, "RoleBinding"),
    }
)


class Wait:
    """The words of the wait annotation."""

    SKIP = "skip"
    STARTED = "started"


@dataclass(frozen=True, slots=True)
class Awaited:
    """One object that is to be ready; ``since`` is the ``time.monotonic()`` of its apply.

    ``once`` marks a Job that its TTL may have removed; the rest is as ``readiness.assess`` has it.
    """

    ref: Ref
    resource: Resource
    since: float
    origin: Origin
    once: bool = False
    has_status: bool = False
    job_started: bool = False
    rule: Rule | None = field(default=None, hash=False)


def is_awaited(one: Desired, *, has_rule: bool) -> bool:
    """Return whether there is anything to wait for; a user's rule asks for it in any case."""
    if one.wait == Wait.SKIP:
        return False
    return has_rule or one.ref.group_kind not in _AT_ONCE


def wait_word(metadata: Mapping[str, object], origin: Origin) -> str:
    """Return what the manifest says of waiting; raises InputError for a word it cannot mean."""
    word = str(mapping(metadata.get("annotations")).get(WAIT, ""))
    if word not in {"", Wait.SKIP, Wait.STARTED}:
        raise InputError(
            f"{WAIT} is {word!r}",
            location=origin,
            hint='It may be "skip", or "started" for a Job.',
            field=("metadata", "annotations", WAIT),
        )
    return word

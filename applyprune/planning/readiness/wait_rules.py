"""Decide which objects a run waits for, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from applyprune.errors import RunFailed, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import Resource, mapping
from applyprune.model.plan import Desired
from applyprune.planning.annotations import WAIT
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.model.events import Readiness
    from applyprune.model.problem import Origin, Problem
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
"""The kinds whose Pods show why they are not ready."""
_RBAC = "rbac.authorization.k8s.io"
# Kinds that are ready as soon as they are stored: a watch would be useless.
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
    """The values of the wait annotation."""

    SKIP = "skip"
    STARTED = "started"


@dataclass(frozen=True, slots=True)
class Awaited:
    """An object that a run waits for until it is ready."""

    ref: Ref
    resource: Resource
    since: float
    """When it was applied, on the clock of the run's waits."""
    origin: Origin
    has_ttl: bool = False
    """Whether this is a Job that its TTL may already have removed."""
    completed: bool = False
    """Whether an earlier run has recorded that such a Job completed."""
    has_status: bool = False
    """Whether the kind is a custom kind whose CRD has a status."""
    job_started: bool = False
    """Whether a Job only needs to start."""
    timeout: float | None = None
    """How many seconds the wait may take; None for that of the run."""
    rule: Rule | None = field(default=None, hash=False)
    """The user's ready-when rule; None for the rule of the kind."""


def is_awaited(desired: Desired, *, has_rule: bool) -> bool:
    """Return whether a run waits for an object; it always waits if the user gave a rule."""
    if desired.wait == Wait.SKIP:
        return False
    return has_rule or desired.ref.group_kind not in _AT_ONCE


def ready_with_warning(ref: Ref, readiness: Readiness) -> Problem:
    """Return the warning about an object that is ready, although something is wrong with it."""
    return as_problem(RunFailed(f"{ref} is ready, with a warning", reason=readiness.warning))


def wait_word(metadata: Mapping[str, object]) -> str:
    """Return the value of the wait annotation; empty if there is none."""
    return str(mapping(metadata.get("annotations")).get(WAIT, ""))

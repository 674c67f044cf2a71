"""Decide whether everything must be ready before a run prunes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from applyprune.model.identity import GroupKind
from applyprune.model.live import CRD, NAMESPACE, mapping
from applyprune.model.plan import ApplyStep, Desired, Fate, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.order import is_built_in
from applyprune.planning.pod_template import POD

_WORKLOAD_GROUPS = frozenset({"apps", "batch"})
_WORKLOADS = frozenset({POD, GroupKind("", "ReplicationController")})
_SERVICE = GroupKind("", "Service")
_CASCADING = frozenset({NAMESPACE, CRD})
_USED_BY_PODS = frozenset(
    {
        GroupKind("", "ConfigMap"),
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("", "Secret"),
        GroupKind("", "ServiceAccount"),
        GroupKind("node.k8s.io", "RuntimeClass"),
        GroupKind("resource.k8s.io", "ResourceClaim"),
        GroupKind("resource.k8s.io", "ResourceClaimTemplate"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("storage.k8s.io", "StorageClass"),
    }
)
"""The kinds that the Pods of a workload refer to."""
_SHOWN = 3


def wait_reason(applies: Sequence[ApplyStep], removals: Iterable[RemoveStep]) -> str:
    """Return why all objects must be ready before this run prunes; empty if they need not.

    The reason names what may still be in use. The kind decides, not the references: Pods of a
    workload's previous template use what only that template named, such as a ConfigMap with the
    previous hash in its name. A run that applies nothing waits for nothing.
    """
    if not applies:
        return ""
    has_workload = any(_runs_pods(step.desired) for step in applies)
    pruned = (
        step.entry.ref
        for step in removals
        if step.fate is Fate.PRUNE and not (step.live is not None and step.live.terminating)
    )
    uses = [f"{ref.short} {use}" for ref in pruned if (use := _use(ref.group_kind, has_workload))]
    return and_more(uses, _SHOWN)


def no_wait_warning(reason: str) -> Problem:
    """Return the warning that a run with ``--no-wait`` prunes what may still be in use."""
    return Problem(
        ProblemKind.NO_WAIT,
        "--no-wait: this run prunes without waiting until everything is ready",
        reason=reason,
    )


def _runs_pods(desired: Desired) -> bool:
    """Return whether an object is a workload; a custom one is if its spec has containers."""
    kind = desired.ref.group_kind
    return is_workload(kind) or (
        not is_built_in(kind.group) and _has_containers(desired.body.get("spec"))
    )


def is_workload(kind: GroupKind) -> bool:
    """Return whether a built-in kind runs Pods."""
    return kind.group in _WORKLOAD_GROUPS or kind in _WORKLOADS


def _has_containers(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_containers, value))
    found = mapping(value)
    return bool(found.get("containers")) or any(map(_has_containers, found.values()))


def _use(kind: GroupKind, has_workload: bool) -> str:
    """Return why an object of a kind may be in use; empty if it is not."""
    if kind == _SERVICE:
        return "is a Service"
    if kind in _CASCADING:
        return "is deleted with its contents"
    if is_workload(kind):
        return "is a workload"
    if not is_built_in(kind.group):
        return "may be a workload"
    return "may be used by Pods of the set" if has_workload and kind in _USED_BY_PODS else ""

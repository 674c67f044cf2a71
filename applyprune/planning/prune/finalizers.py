"""Explain why a deleted object still exists: its finalizers, their owners, and whether these run.

Nothing here decides to remove a finalizer: its owner still has work to do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from applyprune.model.identity import Ref
from applyprune.model.live import (
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACE,
    STATEFUL_SETS,
    LiveObject,
    mapping,
)
from applyprune.model.text import and_more
from applyprune.planning.snapshot import CascadeContents

_SHOWN = 5
_CANDIDATES = 3
_OURS = "applyprune/"
_WORKLOADS = frozenset(kind.group_kind for kind in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS))
_GOING = "is also deleted by this prune"
_UNRECORDED = "its controller is unknown"
# The finalizers of Kubernetes itself, by the names in its source (1.36).
_BUILT_IN: Mapping[str, str] = {
    "foregroundDeletion": "the garbage collector removes it once the object's dependents are gone",
    "orphan": "the garbage collector removes it once the dependents no longer name their owner",
    "kubernetes.io/pvc-protection": (
        "the PVC protection controller removes it once no Pod uses the claim"
    ),
    "kubernetes.io/pv-protection": (
        "the PV protection controller removes it once the volume is bound to no claim"
    ),
    "kubernetes.io/pv-controller": (
        "the volume controller removes it once the storage behind the volume is deleted"
    ),
    "kubernetes.io/vac-protection": (
        "the VAC protection controller removes it once no volume and no claim uses the class"
    ),
    "batch.kubernetes.io/job-tracking": (
        "the Job controller removes it once it has counted the Pod"
    ),
    "service.kubernetes.io/load-balancer-cleanup": (
        "the cloud controller manager removes it once the load balancer is deleted"
    ),
    "resource.kubernetes.io/delete-protection": (
        "the resource claim controller removes it once no Pod uses the claim"
    ),
    "networking.k8s.io/service-cidr-finalizer": (
        "the service CIDR controller removes it once no Service has an address of the range"
    ),
    "customresourcecleanup.apiextensions.k8s.io": (
        "the API server removes it once every custom resource of the kind is gone"
    ),
}
_CONTROL_PLANE = frozenset(
    {"cloud-controller-manager", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
)


def has_foreign_finalizer(live: LiveObject) -> bool:
    """Return whether a controller from outside Kubernetes must clean up after an object."""
    return any(name not in _BUILT_IN for name in live.finalizers)


def diagnose(
    live: LiveObject,
    *,
    workloads: CascadeContents,
    pruning: Collection[Ref],
    remains: CascadeContents | None = None,
) -> str:
    """Return what blocks a deletion, in clauses.

    ``workloads`` are the Deployments, StatefulSets and DaemonSets of the cluster, read in full.
    ``pruning`` are the objects that the current prune deletes. ``remains`` is the remaining content
    of a Namespace or CRD.
    """
    clauses = [*_held(live, workloads, pruning), *_conditions(live)]
    if remains is not None:
        left = _left(remains)
        clauses += _remaining(live, left, remains.uncounted)
        for member in left[:_SHOWN]:
            clauses += _held(member, workloads, pruning)
    # A finalizer may block many objects of a namespace: explain it only once.
    return "; ".join(dict.fromkeys(clauses)) or "the server has not removed it yet"


def _held(live: LiveObject, workloads: CascadeContents, pruning: Collection[Ref]) -> Iterator[str]:
    for name in live.finalizers:
        yield from _explained(name, _owners(live, name, "f:metadata"), workloads, pruning)
    if live.ref.group_kind == NAMESPACE:
        # A Namespace also has finalizers in its spec.
        for name in _list(mapping((live.body or {}).get("spec")).get("finalizers")):
            if name == "kubernetes":
                yield f"finalizer {name}: the namespace controller removes it once nothing is left"
            else:
                yield from _explained(name, _owners(live, name, "f:spec"), workloads, pruning)


def _explained(
    name: str, managers: Sequence[str], workloads: CascadeContents, pruning: Collection[Ref]
) -> Iterator[str]:
    if name in _BUILT_IN:
        yield f"finalizer {name}: {_BUILT_IN[name]}"
        return
    if not managers:
        yield f"finalizer {name}, owned by no field manager: {_UNRECORDED}"
    for manager in managers:
        if manager.startswith(_OURS):
            yield f"finalizer {name}, set by the manifest: {_UNRECORDED}"
        else:
            yield f"finalizer {name}, set by {manager}: {_at_work(manager, workloads, pruning)}"


def _owners(live: LiveObject, name: str, part: str) -> Sequence[str]:
    """Return the managers of a finalizer; if there are none, those of the whole list."""
    exact: dict[str, None] = {}
    whole: dict[str, None] = {}
    for entry in live.managed_fields:
        fields = mapping(mapping(entry.get("fieldsV1")).get(part)).get("f:finalizers")
        if not isinstance(fields, dict):
            continue
        manager = str(entry.get("manager", ""))
        if f"v:{json.dumps(name)}" in fields:
            exact[manager] = None
        elif not any(key.startswith("v:") for key in fields):
            whole[manager] = None
    return tuple(exact or whole)


def _at_work(manager: str, workloads: CascadeContents, pruning: Collection[Ref]) -> str:
    """Return, in words, whether the controller with a manager's name runs."""
    objects = {workload.ref: workload for workload in workloads.objects}
    named = [
        ref for ref in {*objects, *pruning} if ref.name == manager and ref.group_kind in _WORKLOADS
    ]
    found = sorted(
        named or (ref for ref, workload in objects.items() if manager in _programs(workload))
    )
    if found:
        states = [f"{ref} {_state(ref, objects.get(ref), pruning)}" for ref in found]
        return and_more(states, _CANDIDATES, ", or ")
    if manager in _CONTROL_PLANE:
        return "part of the control plane"
    if manager == "kubectl" or manager.startswith("kubectl-"):
        return _UNRECORDED
    if workloads.uncounted:
        return f"it is unknown whether it runs ({workloads.uncounted})"
    return "no workload with that name runs"


def _programs(live: LiveObject) -> Iterator[str]:
    """Yield the names of a workload's containers, images and programs."""
    template = mapping(mapping((live.body or {}).get("spec")).get("template"))
    for item in _list(mapping(template.get("spec")).get("containers")):
        container = mapping(item)
        yield str(container.get("name", ""))
        image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2]
        yield image.partition(":")[0]
        for program in _list(container.get("command"))[:1]:
            yield str(program).rpartition("/")[2]


def _state(ref: Ref, live: LiveObject | None, pruning: Collection[Ref]) -> str:
    if live is None:
        return _GOING
    if live.terminating:
        return _GOING if ref in pruning else "is being deleted"
    ready, wanted = _replicas(live)
    state = f"runs ({ready} of {wanted} ready)" if ready else "has no ready replica"
    return f"{state} and {_GOING}" if ref in pruning else state


def _replicas(live: LiveObject) -> tuple[int, int]:
    """Return how many replicas are ready, and how many are desired."""
    body = live.body or {}
    spec, status = mapping(body.get("spec")), mapping(body.get("status"))
    if live.ref.group_kind == DAEMON_SETS.group_kind:
        return _count(status.get("numberReady")), _count(status.get("desiredNumberScheduled"))
    return _count(status.get("readyReplicas")), _count(spec.get("replicas", 1))


def _conditions(live: LiveObject) -> Iterator[str]:
    """Yield the messages of the conditions of a terminating Namespace."""
    for condition in _list(mapping((live.body or {}).get("status")).get("conditions")):
        facts = mapping(condition)
        if facts.get("status") == "True" and str(facts.get("type", "")).startswith("Namespace"):
            yield str(facts.get("message", ""))


def _left(remains: CascadeContents) -> Sequence[LiveObject]:
    """Return the remaining objects, with finalizers first; two groups may serve the same object."""
    unique = {member.uid: member for member in remains.objects}
    return sorted(unique.values(), key=lambda member: (not member.finalizers, member.ref))


def _remaining(live: LiveObject, left: Sequence[LiveObject], unread: str) -> Iterator[str]:
    if left:
        names = and_more([_named(member, live) for member in left], _SHOWN)
        yield f"it still contains {names}"
    elif not unread:
        yield "it is empty"
    if unread:
        yield f"its contents could not be read completely ({unread})"


def _named(member: LiveObject, holder: LiveObject) -> str:
    name = member.ref.short if member.ref.namespace == holder.ref.name else str(member.ref)
    if not member.finalizers:
        return name
    plural = "s" if len(member.finalizers) > 1 else ""
    return f"{name} (finalizer{plural} {', '.join(member.finalizers)})"


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0

"""Build the tree of what an object owns, with the columns of ``kubectl get``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.events import TreeNode
from applyprune.model.identity import GVK, Ref
from applyprune.model.live import condition, count, field, items, mapping, text, whole_number
from applyprune.model.text import seconds_since, visible
from applyprune.planning.readiness.kstatus import assess

if TYPE_CHECKING:
    from datetime import datetime

if TYPE_CHECKING:
    Body = Mapping[str, Any]
    Owned = Mapping[str, Sequence[Body]]

_DEEPEST = 6
"""A CronJob's Pod is at level 3; ownerReferences may also form a circle."""


def by_owner(bodies: Iterator[Body]) -> Owned:
    """Return the objects by the UID of each of their owners."""
    found: dict[str, list[Body]] = {}
    for body in bodies:
        for owner in items(body, "metadata", "ownerReferences"):
            found.setdefault(text(mapping(owner), "uid"), []).append(body)
    return found


def tree_of(body: Body, owned: Owned, now: datetime, *, level: int = 0) -> TreeNode:
    """Return an object with what it owns; ReplicaSets of earlier rollouts are left out."""
    parts = owned.get(text(body, "metadata", "uid"), ()) if level < _DEEPEST else ()
    nodes = (tree_of(part, owned, now, level=level + 1) for part in parts if not _is_past(part))
    kind = GVK.parse(text(body, "apiVersion"), text(body, "kind")).group_kind
    metadata = text(body, "metadata", "namespace"), text(body, "metadata", "name")
    is_pod = kind.kind == "Pod" and not kind.group
    return TreeNode(
        ref=Ref(kind.group, kind.kind, *metadata),
        ready=_containers_ready(body) if is_pod else _pods_ready(body),
        state=pod_status(body) if is_pod else assess(body).status.text,
        restarts=_restarts(body) if is_pod else None,
        age=seconds_since(text(body, "metadata", "creationTimestamp"), now),
        owned=tuple(sorted(nodes, key=lambda node: node.ref)),
    )


def pod_status(pod: Body) -> str:
    """Return the STATUS that ``kubectl get pods`` shows."""
    found = _init_status(pod) or _status(pod)
    if field(pod, "metadata", "deletionTimestamp"):
        return "Unknown" if text(pod, "status", "reason") == "NodeLost" else "Terminating"
    return visible(found)


def _status(pod: Body) -> str:
    found = text(pod, "status", "reason") or text(pod, "status", "phase") or "Unknown"
    runs = False
    for status in reversed([mapping(one) for one in items(pod, "status", "containerStatuses")]):
        waits = text(status, "state", "waiting", "reason")
        ended = mapping(field(status, "state", "terminated"))
        if waits:
            found = waits
        elif ended:
            found = _ended(ended)
        elif status.get("ready") is True and field(status, "state", "running") is not None:
            runs = True
    ready = condition(pod, "Ready")
    if found == "Completed" and runs:
        return "Running" if ready is not None and ready.status == "True" else "NotReady"
    return found


def _init_status(pod: Body) -> str:
    """Return the status while init containers run; empty afterwards."""
    statuses = [mapping(one) for one in items(pod, "status", "initContainerStatuses")]
    for number, status in enumerate(statuses):
        ended = mapping(field(status, "state", "terminated"))
        if (ended and not count(ended, "exitCode")) or status.get("started") is True:
            continue  # done, or a sidecar that runs
        if ended:
            return f"Init:{_ended(ended)}"
        waits = text(status, "state", "waiting", "reason")
        if waits and waits != "PodInitializing":
            return f"Init:{waits}"
        return f"Init:{number}/{len(statuses)}"
    return ""


def _ended(terminated: Body) -> str:
    signal = count(terminated, "signal")
    number = f"Signal:{signal}" if signal else f"ExitCode:{count(terminated, 'exitCode')}"
    return text(terminated, "reason") or number


def _containers_ready(pod: Body) -> str:
    statuses = [mapping(one) for one in items(pod, "status", "containerStatuses")]
    ready = sum(status.get("ready") is True for status in statuses)
    return f"{ready}/{len(items(pod, 'spec', 'containers'))}"


def _restarts(pod: Body) -> int:
    statuses = items(pod, "status", "containerStatuses")
    return sum(count(mapping(one), "restartCount") for one in statuses)


def _pods_ready(body: Body) -> str:
    if text(body, "kind") == "DaemonSet":
        wanted = whole_number(body, "status", "desiredNumberScheduled")
        ready = count(body, "status", "numberReady")
    elif text(body, "kind") == "Job":
        wanted = count(body, "spec", "completions", default=1)
        ready = count(body, "status", "succeeded")
    else:
        wanted = whole_number(body, "spec", "replicas")
        ready = count(body, "status", "readyReplicas")
    return "" if wanted is None else f"{ready}/{wanted}"


def _is_past(body: Body) -> bool:
    """Return whether this is a ReplicaSet that a rollout has scaled to zero."""
    is_set = text(body, "kind") == "ReplicaSet"
    return is_set and not count(body, "spec", "replicas") and not count(body, "status", "replicas")

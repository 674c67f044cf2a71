"""Whether a workload stays ready: its Pods prove it, beyond its own status.

Between its start and its crash, a container without a probe counts as available: the status of its
workload says nothing else. So a Pod counts only once it has run for a while, or once a probe has
found it well. All times are those of the cluster, so no look needs to know of an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, in_progress
from applyprune.model.kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from applyprune.model.live import condition, count, field, items, mapping, text
from applyprune.planning.pods import controller_of, how_ended
from applyprune.planning.readiness import Related, current_pods

if TYPE_CHECKING:
    from applyprune.model.identity import GroupKind

    Body = Mapping[str, Any]

STEADY = 10.0
"""Seconds for which a Pod without a probe must have been ready, and one that has restarted longer
than before."""
_LONGEST = 60.0
"""Seconds, at most, for which a container that has restarted must run."""
_KINDS = {DEPLOYMENT, STATEFUL_SET, DAEMON_SET}


def needs_proof(kind: GroupKind, workload: Body) -> bool:
    """Return whether the status of a workload is not enough: it has Pods that the cluster rolls."""
    on_delete = text(workload, "spec", "updateStrategy", "type") == "OnDelete"
    return kind in _KINDS and not on_delete and _wanted(workload) > 0


def pod_selector(workload: Body) -> str:
    """Return the label selector of its Pods, as a request has it."""
    selector = mapping(field(workload, "spec", "selector"))
    parts = [f"{key}={value}" for key, value in mapping(selector.get("matchLabels")).items()]
    for one in items(selector, "matchExpressions"):
        rule = mapping(one)
        key, values = text(rule, "key"), ",".join(map(str, items(rule, "values")))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }.get(text(rule, "operator"), key)
        )
    return ",".join(parts)


def unproved(workload: Body, pods: Sequence[Body], now: datetime) -> Readiness | None:
    """Return why a workload that says it is ready may not stay so; None if enough Pods prove it.

    ``pods`` are those of its selector, and ``now`` is the time of the server that listed them.
    """
    own = [
        pod
        for pod in pods
        if _is_of(workload, pod) and not field(pod, "metadata", "deletionTimestamp")
    ]
    new = _of_new_template(workload, own)
    if len(new) < len(own) and not _partition(workload):
        return in_progress("Pods of its old template still run")
    doubts = [(pod, doubt) for pod in new if (doubt := _doubt(workload, pod, now))]
    needed = _needed(workload)
    proved = len(new) - len(doubts)
    if proved >= needed:
        return None
    if not doubts:
        return in_progress(f"{proved} of {needed} Pods were found")
    pod, doubt = doubts[0]
    return in_progress(f"pod/{text(pod, 'metadata', 'name')}: {doubt}")


def _wanted(workload: Body) -> int:
    if workload.get("kind") == "DaemonSet":
        return count(workload, "status", "desiredNumberScheduled")
    return max(count(workload, "spec", "replicas", default=1) - _partition(workload), 0)


def _partition(workload: Body) -> int:
    return count(workload, "spec", "updateStrategy", "rollingUpdate", "partition")


def _needed(workload: Body) -> int:
    """Return how many Pods must prove it: all but those that a rollout may leave unavailable."""
    wanted = _wanted(workload)
    rolling = mapping(field(workload, "spec", "updateStrategy", "rollingUpdate"))
    default: object = 1
    if workload.get("kind") == "Deployment":
        if text(workload, "spec", "strategy", "type") == "Recreate":
            return wanted
        rolling, default = mapping(field(workload, "spec", "strategy", "rollingUpdate")), "25%"
    spare = str(rolling.get("maxUnavailable", default))
    if spare.endswith("%"):
        share = wanted * int(spare.removesuffix("%")) / 100
        spare = str(math.ceil(share) if workload.get("kind") == "DaemonSet" else int(share))
    return max(wanted - int(spare), 1)


def _is_of(workload: Body, pod: Body) -> bool:
    """Return whether a workload controls a Pod; the ReplicaSet of a Deployment has its name."""
    owner = controller_of(pod)
    if workload.get("kind") != "Deployment":
        return owner.get("uid") == field(workload, "metadata", "uid")
    name = f"{text(workload, 'metadata', 'name')}-{_hash(pod)}"
    return (owner.get("kind"), owner.get("name")) == ("ReplicaSet", name)


def _of_new_template(workload: Body, pods: Sequence[Body]) -> Sequence[Body]:
    """Return the Pods of the new template; none where it is not known which is new."""
    if workload.get("kind") != "Deployment":
        return current_pods(workload, Related(pods=pods))
    # Without its ReplicaSets, nothing says which is new. In the end, all Pods have the same.
    return pods if len({_hash(pod) for pod in pods}) < 2 else ()


def _hash(pod: Body) -> str:
    """Return the mark of the ReplicaSet that a Pod of a Deployment has."""
    return text(pod, "metadata", "labels", "pod-template-hash")


def _doubt(workload: Body, pod: Body, now: datetime) -> str:
    """Return why a Pod does not prove anything yet; empty if it does."""
    ready = condition(pod, "Ready")
    if ready is None or ready.status != "True":
        return "it is not ready"
    restarted = [status for status in _statuses(pod) if count(status, "restartCount")]
    for status in restarted:
        last = mapping(field(status, "lastState", "terminated"))
        wanted = min(_seconds(last.get("startedAt"), last.get("finishedAt")) + STEADY, _LONGEST)
        if _since(field(status, "state", "running", "startedAt"), now) < wanted:
            how = f" ({how_ended(last)})" if last else ""
            return (
                f"container {text(status, 'name')} has restarted{how}, and has not run for "
                f"{wanted:.0f} s since"
            )
    if restarted or _has_probes(pod) or count(workload, "spec", "minReadySeconds"):
        return ""
    if _since(_transition(pod), now) >= STEADY:
        return ""
    return f"it has no readiness probe, and was not ready for {STEADY:.0f} s yet"


def _statuses(pod: Body) -> Iterator[Body]:
    """Yield the statuses of the containers that keep running: sidecars among them."""
    sidecars = {
        text(mapping(one), "name")
        for one in items(pod, "spec", "initContainers")
        if text(mapping(one), "restartPolicy") == "Always"
    }
    yield from map(mapping, items(pod, "status", "containerStatuses"))
    for status in map(mapping, items(pod, "status", "initContainerStatuses")):
        if text(status, "name") in sidecars:
            yield status


def _has_probes(pod: Body) -> bool:
    return all(
        mapping(one).get("readinessProbe") or mapping(one).get("startupProbe")
        for one in items(pod, "spec", "containers")
    )


def _transition(pod: Body) -> object:
    found = (mapping(one) for one in items(pod, "status", "conditions"))
    return next((one.get("lastTransitionTime") for one in found if one.get("type") == "Ready"), "")


def _since(start: object, now: datetime) -> float:
    began = _time(start)
    return 0.0 if began is None else (now - began).total_seconds()


def _seconds(start: object, end: object) -> float:
    """Return how long a run took; as long as counts if that is not known."""
    began, ended = _time(start), _time(end)
    return _LONGEST if began is None or ended is None else (ended - began).total_seconds()


def _time(told: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(told))
    except ValueError:
        return None

"""What happens to the Pods of a workload whose template changes."""

from __future__ import annotations

from collections.abc import Iterator

from applyprune.model.live import count, field
from applyprune.model.options import Propagation
from applyprune.model.plan import Consequence, ConsequenceKind, Fate
from applyprune.planning.consequences.facts import (
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Change,
)
from applyprune.planning.consequences.numbers import counted

WORKLOADS = frozenset({DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICA_SET, REPLICATION_CONTROLLER})
"""The kinds that keep a number of Pods running."""
# They never change the Pods that exist.
_CREATE_ONLY = frozenset({REPLICA_SET, REPLICATION_CONTROLLER})


def pods_of(change: Change) -> int | None:
    """Return how many Pods a live workload asks for; None if it was not read in full."""
    if change.before is None:
        return None
    if change.kind == DAEMON_SET:
        return count(change.before, "status", "desiredNumberScheduled")
    return count(change.before, "spec", "replicas", default=1)


def changes_template(change: Change) -> bool:
    """Return whether the Pod template of a workload changes, or may change."""
    return change.before is not None and change.differs("spec", "template")


def rollout(change: Change, propagation: Propagation) -> Iterator[Consequence]:
    """Yield what happens to the Pods of a workload; nothing if it has none."""
    pods = pods_of(change)
    if change.kind not in WORKLOADS or pods == 0 or change.value("spec", "replicas") == 0:
        return
    if change.fate is Fate.RECREATE and propagation is not Propagation.ORPHAN:
        yield _restart(change, pods)
    elif change.is_changed and pods is not None:
        yield from _changed(change, pods)


def replaces_all(change: Change, caused: Consequence) -> bool:
    """Return whether every Pod of a workload is certain to be replaced."""
    if not caused.certain:
        return False
    if caused.kind is ConsequenceKind.ROLLOUT:
        return caused.count == pods_of(change)
    return caused.kind is ConsequenceKind.RESTART


def _changed(change: Change, pods: int) -> Iterator[Consequence]:
    resumed = _is_resumed(change)
    if not (resumed or changes_template(change)):
        return
    strategy = "strategy" if change.kind == DEPLOYMENT else "updateStrategy"
    way = change.value("spec", strategy, "type")
    if change.kind in _CREATE_ONLY or (way == "OnDelete" and change.kind != DEPLOYMENT):
        yield _later(change, ConsequenceKind.ON_DELETE, pods, "when they are deleted")
    elif change.kind == DEPLOYMENT and change.value("spec", "paused") is True:
        yield _later(change, ConsequenceKind.PAUSED, pods, "when the rollout is resumed")
    elif change.kind == DEPLOYMENT and way == "Recreate":
        yield _restart(change, pods)
    else:
        yield _rollout(change, pods, resumed=resumed)


def _rollout(change: Change, pods: int, *, resumed: bool) -> Consequence:
    partition = 0
    if change.kind == STATEFUL_SET:
        found = change.value("spec", "updateStrategy", "rollingUpdate", "partition")
        partition = found if isinstance(found, int) else 0
    reached = max(0, pods - partition)
    if not reached:
        until = f"when the partition is lowered from {partition}"
        return _later(change, ConsequenceKind.PAUSED, pods, until)
    told = counted("Pod", pods)
    if reached < pods:
        told = f"{reached} of {told} (partition {partition})"
    word = "rollout" if change.certain else "may roll out"
    end = ", no longer paused" if resumed else ""
    return Consequence(
        ConsequenceKind.ROLLOUT,
        change.ref,
        f"{word}, {told}{end}",
        reached,
        certain=change.certain,
    )


def _restart(change: Change, pods: int | None) -> Consequence:
    who = "its Pods" if pods is None else counted("Pod", pods)
    verbs = "stops, then starts" if pods == 1 else "stop, then start"
    if not change.certain:
        verbs = "may stop, then start"
    kind = ConsequenceKind.RESTART
    return Consequence(kind, change.ref, f"{who} {verbs}", pods, certain=change.certain)


def _later(change: Change, kind: ConsequenceKind, pods: int, until: str) -> Consequence:
    verb = "change" if change.certain else "may change"
    if pods == 1:
        verb = "changes" if change.certain else verb
        until = until.replace("they are", "it is")
    message = f"{counted('Pod', pods)} {verb} {until}"
    return Consequence(kind, change.ref, message, pods, certain=change.certain)


def _is_resumed(change: Change) -> bool:
    """Return whether a paused Deployment, with Pods of an older template, continues."""
    before = change.before or {}
    if change.kind != DEPLOYMENT or field(before, "spec", "paused") is not True:
        return False
    is_paused = change.value("spec", "paused") is True and not any(change.removed("spec", "paused"))
    return not is_paused and count(before, "status", "updatedReplicas") < count(
        before, "status", "replicas"
    )

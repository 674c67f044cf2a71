"""Explain why an object is not ready by its Pods, ReplicaSets, events and claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, Status, stuck
from applyprune.model.live import items, mapping, text
from applyprune.planning.readiness.pods import (
    current_pods,
    is_observed,
    pods_problem,
    rejected_pods,
)
from applyprune.planning.readiness.warning_events import last_warnings, refused_creation
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.model.events import WarningEvent
    from applyprune.model.live import LiveObject

if TYPE_CHECKING:
    Body = Mapping[str, Any]

_APPLY = "Apply"
_CLAIM = "persistentVolumeClaim"
_FORBIDDEN = " is forbidden: "


@dataclass(frozen=True, slots=True)
class Related:
    """What was read about one object."""

    pods: Sequence[Body] = ()
    """The Pods that it controls, through its ReplicaSets too."""
    replica_sets: Sequence[Body] = ()
    """The ReplicaSets that it controls."""
    events: Mapping[str, Sequence[Body]] = field(default_factory=dict)
    """The events in its namespace, by the UID of their object."""
    claims: Mapping[str, Body] | None = None
    """The claims of its namespace by name; None if they were not read."""

    def about(self, live: LiveObject) -> Sequence[Body]:
        """Return the events about an object alone, as StatefulSets and Jobs have them."""
        return self.events.get(live.uid, ())


def explained(
    readiness: Readiness, live: LiveObject, related: Related, *, manager: str, waited: float
) -> Readiness:
    """Return the readiness with the problem of its Pods as the reason, if there is one.

    ``manager`` is the set's field manager: what happened before its last apply does not count.
    """
    if readiness.status is not Status.IN_PROGRESS or live.body is None:
        return readiness
    if not is_observed(live.body):
        return readiness  # what is around it is of the earlier generation
    pods = pods_of(live, related)
    problem = pods_problem(pods, waited=waited)
    if problem is None or not (problem.stuck or problem.status is Status.FAILED):
        refused = rejected_pods(live.body, related.replica_sets, waited=waited) or refused_creation(
            related.about(live), waited=waited, since=_applied_at(live, manager)
        )
        if refused:
            # The server has made up another name for the Pod of each try.
            lasting = refused.partition(_FORBIDDEN)[2] or refused
            problem = replace(
                stuck(f"its Pods are rejected: {refused}"),
                lasting_message=f"its Pods are rejected: {lasting}",
            )
    found = problem or readiness
    missing = "; ".join(_missing_claims((live.body, *pods), related))
    if not missing:
        return found
    return replace(
        found, message=f"{found.message}; {missing}", lasting_message=f"{found.fact}; {missing}"
    )


def warnings_about(live: LiveObject, related: Related) -> tuple[WarningEvent, ...]:
    """Return the last warnings about an object, its ReplicaSets and the Pods of its template."""
    bodies = (live.body or {}, *related.replica_sets, *pods_of(live, related))
    events = [
        event for body in bodies for event in related.events.get(text(body, "metadata", "uid"), ())
    ]
    return last_warnings(events)


def pods_of(live: LiveObject, related: Related) -> Sequence[Body]:
    """Return the Pods of an object's current template."""
    return current_pods(live.body or {}, related.pods, related.replica_sets)


def for_wait(readiness: Readiness, *, fail_fast: bool) -> Readiness:
    """Return the readiness that a wait acts on: with ``fail_fast``, what is stuck has failed."""
    if fail_fast and readiness.stuck:
        return replace(readiness, status=Status.FAILED, stuck=False)
    return readiness


def _applied_at(live: LiveObject, manager: str) -> str:
    """Return the time of the set's last apply that changed the object; empty if unknown."""
    return max(
        (
            text(entry, "time")
            for entry in live.managed_fields
            if entry.get("manager") == manager
            and entry.get("operation") == _APPLY
            and not entry.get("subresource")
        ),
        default="",
    )


def mounts_claims(bodies: Sequence[Body]) -> frozenset[str]:
    """Return the claims that the pending Pods among these objects mount."""
    return frozenset(
        text(mapping(volume), _CLAIM, "claimName")
        for body in bodies
        if text(body, "status", "phase") == "Pending" and body.get("kind", "Pod") == "Pod"
        for volume in items(body, "spec", "volumes")
    ) - {""}


def _missing_claims(bodies: Sequence[Body], related: Related) -> Iterator[str]:
    """Yield what is wrong with each claim that a pending Pod mounts."""
    if related.claims is None:
        return
    for name in sorted(mounts_claims(bodies)):
        claim = related.claims.get(name)
        if claim is None:
            yield f"persistentvolumeclaim/{name} does not exist"
        elif (phase := text(claim, "status", "phase") or "Pending") != "Bound":
            yield f"persistentvolumeclaim/{name} is {phase}"

"""Find the HorizontalPodAutoscalers that set the replicas of objects of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.errors import AccessError, ApplypruneError, NotFound, NotServed, as_problem
from applyprune.model.live import AUTOSCALERS, LiveObject
from applyprune.model.plan import ApplyRule, Fate
from applyprune.model.text import and_more
from applyprune.planning.leave import left_entries, objects_to_prune
from applyprune.planning.normalize import (
    autoscalers_in,
    is_scaled,
    may_be_autoscaled,
    with_autoscaler,
)
from applyprune.planning.ownership import is_last_applied
from applyprune.planning.recovery import is_restored
from applyprune.planning.requests import needs_body
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.engine.context import RunContext
    from applyprune.engine.snapshot_reader import SnapshotReader
    from applyprune.model.inventory import Inventory
    from applyprune.model.plan import Desired, Plan
    from applyprune.model.problem import Problem
    from applyprune.planning.desired import Resolved
    from applyprune.planning.recovery import ClusterSnapshot

_SHOWN = 3


def with_autoscalers(
    snapshot: ClusterSnapshot,
    resolved: Resolved,
    inventory: Inventory,
    context: RunContext,
    reader: SnapshotReader,
    *,
    prunes: bool,
) -> ClusterSnapshot:
    """Return the snapshot with the autoscalers of the input and of the cluster.

    Only the namespaces are searched in which somebody has scaled an object of the input, or in
    which an apply may change its replicas. What is left to an autoscaler is read in full. One that
    this run changes counts as in the input. One that has left the input does not count if the run
    ``prunes``.
    """
    off, manager = context.options.apply.no_default_ignore, context.applyset.manager
    desired = resolved.desired
    given = autoscalers_in(desired)
    unread: dict[str, Problem] = {}

    replaced = _replaced(snapshot, resolved)
    pruned: frozenset[str] = frozenset()

    def is_open(member: Desired) -> bool:
        live, entry = snapshot.states[member.ref], inventory.entries.get(member.ref)
        return (
            isinstance(live, LiveObject)
            and may_be_autoscaled(member, off)
            and with_autoscaler(member, given, off) is member
            and (
                is_scaled(live)
                or entry is None
                or not is_last_applied(member, entry, live, manager)
            )
        )

    def listed(namespace: str) -> Sequence[Mapping[str, Any]]:
        try:
            found = context.cluster.list(AUTOSCALERS, namespace=namespace, full=True)
        except (NotFound, NotServed):
            return ()  # nothing scales here
        except ApplypruneError as error:
            unread[namespace] = as_problem(error)
            return ()
        return [live.body for live in found if live.body is not None and live.uid not in passing]

    namespaces = sorted({member.ref.namespace for member in desired if is_open(member)})
    if namespaces and prunes:
        pruned = _pruned(snapshot, resolved, inventory, context)
    passing = replaced | pruned
    scalers = (
        *given,
        *(one for found in context.workers.each(listed, namespaces) for one in found),
    )
    snapshot = replace(
        snapshot, autoscalers=(), unread_autoscalers=unread, pruned_autoscalers=pruned
    )
    if not scalers:
        return snapshot
    states = dict(snapshot.states)
    for member in desired:
        scaled, live = with_autoscaler(member, scalers, off), states[member.ref]
        if scaled is member or not isinstance(live, LiveObject) or live.body is not None:
            continue
        if needs_body(scaled, live, context.applyset):
            states[member.ref] = reader.read_object(member.resource, member.ref, full=True)
    return replace(snapshot, states=states, autoscalers=scalers)


def unread_warning(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Yield one warning for all namespaces whose autoscalers could not be read."""
    if unread := snapshot.unread_autoscalers:
        namespace, cause = min(unread.items())
        yield as_problem(
            AccessError(
                f"the HorizontalPodAutoscalers of {and_more(sorted(unread), _SHOWN)} could not be "
                "read",
                reason=cause.message,
                hint="An autoscaler may set the replicas of these objects, so drift of them is not "
                "set back. To see which does, allow: list horizontalpodautoscalers.autoscaling in "
                f"{namespace}",
            )
        )


def keeps_autoscaler(plan: Plan, snapshot: ClusterSnapshot) -> bool:
    """Return whether a plan does not prune an autoscaler that does not count for that reason."""
    going = {
        step.live.uid
        for step in plan.removals
        if step.fate is Fate.PRUNE and step.live is not None and not plan.no_prune
    }
    return not snapshot.pruned_autoscalers <= going


def _replaced(snapshot: ClusterSnapshot, resolved: Resolved) -> frozenset[str]:
    """Return the UIDs of the autoscalers of the input: its manifests count instead."""
    states = (
        snapshot.states[one.ref]
        for one in resolved.desired
        if one.ref.group_kind == AUTOSCALERS.group_kind and one.apply is ApplyRule.ALWAYS
    )
    return frozenset(state.uid for state in states if isinstance(state, LiveObject))


def _pruned(
    snapshot: ClusterSnapshot, resolved: Resolved, inventory: Inventory, context: RunContext
) -> frozenset[str]:
    """Return the UIDs of the autoscalers that a prune would delete, before any guard."""
    options, desired = context.options, resolved.desired
    if is_restored(inventory, snapshot):
        return frozenset()
    leaving = [
        entry
        for entry in left_entries(desired, inventory, snapshot, options)
        if entry.ref.group_kind == AUTOSCALERS.group_kind
    ]
    found = objects_to_prune(
        leaving, snapshot, context.applyset, options, desired=desired, left_out=resolved.left_out
    )
    return frozenset(live.uid for live in found)

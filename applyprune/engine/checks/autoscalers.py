"""Find the HorizontalPodAutoscalers that set the replicas of objects of the input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from applyprune.errors import ApplypruneError
from applyprune.model.live import LiveObject
from applyprune.model.resources import AUTOSCALERS
from applyprune.planning.ownership.default_rules import (
    autoscalers_in,
    is_scaled,
    may_be_autoscaled,
    with_autoscaler,
)
from applyprune.planning.ownership.owner import is_last_applied
from applyprune.planning.requests import needs_body

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.engine.context import RunContext
    from applyprune.engine.snapshot_reader import SnapshotReader
    from applyprune.model.inventory import Inventory
    from applyprune.model.plan import Desired
    from applyprune.planning.snapshot import ClusterSnapshot


def with_autoscalers(
    snapshot: ClusterSnapshot,
    desired: Sequence[Desired],
    inventory: Inventory,
    context: RunContext,
    reader: SnapshotReader,
) -> ClusterSnapshot:
    """Return the snapshot with the autoscalers of the input and of the cluster.

    Only the namespaces are searched in which somebody has scaled an object of the input, or in
    which an apply may change its replicas. What is left to an autoscaler is read in full. Where
    autoscalers cannot be read, a conflict still shows what they own.
    """
    off, manager = context.options.apply.no_default_ignore, context.applyset.manager
    given = autoscalers_in(desired)

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
        except ApplypruneError:
            return ()
        return [live.body for live in found if live.body is not None]

    namespaces = sorted({member.ref.namespace for member in desired if is_open(member)})
    scalers = (
        *given,
        *(one for found in context.workers.each(listed, namespaces) for one in found),
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

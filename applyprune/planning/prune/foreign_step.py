"""Decide what a removal does with an object that has another set's label."""

from __future__ import annotations

from applyprune.errors import as_problem
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject, Resource
from applyprune.model.plan import Fate, RemoveStep
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.ownership.foreign_label import (
    foreign_label,
    is_label_unproven,
    is_listed_elsewhere,
    unproven_label,
)
from applyprune.planning.snapshot import ClusterSnapshot


def step_of_foreign(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
) -> RemoveStep | None:
    """Decide about an object of ours with another set's label; None for any other object."""
    if not foreign_label(live, applyset):
        return None
    if is_listed_elsewhere(live, snapshot.others):
        reason = "it belongs to another set now"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    if not is_label_unproven(entry, live, snapshot.others, applyset):
        return None
    problem = as_problem(unproven_label(entry.ref, live, snapshot.others, applyset))
    return RemoveStep(entry, resource, Fate.REFUSE, live, problem=problem)

"""Decide how to move each object from one set to another, by its live state.

The label shows the owner at every moment. The new set lists the object before the label changes,
and the old set lists it until the change is done. So after an interrupted move both sets list the
object, and neither set deletes it in its next run. The same command resumes the move.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from applyprune.errors import RunFailed, as_problem
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import (
    Absent,
    KindDeleted,
    LiveObject,
    NotListed,
    Resource,
    State,
    Unknown,
)
from applyprune.model.problem import Problem
from applyprune.planning.applyset import PART_OF, ApplySetIdentity
from applyprune.planning.ownership.foreign_label import (
    OtherSet,
    foreign_label,
    is_label_unproven,
    is_listed_elsewhere,
    unproven_label,
)
from applyprune.planning.ownership.owner import Owner, owner_of
from applyprune.values import dataclass, replace

MOVED = "inventory move"
"""Why a prune deletes no object of the old set that an interrupted move has left there."""


class Move(StrEnum):
    """What to do with one object in a move."""

    HAND_OVER = "hand over"
    DONE = "done"
    REMOVE_FROM_INVENTORY = "remove-from-inventory"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The decision about one object."""

    entry: InventoryEntry
    """The entry for the new set."""
    resource: Resource | None
    """The endpoint; None if the kind is not served."""
    action: Move
    """What to do; DONE means that the object already has the new label."""
    live: LiveObject | None = None
    reason: str = ""
    """Why it is removed from the inventory."""
    problem: Problem | None = None
    """Why it is refused."""


def move_step(
    entry: InventoryEntry,
    resource: Resource | None,
    state: State,
    source: ApplySetIdentity,
    destination: ApplySetIdentity,
    others: Mapping[str, OtherSet],
) -> MoveStep:
    """Decide about one entry of ``source``, by the state of its object.

    ``others`` are the sets of foreign labels.
    """
    if isinstance(state, Absent | KindDeleted):
        reason = state.reason if isinstance(state, KindDeleted) else "it is gone"
        return MoveStep(entry, resource, Move.REMOVE_FROM_INVENTORY, reason=reason)
    if isinstance(state, Unknown) or resource is None:
        problem = state.problem if isinstance(state, Unknown) else None
        problem = problem or _failed(entry, "its kind is not served now")
        return MoveStep(entry, resource, Move.REFUSE, problem=problem)
    if isinstance(state, NotListed):
        problem = _failed(entry, "it is unknown whether it exists")
        return MoveStep(entry, resource, Move.REFUSE, problem=problem)
    listed = replace(entry, uid=state.uid, uid_before_apply=state.uid, digest="", fingerprint=None)
    if entry.orphan_reason == MOVED:  # guard: resumed-move-stays-owned
        listed = replace(listed, orphan_reason="", orphaning=False)
    if owner_of(state, entry, source) is Owner.RECORDED and state.labels.get(PART_OF) == source.id:
        if state.terminating:
            problem = _failed(entry, "it is being deleted")
            return MoveStep(entry, resource, Move.REFUSE, state, problem=problem)
        return MoveStep(listed, resource, Move.HAND_OVER, state)
    if (
        owner_of(state, entry, destination) is Owner.RECORDED
        and state.labels.get(PART_OF) == destination.id
    ):
        return MoveStep(listed, resource, Move.DONE, state)
    if foreign_label(state, source) and is_listed_elsewhere(state, others):
        return MoveStep(
            entry, resource, Move.REMOVE_FROM_INVENTORY, state, "it belongs to a third set now"
        )
    if is_label_unproven(entry, state, others, source):
        problem = as_problem(unproven_label(entry.ref, state, others, source))
    else:
        problem = _failed(
            entry,
            "it is not the listed object, or has lost its label",
            hint=f"See: applyprune inventory check {source.arguments}",
        )
    return MoveStep(entry, resource, Move.REFUSE, state, problem=problem)


def _failed(entry: InventoryEntry, reason: str, *, hint: str = "") -> Problem:
    return as_problem(RunFailed(f"{entry.ref} was not moved", reason=reason, hint=hint))

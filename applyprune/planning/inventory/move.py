"""Handing objects from one set to another: what each one's live state calls for.

The label says whose an object is, at every moment: it is listed by the set that it goes to before
its label changes, and by the set that it leaves until that is done. So a move that was cut off
leaves an object in both lists, and whichever set runs next deletes nothing; the same move again
goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.errors import RunFailed, as_problem
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.planning.applyset import PART_OF
from applyprune.planning.ownership.owner import Owner, owner_of

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import State
    from applyprune.model.problem import Problem
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity


class Move(StrEnum):
    """What is to be done about one object that is to change sets."""

    HAND_OVER = "hand over"
    DONE = "done"
    REMOVE_FROM_INVENTORY = "remove-from-inventory"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One object: HAND_OVER, DONE, REMOVE_FROM_INVENTORY or REFUSE.

    DONE means that it has the new label already. ``entry`` is what the new set is to list.
    """

    entry: InventoryEntry
    resource: Resource | None
    action: Move
    live: LiveObject | None = None
    reason: str = ""
    problem: Problem | None = None


def move_step(
    entry: InventoryEntry,
    resource: Resource | None,
    state: State,
    source: ApplySetIdentity,
    target: ApplySetIdentity,
) -> MoveStep:
    """Decide about one entry of the source, from the state that was read."""
    if isinstance(state, Unknown) or resource is None:
        problem = state.problem if isinstance(state, Unknown) else None
        problem = problem or _failed(entry, "its kind is not served now")
        return MoveStep(entry, resource, Move.REFUSE, problem=problem)
    if isinstance(state, Absent):
        if not state.proven:
            problem = _failed(entry, "it cannot be told whether it exists")
            return MoveStep(entry, resource, Move.REFUSE, problem=problem)
        return MoveStep(entry, resource, Move.REMOVE_FROM_INVENTORY, reason="it is gone")
    listed = replace(entry, uid=state.uid, uid_before_apply=state.uid, digest="", fingerprint=None)
    if owner_of(state, entry, source) is Owner.RECORDED and state.labels.get(PART_OF) == source.id:
        if state.terminating:
            problem = _failed(entry, "it is being deleted")
            return MoveStep(entry, resource, Move.REFUSE, state, problem=problem)
        return MoveStep(listed, resource, Move.HAND_OVER, state)
    if owner_of(state, entry, target) is Owner.RECORDED and state.labels.get(PART_OF) == target.id:
        return MoveStep(listed, resource, Move.DONE, state)
    if owner_of(state, entry, source) is Owner.OTHER:
        return MoveStep(
            entry, resource, Move.REMOVE_FROM_INVENTORY, state, "it belongs to a third set now"
        )
    problem = _failed(
        entry,
        "it is not the object that the set lists, or has lost its label",
        hint=f"What is wrong: applyprune inventory check {source.arguments}",
    )
    return MoveStep(entry, resource, Move.REFUSE, state, problem=problem)


def _failed(entry: InventoryEntry, why: str, *, hint: str = "") -> Problem:
    return as_problem(RunFailed(f"{entry.ref} was not moved", reason=why, hint=hint))

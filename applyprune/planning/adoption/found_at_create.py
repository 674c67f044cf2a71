"""Decide about an object that exists although the run was about to create it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.inventory import Ownership
from applyprune.model.plan import ApplyStep, Fate
from applyprune.planning.adoption.existing import existing_step
from applyprune.planning.ownership.conflicts import is_by_hand
from applyprune.planning.ownership.foreign_label import foreign_label
from applyprune.planning.ownership.owner import Owner, owner_of
from applyprune.planning.replies import created_by_others
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.errors import ApplypruneError
    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.snapshot import ClusterSnapshot

_LATE = "adopted: a controller has created it during this run"


def is_found_at_create(step: ApplyStep, live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether somebody else has created the object that a step was to create.

    It is our own if only the reply to the create is lost.
    """
    is_new = step.live is None
    return is_new and owner_of(live, step.entry, applyset) is not Owner.RECORDED


def found_at_create(
    step: ApplyStep,
    live: LiveObject,
    error: ApplypruneError,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    reviewed: bool,
) -> ApplyStep:
    """Return the step for the object as it exists now, by the rules for any existing object.

    Raises RunFailed if the plan was ``reviewed`` and creates it, or if a person or another applier
    has made it, and no controller: nobody has agreed to take it from them.
    """
    adopts = step.fate is Fate.ADOPT
    if reviewed and not adopts:  # guard: reviewed-create
        raise created_by_others(step.desired) from error
    # Only a plan that has shown the object may make it the set's own.
    adopts_only = replace(options, apply=replace(options.apply, adopt_as=Ownership.ADOPTED))
    found = existing_step(step.desired, None, live, snapshot, applyset, adopts_only)
    if found.problem is not None or found.is_left_alone:
        return found
    if foreign_label(live, applyset) or _is_somebodys(live):  # guard: found-from-controller
        raise created_by_others(step.desired) from error
    return replace(found, reason=step.reason if adopts else _LATE)


def _is_somebodys(live: LiveObject) -> bool:
    """Return whether a person or an applier has written an object, by its field managers."""
    return any(
        entry.get("operation") == "Apply" or is_by_hand(str(entry.get("manager", "")))
        for entry in live.managed_fields
        if not entry.get("subresource")
    )

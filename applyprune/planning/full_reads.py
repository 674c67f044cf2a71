"""What an object that was read in full decides after the plan: drift, and conflicts that show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.plan import OnConflict
from applyprune.planning.conflicts import (
    explain_conflict,
    is_unrecorded,
    may_have_drifted,
    own_options,
    shares_fields,
    unrecorded_conflict,
    visible_conflict,
)
from applyprune.planning.decide import with_drift
from applyprune.planning.ownership import foreign_label
from applyprune.planning.plan import with_new_request
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.errors import Conflict
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.model.plan import ApplyStep
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity


def may_be_drift(step: ApplyStep, applyset: ApplySetIdentity, options: Options) -> bool:
    """Return whether the object of a step is read in full, to decide about its drift.

    It is if it may have drifted, or if another manager owns a field that its manifest sets.
    """
    if own_options(step.desired, options).fails_on_drift:
        return False
    return may_have_drifted(step, applyset.manager) or shares_fields(step, applyset)


def drift_of(
    step: ApplyStep,
    live: LiveObject,
    entry: InventoryEntry | None,
    applyset: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    """Return a step with its drift, and with a forced request where only drift is forced.

    ``live`` was read in full, and ``entry`` is the recorded one.
    """
    known = step.live
    if known is None or live.uid != known.uid:
        return step
    # guard: taken-before-the-revert never
    if foreign_label(live, applyset) != foreign_label(known, applyset):
        return step
    fresh = replace(step, live=live)
    if step.request is not None:
        fresh = with_new_request(step, live, applyset, options)
    return with_drift(fresh, entry, applyset.manager, options)


def may_conflict(step: ApplyStep, applyset: ApplySetIdentity, *, asks_server: bool) -> bool:
    """Return whether the object of a step is read in full, as it may be in conflict.

    What the server has checked is not judged again, and of what has no record it is asked.
    """
    if step.is_checked:
        return False
    return shares_fields(step, applyset) or (not asks_server and is_unrecorded(step))


def conflict_of(
    step: ApplyStep,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    asks_server: bool,
) -> Conflict | None:
    """Return the conflict that shows in an object; ``live`` was read in full."""
    conflict = visible_conflict(replace(step, live=live), applyset)
    if conflict is None and live is not None and not asks_server and is_unrecorded(step):
        conflict = unrecorded_conflict(step, live, None, applyset.manager, options)
    return conflict


def explained(
    error: Conflict,
    step: ApplyStep,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
) -> Problem:
    """Return a conflict as text and as data, with the values of both sides."""
    reverts = _would_revert(step, live, applyset, options)
    return explain_conflict(error, step.desired, live, applyset, reverts=reverts)


def _would_revert(
    step: ApplyStep, live: LiveObject | None, applyset: ApplySetIdentity, options: Options
) -> bool:
    """Return whether what is in conflict would be reverted if drift were."""
    if live is None or step.live is None:
        return False
    if own_options(step.desired, options).reverts_drift:
        return False
    step = replace(step, desired=replace(step.desired, conflicts=OnConflict.REVERT))
    request = with_new_request(step, live, applyset, options).request
    return request is not None and request.force

"""Say of each object of a plan how a run would end for it: the events of a dry run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from applyprune.model.events import ObjectDone, Outcome
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Fate, Plan, RemoveStep
from applyprune.planning.ownership.shared_fields import drifted_fields
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.options import Options

NOT_ASKED = "not checked by the server"
_OUTCOMES = {
    Fate.CREATE: Outcome.CREATED,
    Fate.CHANGE: Outcome.CONFIGURED,
    Fate.ADOPT: Outcome.CONFIGURED,
    Fate.RECREATE: Outcome.RECREATED,
    Fate.LEAVE: Outcome.UNCHANGED,
    Fate.REFUSE: Outcome.FAILED,
}
_OF_REMOVALS = {
    Fate.PRUNE: Outcome.PRUNED,
    Fate.ORPHAN: Outcome.ORPHANED,
    Fate.REMOVE_FROM_INVENTORY: Outcome.REMOVED_FROM_INVENTORY,
    Fate.LEAVE: Outcome.NOT_PRUNED,
    Fate.REFUSE: Outcome.FAILED,
}


def unchecked(plan: Plan) -> Plan:
    """Return a plan that says of everything that would be sent that no server has checked it."""
    return replace(
        plan,
        applies=tuple(
            replace(step, not_checked=NOT_ASKED) if step.request is not None else step
            for step in plan.applies
        ),
        removals=tuple(
            replace(step, not_checked=NOT_ASKED) if step.fate is Fate.PRUNE else step
            for step in plan.removals
        ),
    )


def of_apply(step: ApplyStep) -> ObjectDone:
    """Return how a run would end for an object of the input."""
    outcome = Outcome.SKIPPED if step.is_skipped else _OUTCOMES[step.fate]
    reverts = f"reverts {drifted_fields(step.reverts)}" if step.reverts else ""
    reason = "" if step.problem else step.not_checked or step.reason or reverts
    return ObjectDone(step.desired.ref, outcome, step.desired.origin, reason, step.problem)


def of_removal(step: RemoveStep, options: Options) -> ObjectDone:
    """Return how a run would end for an entry that has left the set."""
    outcome = _OF_REMOVALS[step.fate]
    reason = step.reason
    if step.fate is Fate.PRUNE:
        outcome = Outcome.DELETED if options.mode is Mode.DELETE else Outcome.PRUNED
        reason = ""
        if step.live is not None and step.live.terminating:
            reason = "it is being deleted already"
    if step.problem is not None:
        reason = ""
    return ObjectDone(
        step.entry.ref, outcome, reason=step.not_checked or reason, problem=step.problem
    )


def not_pruned(step: RemoveStep, reason: str) -> ObjectDone:
    """Return the event for an entry that a run does not prune."""
    if step.fate is Fate.REFUSE and step.problem is not None:
        return ObjectDone(step.entry.ref, Outcome.FAILED, problem=step.problem)
    return ObjectDone(step.entry.ref, Outcome.NOT_PRUNED, reason=reason)


def back_in_the_inventory(entry: InventoryEntry, options: Options) -> ObjectDone:
    """Return the event for an unlisted object of the set that the run records again."""
    absent = "not selected" if options.applies_part else "not in the input"
    reason = f"back in the inventory; it is {absent}"
    return ObjectDone(entry.ref, Outcome.NOT_PRUNED, reason=reason)


def forecast(plan: Plan, options: Options) -> Iterator[ObjectDone]:
    """Yield how a run would end for each object, in the order of the run."""
    yield from map(of_apply, plan.applies)
    for entry in plan.recovered:
        yield back_in_the_inventory(entry, options)
    for step in plan.removals:
        if plan.no_prune:
            yield not_pruned(step, plan.no_prune)
        else:
            yield of_removal(step, options)

"""Show how a run would end, from its plan: the events of a dry run and of a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError
from applyprune.model.events import Event, ObjectDiff, ObjectDone, Outcome
from applyprune.model.plan import Fate, Plan, RemoveStep
from applyprune.planning.comparison import diff_of, removal_diff
from applyprune.planning.plan import forecast

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.steps.dry_run import ServerDryRun
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import Problem

NOT_APPLIED = "not everything was applied"


def unanswered(unknown: Iterable[tuple[Ref, Problem]]) -> Iterator[ObjectDone]:
    """Yield a failure for each object of an API group that does not answer."""
    return (ObjectDone(ref, Outcome.FAILED, problem=problem) for ref, problem in unknown)


def preview(
    context: RunContext,
    plan: Plan,
    dry_run: ServerDryRun,
    recorded: Mapping[Ref, InventoryEntry],
    unknown: Iterable[tuple[Ref, Problem]],
) -> Iterator[Event]:
    """Yield how the run would end for each object, with its diff if that was asked for.

    ``dry_run`` has checked the plan, ``recorded`` are the entries of the inventory as read, and
    ``unknown`` the objects of API groups that do not answer.
    """
    diffs: dict[Ref, ObjectDiff] = {}
    if context.options.diff.enabled:
        diffs = {diff.ref: diff for diff in _diffs(context, plan, dry_run, recorded)}
    yield from context.summary.counted(unanswered(unknown))
    for done in forecast(plan, context.options):
        if (diff := diffs.get(done.ref)) is not None:
            yield diff
        yield from context.summary.counted((done,))


def _diffs(
    context: RunContext,
    plan: Plan,
    dry_run: ServerDryRun,
    recorded: Mapping[Ref, InventoryEntry],
) -> Iterator[ObjectDiff]:
    for comparison in dry_run.comparisons.values():
        yield diff_of(comparison, dry_run.rules, recorded, context.applyset.manager)
    leaving = () if plan.no_prune else plan.removals
    pruned = [step for step in leaving if step.fate is Fate.PRUNE]
    for step, live, not_checked in context.workers.each(partial(_before, context), pruned):
        if live is not None:
            yield removal_diff(step, live, not_checked=not_checked)


def _before(context: RunContext, step: RemoveStep) -> tuple[RemoveStep, LiveObject | None, str]:
    """Read an object that would be deleted in full, if that is possible."""
    if step.resource is None or step.live is None:
        return step, None, ""
    try:
        return step, context.cluster.get(step.resource, step.entry.ref, full=True), ""
    except ApplypruneError as error:
        return step, step.live, f"only its metadata could be read: {error.message}"

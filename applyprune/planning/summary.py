"""Summarize a run: how it ended, by the outcomes of its objects, and what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest

from applyprune.errors import (
    ApplypruneError,
    ConflictsFound,
    NotApproved,
    NotReady,
    PlanOutdated,
    PruneRefused,
    RunFailed,
    as_problem,
)
from applyprune.model.events import Finished, Outcome, Pending, Waiting
from applyprune.model.identity import Ref
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import replace

_NAMED = 10


def finished(
    counts: Mapping[Outcome, int],
    problems: Sequence[Problem],
    elapsed: float,
    refusal: Problem | None = None,
    *,
    held: bool = False,
) -> Finished:
    """Return the event that ends a run.

    ``elapsed`` is in seconds; ``refusal`` is the problem that blocked the whole prune, and ``held``
    says that it has also stopped the apply.
    """
    error = verdict(problems, refusal, held=held)
    return Finished(
        counts=dict(counts),
        exit_code=error.exit_code if error else 0,
        elapsed=elapsed,
        problem=as_problem(error) if error else None,
    )


def of_object(problem: Problem) -> Problem:
    """Return an object's problem with the exit code of a run in which nothing else fails."""
    error = verdict((problem,))
    return problem if error is None else replace(problem, exit_code=error.exit_code)


def waiting(reasons: Mapping[Ref, str], what: str, elapsed: float, timeout: float) -> Waiting:
    """Return the event for the objects that a run waits for, with a reason for each.

    There is at least one object; ``what`` is the desired state. Times are in seconds.
    """
    # There may be 100,000 objects, and this is called every second.
    first, *others = nsmallest(_NAMED + 1, reasons)
    named = tuple(Pending(ref, reasons[ref]) for ref in others)
    return Waiting(first, what, elapsed, timeout, reasons[first], named, len(reasons))


def verdict(
    problems: Iterable[Problem], refusal: Problem | None = None, *, held: bool = False
) -> ApplypruneError | None:
    """Return the error for a run's failures; None if there are none.

    ``problems`` are those of single objects; ``refusal`` is that of the whole prune, and ``held``
    says that it has also stopped the apply. There are special exit codes if all failures are
    conflicts, timeouts or refusals.
    """
    problems = tuple(problems)
    kinds = {problem.kind for problem in (*problems, *([refusal] if refusal else []))}
    if not kinds:
        return None
    if kinds <= {ProblemKind.PRUNE_REFUSED, ProblemKind.NOT_APPROVED}:
        return _refused_prune(approvable=ProblemKind.NOT_APPROVED in kinds, held=held)
    if kinds == {ProblemKind.PLAN_OUTDATED}:
        fit = "object no longer fits" if len(problems) == 1 else "objects no longer fit"
        return PlanOutdated(
            f"{len(problems)} {fit} the plan: nothing was written",
            hint="Make the plan again, and review it again.",
        )
    some = f"{len(problems)} of the set's objects"
    if held:
        return _refused_plan(kinds, some, refusal)
    if kinds == {ProblemKind.CONFLICT}:
        return ConflictsFound(f"{some} failed: other field managers own some of their fields")
    if kinds == {ProblemKind.NOT_READY}:
        was = "was" if len(problems) == 1 else "were"
        return NotReady(f"{some} {was} not ready or not deleted before the timeout")
    return RunFailed(f"{some} failed{', and the prune was refused' if refusal else ''}")


def _refused_plan(
    kinds: Collection[ProblemKind], some: str, refusal: Problem | None
) -> ApplypruneError:
    """Return the error for a plan that was refused as a whole."""
    if kinds == {ProblemKind.CONFLICT}:
        return ConflictsFound(f"nothing was changed: other field managers own fields of {some}")
    also = ", and the prune was refused" if refusal else ""
    return RunFailed(f"nothing was changed: {some} cannot be applied as planned{also}")


def _refused_prune(*, approvable: bool, held: bool) -> ApplypruneError:
    """Return the error for a prune that a guard or a missing approval has stopped."""
    if approvable and held:
        return NotApproved("the plan is not approved: nothing was written")
    if approvable:
        return NotApproved("the deletions are not approved: nothing was deleted")
    if held:
        return PruneRefused(
            "the prune was refused: nothing was applied, and nothing was deleted",
            hint="To apply without the prune: --apply-anyway.",
        )
    return PruneRefused("the prune was refused: nothing was deleted")

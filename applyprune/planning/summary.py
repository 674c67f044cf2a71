"""How a run ended, from what became of its objects, and what it waits for meanwhile."""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING

from applyprune.errors import ConflictsFound, NotReady, PruneRefused, RunFailed, as_problem
from applyprune.model.events import Finished, Pending, Waiting
from applyprune.model.problem import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.errors import ApplypruneError
    from applyprune.model.events import Outcome
    from applyprune.model.identity import Ref
    from applyprune.model.problem import Problem

_NAMED = 10


def finished(
    counts: Mapping[Outcome, int],
    problems: Sequence[Problem],
    elapsed: float,
    refusal: Problem | None = None,
) -> Finished:
    """Return the event that ends a run; ``elapsed`` in seconds, ``refusal`` of the whole prune."""
    error = verdict(problems, refusal)
    return Finished(
        counts=dict(counts),
        exit_code=error.exit_code if error else 0,
        elapsed=elapsed,
        problem=as_problem(error) if error else None,
    )


def of_object(problem: Problem) -> Problem:
    """Return the failure of one object with the exit code of a run in which nothing else fails."""
    error = verdict((problem,))
    return problem if error is None else replace(problem, exit_code=error.exit_code)


def waiting(whys: Mapping[Ref, str], what: str, elapsed: float, timeout: float) -> Waiting:
    """Return the event that says that each of ``whys``, at least one, is waited for to be so."""
    # The whole may be 100,000, and this is asked every second.
    first, *others = nsmallest(_NAMED + 1, whys)
    named = tuple(Pending(ref, whys[ref]) for ref in others)
    return Waiting(first, what, elapsed, timeout, whys[first], named, len(whys))


def verdict(problems: Iterable[Problem], refusal: Problem | None = None) -> ApplypruneError | None:
    """Return the error that a run's failures amount to, None when there is none.

    ``problems`` are of an object each, ``refusal`` is of the whole prune. Failures that are all
    conflicts, all time-outs or all refusals have exit codes of their own.
    """
    problems = tuple(problems)
    kinds = {problem.kind for problem in (*problems, *([refusal] if refusal else []))}
    if not kinds:
        return None
    if kinds == {ProblemKind.PRUNE_REFUSED}:
        return PruneRefused("the prune was refused: nothing was deleted")
    some = f"{len(problems)} of the set's objects"
    if kinds == {ProblemKind.CONFLICT}:
        return ConflictsFound(f"{some} failed: other field managers own fields of them")
    if kinds == {ProblemKind.NOT_READY}:
        return NotReady(f"{some} did not become ready, or did not go, in time")
    return RunFailed(f"{some} failed{', and the prune was refused' if refusal else ''}")

"""How a run ended, from what became of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import (
    Conflict,
    ConflictsFound,
    NotReady,
    PruneRefused,
    RunFailed,
    as_problem,
)
from applyprune.model.events import Finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.errors import ApplypruneError
    from applyprune.model.events import Outcome
    from applyprune.model.problems import Problem


def finished(
    counts: Mapping[Outcome, int], problems: Sequence[Problem], elapsed: float
) -> Finished:
    """Return the event that ends a run; ``elapsed`` in seconds."""
    error = verdict(problems)
    return Finished(
        counts=dict(counts),
        exit_code=error.exit_code if error else 0,
        elapsed=elapsed,
        problem=as_problem(error) if error else None,
    )


def verdict(problems: Iterable[Problem]) -> ApplypruneError | None:
    """Return the error that a run's failures amount to, None when there is none.

    Failures that are all conflicts, all time-outs or all refusals have exit codes of their own.
    """
    problems = tuple(problems)
    if not problems:
        return None
    kinds = {problem.kind for problem in problems}
    if kinds == {PruneRefused.__name__}:
        return PruneRefused("the prune was refused: nothing was deleted")
    what = f"{len(problems)} of the set's objects failed"
    if kinds == {Conflict.__name__}:
        return ConflictsFound(what)
    if kinds == {NotReady.__name__}:
        return NotReady(what)
    return RunFailed(what)

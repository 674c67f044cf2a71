"""How a run ended, from what became of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import Conflict, ConflictsFound, NotReady, PruneRefused, RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune.errors import ApplypruneError
    from applyprune.model.problems import Problem


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

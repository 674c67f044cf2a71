"""How a run ended, from what became of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import ConflictsFound, NotReady, PruneRefused, RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune.errors import ApplypruneError
    from applyprune.model.problems import Problem


def verdict(problems: Iterable[Problem], *, refused: str = "") -> ApplypruneError | None:
    """Return the error that a run's failures amount to, None when there is none.

    ``refused`` says why a guard refused the prune. Failed objects outweigh it; failures that are
    all conflicts, or all time-outs, have exit codes of their own.
    """
    problems = tuple(problems)
    if not problems:
        return PruneRefused("nothing was pruned", why=refused) if refused else None
    kinds = {problem.kind for problem in problems}
    what = f"{len(problems)} of the set's objects failed"
    if kinds == {"Conflict"}:
        return ConflictsFound(what)
    if kinds == {"NotReady"}:
        return NotReady(what)
    return RunFailed(what)

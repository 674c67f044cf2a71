"""What the run of one of many sets has come to, in words: for a row of a table of sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from applyprune.model.events import Finished
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import counted
from applyprune.output.plan_text import plan_counts, words_of
from applyprune.planning.guards import WOULD_DELETE
from applyprune.values import pattern

FAILED, REFUSED, INTERRUPTED, NOT_RUN = "failed", "refused", "interrupted", "not run"
_WAS_NOT_RUN = " was not run"
"""How the message of a set ends that waited for one that has failed."""


class Failure(NamedTuple):
    """Why the run of a set has failed or was refused as a whole, or was not made."""

    word: str
    """One of the words above, or what happened instead; then there is no reason."""
    reason: str

    def __str__(self) -> str:
        """Return both."""
        return f"{self.word}: {self.reason}" if self.reason else self.word


class SetResult(Struct, frozen=True):
    """How the run of a set has ended. None of it is about a single object."""

    finished: Finished | None
    mode: Mode = Mode.APPLY
    is_dry: bool = False
    plan: Plan | None = None
    refusal: Problem | None = None
    """Why a guard has refused the whole prune."""
    errors: Sequence[Problem] = ()
    """What has ended the run."""

    def __str__(self) -> str:
        """Return the result: ``2 to update, 1 to prune``, ``refused: …; 2 updated``."""
        if self.finished is None:
            return "not finished"
        counts = {outcome: count for outcome, count in self.finished.counts.items() if count}
        changes, failure = _without(counts, Outcome.UNCHANGED), self.failure
        if failure is None:
            return self._in_words(changes or counts) or "nothing to do"
        if self.refusal is not None:
            # Of a plan that is refused, nothing would be done.
            changes = {} if self.is_dry else _without(changes, Outcome.NOT_PRUNED)
        return "; ".join(filter(None, (str(failure), self._in_words(changes))))

    def _in_words(self, counts: Mapping[Outcome, int]) -> str:
        found = counts_in_words(counts, self.plan, self.mode, dry=self.is_dry)
        return ", ".join(f"{count} {words}" for words, count in found.items())

    @property
    def failure(self) -> Failure | None:
        """Return why the run has failed as a whole; None if it has not, or objects have."""
        if self.errors:
            return self._error(*self.errors)
        if self.refusal is not None:
            return Failure(REFUSED, self._refused(self.refusal))
        ended, objects = self.finished, (Outcome.FAILED, Outcome.SKIPPED)
        if ended is None or ended.problem is None or any(map(ended.counts.get, objects)):
            return None
        return Failure(FAILED, _first_sentence(ended.problem.message))

    def _error(self, first: Problem, *others: Problem) -> Failure:
        more = f" (and {counted(len(others), 'more error')})" if others else ""
        if first.message.endswith(_WAS_NOT_RUN):
            return Failure(NOT_RUN, first.reason)
        if first.kind is ProblemKind.INTERRUPTED:
            return Failure(INTERRUPTED, first.reason)
        said = _first_sentence(first.message)
        declined = first.kind is ProblemKind.DECLINED
        return Failure(said, "") if declined else Failure(FAILED, f"{said}{more}")

    def _refused(self, problem: Problem) -> str:
        """Return what is refused: ``the prune would delete 4 of 6 objects``."""
        what = problem.message.partition(WOULD_DELETE)[2]
        if not what:
            is_short = problem.kind is ProblemKind.PRUNE_REFUSED and problem.reason
            return _first_sentence(problem.reason if is_short else problem.message)
        count, _, rest = what.partition(" ")
        results = self.plan.guards if self.plan is not None else ()
        live = next((found for one in results if (found := _LIVE.search(one.message))), None)
        # What goes with them is not of the set.
        of = f" of {counted(int(live[1]), 'object')}" if live and "," not in rest else f" {rest}"
        return f"the {self.mode.removal} would delete {count}{of}"


_LIVE = pattern(r"the set's (\d+) live object")


def counts_in_words(
    counts: Mapping[Outcome, int], plan: Plan | None, mode: Mode, *, dry: bool
) -> Mapping[str, int]:
    """Return the counts of a run, each by its words; none of them is 0."""
    if dry:
        return plan_counts(counts, plan, mode)
    found = ((outcome, counts.get(outcome, 0)) for outcome in Outcome)
    return {words_of(outcome.text, mode): count for outcome, count in found if count}


def _without(counts: Mapping[Outcome, int], outcome: Outcome) -> dict[Outcome, int]:
    return {one: count for one, count in counts.items() if one is not outcome}


def _first_sentence(text: str) -> str:
    return (text.splitlines() or [""])[0].partition(". ")[0]

"""What a run has come to, in words: for a page, a line of a log, and a row of a table of sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import counted
from applyprune.output.plan_text import plan_counts, words_of
from applyprune.output.report import ObjectReport, RunReport, with_members
from applyprune.planning.guards import WOULD_DELETE

_NO_CHANGES = (Outcome.UNCHANGED, Outcome.NOT_PRUNED, Outcome.SKIPPED, Outcome.FAILED)
_REFUSED = "(refused)"
_REFUSALS = frozenset({ProblemKind.PRUNE_REFUSED, ProblemKind.NOT_APPROVED})
NOT_RUN = "not run: "
"""How the error of a set begins that was not run, because another one has failed."""


def conclusion(report: RunReport) -> str:
    """Return the result of a run: ``web: 2 created, 1 failed in 0.3 s, exit code 3``.

    If nothing is written, it is a forecast: ``web: 2 to create in 0.3 s``. For many sets, that is
    their number and the sum of their counts.
    """
    finished = report.finished
    about = _about(report)
    if finished is None:
        return f"{about}not finished"
    parts = [f"{count} {words}" for words, count in counts_in_words(report).items()]
    different = len(report.mismatches)
    if not parts and different:
        parts = [f"{different} mismatch{'' if different == 1 else 'es'}"]
    is_run = report.key is not None or any(one.started for one in with_members(report))
    if not parts and not is_run and not finished.exit_code:
        parts = ["done"]
    result = ", ".join(parts) or ("nothing done" if finished.exit_code else "nothing to do")
    code = f", exit code {finished.exit_code}" if finished.exit_code else ""
    return f"{about}{result} in {finished.elapsed:.1f} s{code}"


def _about(report: RunReport) -> str:
    name, namespace = report.name
    if report.members:
        return f"{counted(len(report.members), 'set')}: "
    if report.key is not None:
        return f"{name} in namespace {namespace}: "
    return f"{name}: " if name else ""


def counts_in_words(report: RunReport) -> Mapping[str, int]:
    """Return the number of objects by what was done with them, or would be; none of them is 0.

    Many sets are counted together.
    """
    counts = report.finished.counts if report.finished is not None else {}
    if not report.is_dry:
        return {
            words_of(outcome.text, report.mode): count
            for outcome in Outcome
            if (count := counts.get(outcome, 0))
        }
    runs = with_members(report)
    applies = chain.from_iterable(run.plan.applies for run in runs if run.plan is not None)
    words = plan_counts(counts, Plan(tuple(applies), ()), report.mode)
    refused = sum(map(_refused_removals, runs))
    kept = words_of(Outcome.NOT_PRUNED.task, report.mode)
    to_delete = words_of(Outcome.PRUNED.task, report.mode)
    all_words = {
        f"{to_delete} {_REFUSED}": refused,
        **words,
        kept: words.get(kept, 0) - refused,
    }
    return {word: count for word, count in all_words.items() if count > 0}


def _refused_removals(report: RunReport) -> int:
    steps = forecast_steps(report)
    done = [one.result for one in report.objects if one.result is not None]
    return sum(is_refused(steps.get(one.ref), one, report) for one in done)


def forecast_steps(report: RunReport) -> Mapping[Ref, ApplyStep | RemoveStep]:
    """Return the step of each object in the plan of a run that writes nothing."""
    if not report.is_dry or report.plan is None:
        return {}
    return {step.entry.ref: step for step in report.plan.steps}


def is_refused(step: ApplyStep | RemoveStep | None, done: ObjectDone, report: RunReport) -> bool:
    """Return whether only a refusal of the whole prune keeps an object from being pruned."""
    is_doomed = isinstance(step, RemoveStep) and step.is_doomed
    return is_doomed and done.outcome is Outcome.NOT_PRUNED and report.prune_blocked is not None


# One of many sets.


def result_of_set(report: RunReport) -> str:
    """Return what one of many sets has come to: ``2 to update, 1 to prune``, ``failed: …``."""
    if report.finished is None:
        return "not finished"
    words = [f"{count} {word}" for word, count in changes_of(report).items()]
    parts = [", ".join(words), failure_of(report)]
    if result := "; ".join(filter(None, parts)):
        return result
    if report.is_failed:
        return f"failed: exit code {report.exit_code}"
    others = [f"{count} {word}" for word, count in counts_in_words(report).items()]
    return ", ".join(others) or "nothing to do"


def changes_of(report: RunReport) -> Mapping[str, int]:
    """Return the number of objects that are changed, by what is done with them."""
    others = {
        words_of(words, report.mode)
        for outcome in _NO_CHANGES
        for words in (outcome.text, outcome.task)
    }
    counts = counts_in_words(report)
    return {
        words: count
        for words, count in counts.items()
        if words not in others and not words.endswith(_REFUSED)
    }


def failure_of(report: RunReport) -> str:
    """Return why a run was refused or has failed, or was not made; empty if neither."""
    if report.errors:
        first = report.errors[0]
        if first.message.startswith(NOT_RUN):
            return first.message
        return f"failed: {_and_others(first.message, len(report.errors))}"
    failed = [one for one in report.objects if one.problem and one.outcome is not Outcome.SKIPPED]
    blocked, verdict = report.prune_blocked, report.verdict
    if failed:
        kinds = {one.problem.kind for one in failed if one.problem is not None}
        word = "refused" if kinds <= _REFUSALS else "failed"
        return f"{word}: {_and_others(_failure(failed), len(failed))}"
    if blocked is not None:
        return _refusal(blocked, report)
    return f"failed: {verdict.message}" if verdict is not None else ""


def _and_others(message: str, count: int) -> str:
    return f"{message}, and {count - 1} more" if count > 1 else message


def _failure(failed: Sequence[ObjectReport]) -> str:
    """Return the message of the first object, which names it."""
    first = failed[0]
    message = first.problem.message if first.problem is not None else ""
    return message if first.ref.short in message else f"{first.ref.short}: {message}"


def _refusal(blocked: Problem, report: RunReport) -> str:
    removal, what = report.mode.removal, blocked.message.partition(WOULD_DELETE)[2]
    if what:
        return f"refused: the {removal} would delete {what}"
    if blocked.message == f"the {removal} was refused":
        reason = blocked.reason.partition("\n")[0]
        return f"refused: {reason}" if reason else f"refused: the {removal}"
    return f"refused: {blocked.message}"

"""Turn the end of a run into the result of its reconcile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.controller.constants import Reason
from applyprune.controller.result import (
    error_message,
    observation_in,
    reason_of,
    reason_of_exit,
)
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.errors import problems_of
from applyprune.sources.tree import error_of
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.controller.fetching.fetch_task import SourceState
    from applyprune.controller.pending_plan import PendingPlan
    from applyprune.controller.result import RunResult
    from applyprune.errors import ApplypruneError


def failed_result(error: ApplypruneError, run_result: RunResult, revision: str) -> ReconcileResult:
    """Return the result of a run that ended with an error."""
    return ReconcileResult(
        ConditionStatus.NOT_READY,
        reason_of(error),
        error_message(problems_of(error), secret=run_result.secret),
        revision=revision,
        run_result=run_result,
        retries=True,
        observation=observation_in(error),
    )


def ended_result(
    run_result: RunResult, revision: str, pending: PendingPlan | None
) -> ReconcileResult:
    """Return the result of a run that came to its end; ``pending`` is what waits for somebody."""
    total = run_result.total
    objects = f"{total} object{'' if total == 1 else 's'}"
    ended = ReconcileResult(
        ConditionStatus.READY,
        reason_of_exit(run_result.exit_code),
        f"{objects} applied",
        revision=revision,
        run_result=run_result,
    )
    if run_result.exit_code == 0:
        return ended
    ended = replace(ended, ready=ConditionStatus.NOT_READY, pending=pending, retries=True)
    if ended.reason is Reason.PRUNE_REFUSED and pending is not None:
        # It waits for somebody: another try before the interval would change nothing.
        # What would be deleted, why and how is in PruneBlocked, if anything would be.
        short = pending.summary if pending.deletes else pending.message
        told = pending.message if pending.deletes else ""
        return replace(ended, reason=pending.reason, message=short, details=told, retries=False)
    failed = run_result.failed
    details = failed[0].message if failed else run_result.refusal_message
    return replace(ended, message=run_result.summary, details=details)


def with_source_problem(result: ReconcileResult, state: SourceState | None) -> ReconcileResult:
    """Return a result that says so if the source has something new that cannot be used.

    The last good content was applied, or is kept: what is wrong with a source deletes nothing.
    """
    if state is None or result.ready is not ConditionStatus.READY:
        return result
    problems = state.unusable or ((state.problem,) if state.problem is not None else ())
    if not problems:
        return result
    told = error_message(
        problems, secret=result.run_result is not None and result.run_result.secret
    )
    return replace(
        result,
        ready=ConditionStatus.NOT_READY,
        reason=reason_of(error_of(problems[0])),
        message=f"{told}; {result.revision} stays applied",
        # Nobody else tries again to use what was fetched.
        retries=result.retries or bool(state.unusable),
    )

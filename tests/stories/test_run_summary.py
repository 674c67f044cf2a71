"""What a run counts, and the exit codes that its events carry."""

from __future__ import annotations

from applyprune.engine.context import RunSummary
from applyprune.model.events import ObjectDone, Waiting
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.problem import Problem, ProblemKind

REF = Ref("", "ConfigMap", "home", "a")


def test_run_summary_gives_problems_the_exit_code_of_the_run() -> None:
    """A conflict is 4 in the object's event as at the end, whatever the reply's own code is."""
    summary = RunSummary("r")
    failed = ObjectDone(
        REF, Outcome.FAILED, problem=Problem(ProblemKind.CONFLICT, "contended", exit_code=7)
    )
    waiting = Waiting(None, "another run", 0.0, 1.0)
    created = ObjectDone(REF, Outcome.CREATED)
    first, *others = summary.counted((failed, waiting, created))
    assert isinstance(first, ObjectDone)
    assert first.problem is not None
    assert first.problem.exit_code == summary.exit_code == 4
    assert others == [waiting, created]
    assert summary.finished().counts == {Outcome.FAILED: 1, Outcome.CREATED: 1}

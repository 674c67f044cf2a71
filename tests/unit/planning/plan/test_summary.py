"""What a run's failures amount to: the words and the exit code."""

from __future__ import annotations

from itertools import permutations

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.plan import verdict, with_own_exit_code

REFUSAL = Problem(ProblemKind.PRUNE_REFUSED, "the prune was refused: it would delete 8 objects")
UNAPPROVED = Problem(ProblemKind.NOT_APPROVED, "the deletions are not approved")
CASES: dict[str, tuple[tuple[str, ...], Problem | None, int, str]] = {
    "one object": (("Invalid",), None, 3, "1 object failed"),
    "conflicts": (
        ("Conflict", "Conflict"),
        None,
        4,
        "2 objects failed: other field managers own some of their fields",
    ),
    "not in time": (
        ("NotReady",),
        None,
        5,
        "1 object was not ready or not deleted before the timeout",
    ),
    "one object that no longer fits": (
        ("PlanOutdated",),
        None,
        8,
        "1 object no longer fits the plan: nothing was written",
    ),
    "objects that no longer fit": (
        ("PlanOutdated", "PlanOutdated"),
        None,
        8,
        "2 objects no longer fit the plan: nothing was written",
    ),
    "the prune": ((), REFUSAL, 6, "the prune was refused: nothing was deleted"),
    "the prune, for one object": (
        ("PruneRefused",),
        REFUSAL,
        6,
        "the prune was refused: nothing was deleted",
    ),
    "an approval": ((), UNAPPROVED, 6, "the deletions are not approved: nothing was deleted"),
    "an approval, and the prune": (
        ("PruneRefused",),
        UNAPPROVED,
        6,
        "the deletions are not approved: nothing was deleted",
    ),
    "an object, and so the prune": (
        ("Conflict",),
        REFUSAL,
        3,
        "1 object failed, and the prune was refused",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_report_has_its_exit_code(name: str) -> None:
    """A refused prune is no object that failed."""
    kinds, refusal, code, words = CASES[name]
    error = verdict([Problem(ProblemKind(kind), "what") for kind in kinds], refusal)
    assert error is not None
    assert (error.exit_code, error.message) == (code, words)


DRY: dict[str, tuple[tuple[str, ...], Problem | None, str]] = {
    "conflicts": (
        ("Conflict",),
        None,
        "the run would fail: other field managers own fields of 1 object",
    ),
    "a fault": (("Invalid", "Conflict"), None, "the run would fail: 2 objects cannot be applied"),
    "a fault, and the prune": (
        ("Invalid",),
        REFUSAL,
        ("the run would fail: 1 object cannot be applied, and the prune was refused"),
    ),
    "the prune": (
        (),
        REFUSAL,
        "the prune would be refused: nothing would be applied, and nothing would be deleted",
    ),
    "an approval": ((), UNAPPROVED, "the plan is not approved: nothing would be written"),
    "a plan file": (
        ("PlanOutdated",),
        None,
        "1 object no longer fits the plan: nothing would be written",
    ),
}


@pytest.mark.parametrize("name", DRY)
def test_dry_run_says_what_would_be(name: str) -> None:
    """That a diff has changed nothing is no news; read after a conflict, it looks like a result."""
    kinds, refusal, words = DRY[name]
    problems = [Problem(ProblemKind(kind), "what") for kind in kinds]
    error = verdict(problems, refusal, held=True, dry=True)
    assert error is not None
    assert error.message == words
    done = verdict(problems, refusal, held=True)
    assert done is not None
    assert done.exit_code == error.exit_code
    assert "would" not in done.message


def test_report_without_failures_has_no_error() -> None:
    """There is no error."""
    assert verdict([]) is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [("Forbidden", 3), ("InputError", 3), ("Conflict", 4), ("NotReady", 5), ("PruneRefused", 6)],
)
def test_object_problem_has_the_exit_code_of_the_run(kind: str, code: int) -> None:
    """And not that of the reply: a Forbidden alone would be 7, as for a run without access."""
    problem = Problem(ProblemKind(kind), "what", exit_code=7)
    assert with_own_exit_code(problem).exit_code == code
    error = verdict([problem])
    assert error is not None
    assert error.exit_code == code


NOTHING = {
    "deleted": {Outcome.PRUNED, Outcome.DELETED, Outcome.RECREATED},
    "pruned": {Outcome.PRUNED, Outcome.DELETED},
    "written": {one for one in Outcome if one.is_change},
    "changed": {one for one in Outcome if one.is_change},
    "applied": {one for one in Outcome if one.is_change},
}
_OWN = [
    ProblemKind(one)
    for one in ("PruneRefused", "NotApproved", "PlanOutdated", "Conflict", "NotReady", "RunFailed")
]
REFUSALS = [
    (kinds, refusal, held)
    for kinds in [(), *((one,) for one in ProblemKind), *permutations(_OWN, 2)]
    for refusal in (None, REFUSAL, UNAPPROVED)
    for held in (False, True)
]


@pytest.mark.holds("deleted-before-the-refusal", row="pruned-apply")
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("outcome", [one for one in Outcome if one.is_change])
def test_nothing_is_said_to_be_undone_that_was_done(outcome: Outcome, mode: Mode) -> None:
    """Every refusal, after one object was deleted, changed or created."""
    for kinds, refusal, held in REFUSALS:
        problems = [Problem(kind, "what") for kind in kinds]
        error = verdict(problems, refusal, held=held, mode=mode, done={outcome: 1})
        for what, outcomes in NOTHING.items() if error is not None else ():
            assert f"nothing was {what}" not in str(error) or outcome not in outcomes
            more = f"nothing more was {what}"
            assert more not in str(error) or held


def test_refusal_after_a_deletion_is_a_failure_in_part() -> None:
    """Contents appeared in a Namespace while the objects before it were deleted."""
    refused = Problem(ProblemKind.PRUNE_REFUSED, "what")
    error = verdict([refused], mode=Mode.DELETE, done={Outcome.DELETED: 6, Outcome.FAILED: 1})
    assert error is not None
    assert (error.exit_code, error.message) == (
        3,
        "the deletion of 1 object was refused, and 6 were deleted before that",
    )
    assert with_own_exit_code(refused, {Outcome.DELETED: 6}).exit_code == 3
    late = verdict([Problem(ProblemKind.PLAN_OUTDATED, "what")], done={Outcome.UPDATED: 1})
    assert late is not None
    assert (late.exit_code, late.message) == (
        3,
        "1 object no longer fits the plan, and 1 was changed before that",
    )
    recreated = verdict([], REFUSAL, done={Outcome.RECREATED: 1})
    assert recreated is not None
    assert (recreated.exit_code, recreated.message) == (
        6,
        "the prune was refused: nothing was pruned",
    )

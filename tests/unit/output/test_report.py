"""A report of many sets says of the whole what its sets have come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.errors import ApplypruneError, NotReady, PruneRefused, RunFailed
from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectDone,
    Planned,
    PruneBlocked,
    Readiness,
    ReadinessReported,
    Status,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import SetKey
from applyprune.model.inventory import InventoryEntry
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.output.markdown import conclusion
from applyprune.output.report import RunReport, report_of, result_of
from applyprune.values import replace
from tests.support.output.set_streams import (
    API,
    APPLIED,
    DENIED,
    DOCS,
    INVALID,
    NOT_RUN,
    PAY,
    PLANNED,
    REFUSAL,
    REFUSED,
    WEB,
    of_set,
    ref,
    started,
)
from tests.support.planning import desired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.events import Event

DONE = of_set(
    WEB,
    started(WEB),
    ObjectDone(ref(WEB, "a"), Outcome.CREATED),
    Finished({Outcome.CREATED: 1}, 0, 0.1),
)
BLOCKED = of_set(API, started(API), PruneBlocked(REFUSAL), Finished({}, 6, 0.1, REFUSAL))
LATE = Problem(ProblemKind.NOT_READY, "configmap/web-a is not ready", exit_code=5)
WAITED = ReadinessReported(ref(PAY, "a"), Readiness(Status.IN_PROGRESS, "no"), 9.0, LATE)
UNREADY = of_set(PAY, started(PAY), WAITED, Finished({}, 5, 0.1, LATE))
BROKEN = of_set(DOCS, ErrorRaised(INVALID), Finished({}, 2, 0.1))
ERROR = ErrorRaised(Problem(ProblemKind.UNREACHABLE, "nothing answers", exit_code=7))
ODD = Finished({}, 3, 0.1, Problem(ProblemKind.RUN_FAILED, "too slow"))


def ended(*events: Event, code: int = 3) -> RunReport:
    """Return the report of a command over sets that has ended."""
    end = Problem(ProblemKind.RUN_FAILED, "some sets failed") if code else None
    return report_of([*events, Finished({}, code, 0.1, end)])


@pytest.mark.parametrize(
    ("report", "failed", "changed", "problems"),
    [
        (ended(*DONE, code=0), [], ["configmap/web-a"], []),
        (ended(*DONE, *BLOCKED), [API], ["configmap/web-a"], [REFUSAL]),
        (report_of(APPLIED), [API, DOCS, PAY], ["configmap/web-a", "configmap/api-b"], None),
        (report_of(PLANNED), [API], None, [REFUSAL]),
        (ended(*UNREADY, ERROR), [PAY], [], [ERROR.problem, LATE]),
        (ended(*of_set(WEB, started(WEB), ODD)), [WEB], [], []),
    ],
)
def test_report_of_sets_lists_what_all_have_done(
    report: RunReport,
    failed: list[SetKey],
    changed: list[str] | None,
    problems: list[Problem] | None,
) -> None:
    assert report.failed_sets == failed
    assert report.is_failed is bool(failed)
    if changed is not None:
        assert [one.ref.short for one in report.changed] == changed
    if problems is not None:
        assert report.problems == problems


@pytest.mark.parametrize(
    ("events", "error", "message", "notes"),
    [
        (BLOCKED, PruneRefused, "1 of the 1 sets failed: shop/api", [f"shop/api: {REFUSAL}"]),
        ([*DONE, *UNREADY], NotReady, "1 of the 2 sets failed: pay/payments", None),
        ([*BLOCKED, *UNREADY], RunFailed, "2 of the 2 sets failed: shop/api, pay/payments", None),
        ([*BLOCKED, *BROKEN], RunFailed, "2 of the 2 sets failed: shop/api, shop/docs", None),
        ([*BLOCKED, ERROR], RunFailed, "1 of the 1 sets failed: shop/api", None),
        ([*DONE, ERROR], RunFailed, "nothing answers", ["nothing answers"]),
        (of_set(WEB, started(WEB), ODD), RunFailed, "1 of the 1 sets failed: shop/web", []),
        (DONE, RunFailed, "some sets failed", []),
    ],
)
def test_failed_sets_raise_one_error(
    events: Sequence[Event], error: type[ApplypruneError], message: str, notes: list[str] | None
) -> None:
    """Of the one class that all of them have, or else RunFailed; its notes say why, by set."""
    with pytest.raises(ApplypruneError) as caught:
        ended(*events).raise_for_failures()
    assert (type(caught.value), caught.value.message) == (error, message)
    if notes is not None:
        assert getattr(caught.value, "__notes__", []) == notes


def test_sets_without_a_failure_raise_nothing() -> None:
    ended(*DONE, code=0).raise_for_failures()


def test_error_of_many_failed_sets_has_ten_names_and_notes() -> None:
    keys = [SetKey("shop", f"s{number:02}") for number in range(14)]
    events = [event for key in keys for event in of_set(key, ErrorRaised(INVALID), ODD)]
    with pytest.raises(RunFailed, match=r"14 of the 14 sets failed: .*s09 and 4 more") as caught:
        ended(*events).raise_for_failures()
    assert len(caught.value.__notes__) == 10


def test_verdict_of_a_command_is_left_to_its_failed_sets() -> None:
    """Their own events have reported it."""
    assert report_of(APPLIED).verdict is None
    assert ended(*DONE).verdict is not None
    assert ended(*of_set(WEB, started(WEB), ODD)).members[WEB].verdict is not None


def test_mode_of_a_command_is_that_of_its_sets() -> None:
    """And it only shows what another one would do if they do so."""
    deletes = replace(started(WEB, DryRun.SERVER), mode=Mode.DELETE)
    report = ended(*of_set(PAY, ErrorRaised(NOT_RUN)), *of_set(WEB, deletes))
    assert (report.mode, report.is_dry, report.name) == (Mode.DELETE, True, ("", ""))
    assert report.members[PAY].name == ("payments", "pay")


def test_report_of_sets_is_a_table_of_sets() -> None:
    """By folder, in a notebook too."""
    report = report_of(APPLIED)
    assert str(report).splitlines() == [
        "SET        NAMESPACE   INPUT                  RESULT",
        "api        shop        deploy/prod/api        1 created, 1 failed",
        "docs       shop        deploy/prod/docs       failed: no kind",
        f"payments   pay         deploy/prod/payments   not run: {NOT_RUN.reason}",
        "web        shop        deploy/prod/web        1 updated",
        "4 sets: 1 created, 1 updated, 1 failed; exit code 3",
    ]
    assert "<td>deploy/prod/api</td>" in report._repr_html_()
    assert "not finished" in str(report_of(APPLIED[:3]))


# What a set has come to.


NOTHING = Finished({}, 0, 0.1)
DRY = started(API, DryRun.SERVER)
DENIAL = Finished({Outcome.FAILED: 1}, 3, 0.1, DENIED)
CUT = Problem(ProblemKind.INTERRUPTED, "interrupted", reason="nothing was changed", exit_code=130)
DECLINED = Problem(ProblemKind.DECLINED, "nothing was changed", exit_code=1)
UNAPPROVED = Problem(ProblemKind.NOT_APPROVED, "the deletions are not approved: nothing. Ask")
GUARDED = replace(REFUSAL, message="the delete was refused", reason="it has a Namespace")
CASCADING = replace(
    REFUSAL,
    message="the prune was refused: it would delete 3 objects, including 1 cascaded deletion",
)
UPDATED = {Outcome.UPDATED: 2, Outcome.UNCHANGED: 5}
MIXED = {**UPDATED, Outcome.NOT_PRUNED: 4}


@pytest.mark.parametrize(
    ("events", "result"),
    [
        ([], "not finished"),
        ([started(API)], "not finished"),
        ([started(API), NOTHING], "nothing to do"),
        ([started(API), Finished({Outcome.UNCHANGED: 6}, 0, 0.1)], "6 unchanged"),
        ([started(API), Finished(UPDATED, 0, 0.1)], "2 updated"),
        ([DRY, Finished(UPDATED, 0, 0.1)], "2 to update"),
        (
            [DRY, Finished({Outcome.UPDATED: 1, Outcome.PRUNED: 1}, 1, 0.1)],
            "1 to update, 1 to prune",
        ),
        (
            [DRY, Planned(REFUSED), PruneBlocked(REFUSAL), Finished(MIXED, 6, 0.1, REFUSAL)],
            "refused: the prune would delete 4 of 6 objects",
        ),
        (
            [started(API), PruneBlocked(REFUSAL), Finished(MIXED, 6, 0.1, REFUSAL)],
            "refused: the prune would delete 4 objects; 2 updated",
        ),
        (
            [DRY, Planned(REFUSED), PruneBlocked(CASCADING), Finished({}, 6, 0.1, REFUSAL)],
            "refused: the prune would delete 3 objects, including 1 cascaded deletion",
        ),
        ([DRY, PruneBlocked(GUARDED), NOTHING], "refused: it has a Namespace"),
        (
            [DRY, PruneBlocked(UNAPPROVED), NOTHING],
            "refused: the deletions are not approved: nothing",
        ),
        (
            [started(API), ObjectDone(ref(API, "a"), Outcome.FAILED, problem=DENIED), DENIAL],
            "1 failed",
        ),
        ([ErrorRaised(INVALID), NOTHING], "failed: no kind"),
        (
            [ErrorRaised(INVALID), ErrorRaised(INVALID), NOTHING],
            "failed: no kind (and 1 more error)",
        ),
        ([ErrorRaised(NOT_RUN), NOTHING], f"not run: {NOT_RUN.reason}"),
        ([ErrorRaised(CUT), NOTHING], "interrupted: nothing was changed"),
        ([ErrorRaised(DECLINED), NOTHING], "nothing was changed"),
        ([started(API), ODD], "failed: too slow"),
        (
            [started(API), ErrorRaised(INVALID), Finished({Outcome.CREATED: 1}, 2, 0.1)],
            "failed: no kind; 1 created",
        ),
    ],
)
def test_result_of_a_set(events: list[Event], result: str) -> None:
    """In the words of the summary of one, with why it failed as a whole in front of them."""
    report = report_of([*of_set(API, *events), WarningRaised(DENIED)])
    of_api = report.members.get(API, RunReport(key=API))
    assert str(result_of(of_api)) == result


def adopted(*, alters: bool) -> ApplyStep:
    """Return the step that adopts an object."""
    one = desired()
    entry = InventoryEntry(one.ref, "configmaps", "v1", None, "uid")
    return ApplyStep(one, Fate.ADOPT, entry, alters=alters)


def test_counts_of_sets_are_their_sums() -> None:
    """Also of what is adopted, which only the plans say; and of what a refusal keeps."""
    end = Finished({Outcome.UPDATED: 1}, 0, 0.1)
    report = report_of(
        [
            *of_set(
                WEB, started(WEB, DryRun.SERVER), Planned(Plan((adopted(alters=True),), ())), end
            ),
            *of_set(
                PAY, started(PAY, DryRun.SERVER), Planned(Plan((adopted(alters=False),), ())), end
            ),
            Finished({Outcome.UPDATED: 2}, 0, 0.1),
        ]
    )
    assert conclusion(report) == "2 sets: 2 to adopt, 1 changed in 0.1 s"
    assert conclusion(report_of(PLANNED)).startswith("4 sets: 4 to prune (refused), 1 to create, ")
    assert conclusion(report_of(APPLIED[:-1])) == "4 sets: not finished"

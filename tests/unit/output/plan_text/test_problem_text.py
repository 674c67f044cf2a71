"""Errors and warnings on a terminal of so many columns, and in a log."""

from __future__ import annotations

import re

import pytest

from applyprune.model.problem import ManagerConflict, Problem, ProblemKind
from applyprune.output.problem_text import problem_text
from applyprune.output.terminal import rendered

LONG = "the server refuses it because of a reason that takes many words to tell"
OPTIONS = "To allow this: --max-prune 31 --allow-cascade customresourcedefinition/foos.x.io"


@pytest.mark.parametrize(
    ("problem", "width", "lines"),
    [
        (
            Problem(ProblemKind.RUN_FAILED, "what", "a.yaml:3", "why"),
            40,
            ["error: a.yaml:3: what: why"],
        ),
        (
            Problem(ProblemKind.RUN_FAILED, LONG),
            40,
            [
                "error: the server refuses it because of",
                "  a reason that takes many words to tell",
            ],
        ),
        (Problem(ProblemKind.RUN_FAILED, LONG), None, [f"error: {LONG}"]),
        (
            Problem(ProblemKind.RUN_FAILED, "what", hint=OPTIONS),
            40,
            ["error: what", f"  {OPTIONS}"],
        ),
        (
            Problem(ProblemKind.RUN_FAILED, "what", hint=f"Do this or that, {LONG}."),
            40,
            [
                "error: what",
                "  Do this or that, the server refuses it",
                "    because of a reason that takes many",
                "    words to tell.",
            ],
        ),
        (
            Problem(ProblemKind.RUN_FAILED, "what", excerpt=f"  key: {LONG}\n       ^"),
            40,
            ["error: what", f"    key: {LONG}", "         ^"],
        ),
        (Problem(ProblemKind.RUN_FAILED, "a\nerror: b"), None, ["error: a", "  error: b"]),
        (Problem(ProblemKind.RUN_FAILED, ""), 40, ["error: "]),
    ],
)
def test_problem_is_printed_as_lines(problem: Problem, width: int | None, lines: list[str]) -> None:
    """Broken between words; neither the input nor what is to be copied ever is."""
    assert rendered(problem_text("error", problem, width), colour=False).splitlines() == lines


def test_label_is_coloured() -> None:
    """Red or yellow, where colours are shown."""
    assert (
        rendered(problem_text("error", Problem(ProblemKind.RUN_FAILED, "x")), colour=True)
        == "\x1b[31merror:\x1b[0m x"
    )
    assert (
        rendered(problem_text("warning", Problem(ProblemKind.RUN_FAILED, "x")), colour=True)
        == "\x1b[33mwarning:\x1b[0m x"
    )


def test_times_of_writes_in_a_conflict_become_ages() -> None:
    """Those of managers and autoscalers, and never a value that is a time."""
    time = "2001-01-01T00:00:00Z"
    reason = (
        f'.restartedAt: theirs "{time}", owned by kubectl (Update, {time})\n'
        f"    .replicas: owned by x (Update of scale, {time}); a-hpa rewrites it (last {time})"
    )
    conflict = ManagerConflict("kubectl", "Update", "", time, ())
    told = Problem(ProblemKind.CONFLICT, "what", reason=reason, conflicts=(conflict,))
    shown = re.sub(r"\d+d ago", "AGO", rendered(problem_text("error", told), colour=False))
    assert shown.splitlines() == [
        f'error: what: .restartedAt: theirs "{time}", owned by kubectl (Update, AGO)',
        "    .replicas: owned by x (Update of scale, AGO); a-hpa rewrites it (last AGO)",
    ]

"""How faulty fields are told: one by itself, several together, and never a value."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.problem import Mark, ProblemKind
from applyprune.planning.schemas import UNKNOWN, FieldFault, fields_problem
from tests.support.planning import SECRETS, body, desired

NAME = FieldFault(("spec", "imagee"), UNKNOWN, ("image", "ports"))
OTHER = FieldFault(("spec", "zzz"), UNKNOWN, ("image", "ports"))
TEXT = FieldFault(("data", "on"), "expected string, got boolean")
COUNT = FieldFault(("spec", "a.b", 0), "expected integer, got string")
TWICE = FieldFault(("ports", 2), "duplicate of item 0: the same port", twin=("ports", 0))

WORDS: dict[str, tuple[list[FieldFault], str, str]] = {
    "an unknown field": ([NAME], "spec.imagee: unknown field", "Did you mean image?"),
    "of no likeness": ([OTHER], "spec.zzz: unknown field", ""),
    "a wrong type": (
        [TEXT],
        "data.on: expected string, got boolean",
        "Quote it: without quotes, y, no, on, 1.0 and 0x10 are not strings.",
    ),
    "the object itself": ([FieldFault((), "expected map, got list")], "expected map, got list", ""),
    "a duplicate": (
        [TWICE],
        "ports[2]: duplicate of item 0: the same port",
        "Remove the duplicate.",
    ),
    "unknown fields": (
        [NAME, OTHER],
        "2 fields that v1 ConfigMap does not have: spec.imagee, spec.zzz",
        "",
    ),
    "wrong types": ([TEXT, COUNT], "2 fields of the wrong type: data.on, spec[a.b][0]", ""),
    "both": ([NAME, TEXT], "2 unknown fields or wrong types: spec.imagee, data.on", ""),
}


@pytest.mark.parametrize("name", WORDS)
def test_problem_names_what_is_wrong(name: str) -> None:
    """And the object, its place, and what to do."""
    faults, words, hint = WORDS[name]
    problem = fields_problem(desired(), faults)
    assert problem.message == f"configmap/a in namespace home: {words}"
    assert (problem.hint, problem.field) == (hint, faults[0].field)
    assert (problem.kind, problem.exit_code) == (ProblemKind.INVALID, 3)
    assert problem.location == str(problem.origin) == "set.yaml:1"


def test_each_of_several_fields_is_marked() -> None:
    """With its own words; a duplicate is marked beside what it repeats."""
    marks = fields_problem(desired(), [NAME, OTHER, TEXT]).marks
    assert marks == (
        Mark(NAME.field, "Did you mean image?"),
        Mark(OTHER.field, "unknown field"),
        Mark(TEXT.field, "expected string, got boolean"),
    )
    assert fields_problem(desired(), [TEXT]).marks == ()
    assert [mark.field for mark in fields_problem(desired(), [TWICE]).marks] == [
        ("ports", 0),
        ("ports", 2),
    ]


def test_advice_that_fits_all_of_several_is_given_once() -> None:
    """Different advice is in the way."""
    more = FieldFault(("data", "b"), "expected string, got integer")
    assert fields_problem(desired(), [TEXT, more]).hint.startswith("Quote it")
    assert fields_problem(desired(), [TEXT, COUNT]).hint == ""


def test_problem_of_a_secret_has_no_value() -> None:
    """Only names of fields."""
    raw: dict[str, Any] = body(kind="Secret", data={"pin": 4711})
    problem = fields_problem(
        desired(raw, SECRETS), [FieldFault(("data", "pin"), "expected string, got integer")]
    )
    assert "4711" not in repr(problem)

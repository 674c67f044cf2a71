"""The proof that a test can go: what it is computed from."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.mutations.contexts import (
    Place,
    executing,
    is_part_of,
    lines_in_functions,
    only_executed_by,
    statement,
)
from tests.mutations.generic import change, functions, scores
from tests.mutations.guards import ROOT
from tests.mutations.proof import Finding, about_guard, shown
from tests.support.outcomes import Outcome

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "applyprune/clock.py"
SOURCE = """\
@decorator
def first(
    one,
):
    if (
        one
    ):
        return call(
            one,
        )
    try:
        pass
    except OSError:
        pass
"""


@pytest.mark.parametrize(
    ("line", "lines"),
    [(3, (2, 4)), (6, (5, 7)), (9, (8, 10)), (11, (11, 11)), (13, (13, 13)), (14, (14, 14))],
)
def test_marked_line_belongs_to_its_whole_statement(line: int, lines: tuple[int, int]) -> None:
    """Python may report another line of a statement than the one with the mark."""
    found = statement(SOURCE, line)
    assert (found.start, found.stop - 1) == lines


def test_named_tests_are_cases_files_and_folders() -> None:
    """A name that another one begins with is another test."""
    test = "tests/a/test_b.py::test_c[d]"
    for named in (test, "tests/a/test_b.py::test_c", "tests/a/test_b.py", "tests/a/", "tests"):
        assert is_part_of(test, named)
    for named in ("tests/a/test_b.py::test_", "tests/a/test_b.py::test_c[e]", "tests/a/test"):
        assert not is_part_of(test, named)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The coverage of two tests: both run a line; one goes on to the next, one leaves."""
    (first, second, *_) = sorted(lines_in_functions((ROOT / MODULE).read_text(encoding="utf-8")))
    path = tmp_path / "coverage"
    arcs = [(1, -1, 1), (2, -1, first), (2, first, second), (3, -1, first), (3, first, -1)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE file (id, path)")
        connection.execute("CREATE TABLE context (id, context)")
        connection.execute("CREATE TABLE arc (file_id, context_id, fromno, tono)")
        connection.execute("INSERT INTO file VALUES (1, ?)", (f"/anywhere/{MODULE}",))
        contexts = [(1, ""), (2, "t.py::one|run"), (3, "t.py::two|run")]
        connection.executemany("INSERT INTO context VALUES (?, ?)", contexts)
        connection.executemany("INSERT INTO arc VALUES (1, ?, ?, ?)", arcs)
    return path


def test_lines_and_branches_of_one_test_are_told(database: Path) -> None:
    """A line that it shares is none of them; the way from there is."""
    first, second, *_ = sorted(lines_in_functions((ROOT / MODULE).read_text(encoding="utf-8")))
    assert only_executed_by(database, "t.py::one".__eq__) == [Place(MODULE, second)]
    assert only_executed_by(database, "t.py::two".__eq__) == [Place(MODULE, first, -1)]
    assert only_executed_by(database, {"t.py::one", "t.py::two"}.__contains__) == [
        Place(MODULE, first),
        Place(MODULE, second),
    ]
    assert executing(database, MODULE, range(second, second + 1)) == {"t.py::one"}
    assert executing(database, MODULE, range(1, 2)) == set()


def test_neighbouring_lines_are_shown_as_one() -> None:
    """A list of hundreds of lines is no proof that anybody reads."""
    places = [Place("a.py", 1), Place("a.py", 2), Place("a.py", 4), Place("a.py", 4, -1)]
    assert shown(places) == ["a.py:1-2", "a.py:4", "a.py:4 → exit"]


@pytest.mark.parametrize(
    ("named", "killers", "findings"),
    [
        ("t.py::two", ["t.py::one", "t.py::two"], [Finding("held", "a-guard: by t.py::one")]),
        ("t.py::two", ["t.py::two"], [Finding("lost", "a-guard: nothing else holds it")]),
        ("t.py::two", ["t.py::one"], []),
    ],
)
def test_guard_is_held_by_other_killers(
    named: str, killers: list[str], findings: list[Finding]
) -> None:
    """A mark alone proves nothing: the others fail without the guard."""
    assert list(about_guard("a-guard", killers, named.__eq__)) == findings


@pytest.mark.parametrize(
    ("phase", "message", "is_disproved"),
    [
        ("call", "assert 1 == 2", True),
        ("call", "AssertionError: because", True),
        ("call", "Failed: DID NOT RAISE <class 'OSError'>", True),
        ("call", "Failed: Timeout (>240.0s) from pytest-timeout.", False),
        ("call", "NameError: name 'assert ' is not defined", False),
        ("setup", "assert 1 == 2", False),
    ],
)
def test_only_an_assertion_of_the_test_disproves(
    phase: str, message: str, is_disproved: bool
) -> None:
    """An error of the test itself, or of a fixture, proves nothing."""
    assert Outcome("t.py::one", phase, "failed", message, "").is_disproved is is_disproved


def test_score_counts_noticed_changes_by_module() -> None:
    """A change that a test notices by hanging is noticed too."""
    ended = {
        "a.b.x_f__mutmut_1": "killed",
        "a.b.x_f__mutmut_2": "survived",
        "a.c.xǁOneǁf__mutmut_1": "timeout",
        "a.c.xǁOneǁf__mutmut_2": "no tests",
    }
    assert scores(ended).splitlines() == [
        "     1 of      2  a.b",
        "     1 of      2  a.c",
        "     2 of      4  noticed: 50.0 % (1 killed, 1 no tests, 1 survived, 1 timeout)",
    ]


def test_change_shows_the_lines_that_differ() -> None:
    """The names of the two functions are no difference."""
    source = """
class One:
    def xǁOneǁf__mutmut_orig(self):
        a = 1
        return a
    def xǁOneǁf__mutmut_1(self):
        a = 2
        return a
"""
    shown_change = change(functions(source), "xǁOneǁf__mutmut_1")
    assert shown_change.splitlines() == ["    -     a = 1", "    +     a = 2"]

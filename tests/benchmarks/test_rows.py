"""Verdicts, failed programs and chains of requests, from made-up figures: nothing is timed here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.jobs.sets import wrong
from tests.benchmarks.jobs.slow_link import longest_chain
from tests.benchmarks.measuring.processes import Cost
from tests.benchmarks.measuring.requests import Requests, requests_by
from tests.benchmarks.peers.calls import Call
from tests.benchmarks.report import Report, exit_code, from_json, seconds, text, to_json
from tests.benchmarks.rows import (
    Limit,
    Measured,
    Metric,
    Outcome,
    Ratio,
    Results,
    Row,
    Sample,
    Step,
    Subject,
    Work,
)
from tests.benchmarks.targets import ROWS, chosen
from tests.benchmarks.workload import KINDS, change, halve, objects_of_kinds, write_manifests

if TYPE_CHECKING:
    from pathlib import Path

OURS, KUBECTL, KAPP = Subject.OURS, Subject.KUBECTL, Subject.KAPP
WORK = Work(rounds=5, quick=1, objects=10, namespaces=1)
ROW = Row(
    "again",
    "again",
    WORK,
    (OURS, KUBECTL, KAPP),
    (Ratio(OURS, KUBECTL, at_least=2.0), Limit(OURS, Metric.WRITES, 0, "no write")),
    Step.AGAIN,
)


def measured(*times: float, failure: str = "", writes: int = 0) -> Measured:
    """Return a sample for each time."""
    samples = [Sample(one, 0.1, 50_000_000, 10, writes) for one in times]
    return Measured(samples, failure)


def report(results: Results) -> Report:
    """Return a report of these results on some machine."""
    machine = {"cores": 2, "system": "Linux x86_64", "load": "0.1", "date": "2026-11-25"}
    return Report(machine, {"applyprune": "0.1.0"}, results, [("json", 1.5)])


@pytest.mark.parametrize(
    ("ours", "theirs", "value", "outcome"),
    [
        ((1.0, 9.0, 1.0), (2.0, 2.0, 0.1), 2.0, Outcome.REACHED),
        ((1.0,), (1.99,), 1.99, Outcome.MISSED),
        ((), (2.0,), None, Outcome.NOT_JUDGED),
    ],
)
def test_ratio_of_medians_decides(
    ours: tuple[float, ...], theirs: tuple[float, ...], value: float | None, outcome: Outcome
) -> None:
    results = {("again", OURS): measured(*ours), ("again", KUBECTL): measured(*theirs)}
    verdict = Ratio(OURS, KUBECTL, at_least=2.0).judge("again", results)
    assert (verdict.value, verdict.outcome) == (value, outcome)
    assert verdict.target == "≥ 2 × as fast as kubectl"


@pytest.mark.parametrize(("ours", "is_reached"), [(1.1, True), (1.12, False)])
def test_ratio_at_most_compares_with_another_row(*, ours: float, is_reached: bool) -> None:
    results = {("changed", OURS): measured(ours), ("again", OURS): measured(1.0)}
    verdict = Ratio(OURS, OURS, at_most=1.1, row="again").judge("changed", results)
    assert (verdict.outcome is Outcome.REACHED) == is_reached
    assert verdict.value == pytest.approx(ours)


def test_limit_of_a_count_is_for_every_round() -> None:
    results = {("again", OURS): Measured([*measured(1.0, 1.0).samples, Sample(1.0, writes=1)])}
    limit = Limit(OURS, Metric.WRITES, 0, "no write")
    assert limit.judge("again", results).outcome is Outcome.MISSED


def test_limit_without_a_figure_is_not_judged() -> None:
    """Zero would have reached it."""
    results = {("again", OURS): Measured([Sample(1.0)])}
    limit = Limit(OURS, Metric.CPU, 0.25, "≤ 0.25 s of CPU")
    assert limit.judge("again", results).outcome is Outcome.NOT_JUDGED


def test_failed_peer_is_shown_as_failed_and_never_as_fast() -> None:
    results = {
        ("again", OURS): measured(1.0),
        ("again", KUBECTL): measured(3.0),
        ("again", KAPP): measured(0.001, failure="exit code 1: no such app"),
    }
    shown = text(report(results), [ROW])
    lines = [one.split() for one in shown.splitlines() if one.split()[:1] == ["kapp"]]
    assert [" ".join(line) for line in lines] == [
        "kapp failed",
        "kapp failed exit code 1: no such app",
    ]
    verdict = Ratio(OURS, KAPP, at_least=4.0).judge("again", results)
    assert verdict.outcome is Outcome.NOT_JUDGED
    assert exit_code(report(results), [ROW]) == 0


@pytest.mark.parametrize(
    ("ours", "kubectl", "code"),
    [
        (measured(1.0), measured(3.0), 0),
        (measured(2.0), measured(3.0), 1),
        (measured(1.0, writes=1), measured(3.0), 1),
        (measured(1.0), measured(3.0, failure="exit code 1"), 1),
        (measured(1.0, failure="exit code 1"), measured(3.0), 1),
    ],
    ids=["reached", "missed", "limit", "kubectl-failed", "ours-failed"],
)
def test_exit_code_is_one_unless_all_is_well(ours: Measured, kubectl: Measured, code: int) -> None:
    results = {("again", OURS): ours, ("again", KUBECTL): kubectl}
    assert exit_code(report(results), [ROW]) == code


def test_json_has_everything_that_was_measured() -> None:
    name = ROWS[0].name
    results = {(name, OURS): measured(1.0, 2.0), (name, Subject.FLOOR): measured(failure="gone")}
    before = report(results)
    written = json.loads(json.dumps(to_json(before, ROWS)))
    assert from_json(written) == before
    assert [one["outcome"] for one in written["rows"][name]["verdicts"]] == ["not judged"]


@pytest.mark.parametrize(
    ("cost", "is_wrong"),
    [
        (Cost(0, 1.0, 1.0, 1, "Succeeded"), False),
        (Cost(1, 1.0, 1.0, 1, "Succeeded"), True),
        (Cost(0, 1.0, 1.0, 1, "Nothing"), True),
    ],
)
def test_success_is_an_exit_code_and_what_it_says(*, cost: Cost, is_wrong: bool) -> None:
    assert bool(wrong(Call(("x",), says="Succeeded"), cost)) == is_wrong


@pytest.mark.parametrize(
    ("intervals", "longest"),
    [
        ([], 0),
        ([(0, 1), (0, 1), (0, 2)], 1),
        ([(0, 1), (1, 2), (2, 3)], 3),
        ([(0, 9), (1, 2), (3, 4), (3, 8), (5, 6)], 3),
    ],
)
def test_longest_chain_counts_requests_that_waited(
    intervals: list[tuple[float, float]], longest: int
) -> None:
    assert longest_chain(intervals) == longest


def test_requests_are_those_of_the_program_and_dry_runs_are_no_writes() -> None:
    def event(agent: str, verb: str, path: str, stage: str = "ResponseComplete") -> dict[str, str]:
        return {"userAgent": agent, "verb": verb, "requestURI": path, "stage": stage}

    events = [
        event("kapp/v1", "patch", "/a"),
        event("kapp/v1", "patch", "/a?dryRun=All"),
        event("kapp/v1", "watch", "/a", "ResponseStarted"),
        event("kapp/v1", "watch", "/a"),
        event("kapply/v1", "patch", "/a"),
    ]
    assert requests_by("kapp/", events) == Requests(total=3, writes=1)


def test_rows_have_names_of_their_own_and_what_they_compare_with() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert {target.needs for row in ROWS for target in row.targets} - {""} <= set(names)
    assert {row.name for row in chosen(("changed-1000",), quick=False)} == {
        "again-1000",
        "changed-1000",
    }
    assert all(row.work.quick for row in chosen((), quick=True))


@pytest.mark.parametrize("row", [row for row in ROWS if row.targets], ids=lambda row: row.name)
def test_targets_are_about_programs_that_the_row_runs(row: Row) -> None:
    """A target about any other would never be judged."""
    by_name = {one.name: one for one in ROWS}
    for target in row.targets:
        assert target.subject in row.subjects
        if isinstance(target, Ratio):
            assert target.other in by_name[target.row or row.name].subjects
            assert bool(target.at_most) != bool(target.at_least)


def test_workload_has_as_many_objects_as_it_says(tmp_path: Path) -> None:
    write_manifests(tmp_path / "all", 200, "n", 2)
    assert _objects(tmp_path / "all") == 200
    counts = objects_of_kinds(200, 2)
    assert set(counts) == set(KINDS)
    assert sum(counts.values()) == 200
    assert change(tmp_path / "all") == 2
    assert halve(tmp_path / "all", tmp_path / "removed") == 100
    assert (_objects(tmp_path / "all"), _objects(tmp_path / "removed")) == (100, 100)
    kept = [path.read_text() for path in (tmp_path / "all").glob("*.yaml")]
    assert all("LOG_LEVEL: debug" in one and "kind: Namespace" in one for one in kept)


def _objects(folder: Path) -> int:
    return sum(path.read_text().count("apiVersion: ") for path in folder.glob("*.yaml"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0424, "42 ms"), (0.667, "0.67 s"), (0.999, "1.0 s"), (4.04, "4.0 s"), (138.2, "138 s")],
)
def test_seconds_have_two_digits(value: float, shown: str) -> None:
    assert seconds(value) == shown

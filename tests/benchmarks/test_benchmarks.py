"""What would be wrong in every figure, and what nobody would see in one: nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks.costs import cost_of
from tests.benchmarks.programs import CALLS
from tests.benchmarks.requests import count
from tests.benchmarks.rows import (
    HELMFILE,
    KAPP,
    KUBECTL,
    LOOP,
    OURS,
    ROWS,
    Measured,
    Results,
    Target,
)
from tests.benchmarks.sets import longest_chain
from tests.benchmarks.tables import Report, text
from tests.benchmarks.workload import texts_of_sets
from tests.support.source_text import values

if TYPE_CHECKING:
    from pathlib import Path

NO_WRITE = Target("writes", 0, "nothing changes")
TWICE = Target("seconds", 2, "many connections", KUBECTL)
MORE = Target("seconds", 0.3, "files are read twice", KUBECTL, adds=True)


def measured(*times: float, failure: str = "", **more: float) -> Measured:
    """Return a sample for each time."""
    return Measured([{"seconds": one, **more} for one in times], failure)


def report(results: dict[str, Measured]) -> Report:
    """Return a report of what programs have cost in one row."""
    machine = {"cores": "2", "system": "Linux x86_64", "load": "0.1"}
    return Report(machine, {"applyprune": "0.1.0"}, {"again-1000": results})


@pytest.mark.parametrize(
    ("target", "ours", "kubectl", "value"),
    [
        (TWICE, measured(1.0, 9.0, 1.5), measured(1.0, 1.0, 0.1), 1.5),
        (TWICE, measured(1.0), measured(1.0, failure="exit code 1"), None),
        (TWICE, measured(), measured(1.0), None),
        (MORE, measured(1.5), measured(1.25), 0.25),
        (MORE, measured(1.0), measured(1.25), 0),
        (MORE, measured(1.0), measured(), None),
        (NO_WRITE, Measured([{"writes": 0}, {"writes": 1}]), measured(), 1),
        (NO_WRITE, measured(1.0), measured(1.0, writes=0), None),
        (NO_WRITE, measured(1.0, writes=0, failure="exit code 1"), measured(), None),
    ],
    ids=[
        "medians",
        "failed-peer",
        "nothing",
        "more",
        "less",
        "more-than-nothing",
        "one-round-of-two",
        "no-figure",
        "failed",
    ],
)
def test_target_judges_what_was_measured_and_nothing_else(
    target: Target, ours: Measured, kubectl: Measured, value: float | None
) -> None:
    results: Results = {"again-1000": {OURS: ours, KUBECTL: kubectl}}
    assert target.value("again-1000", results) == value


def test_failed_program_is_never_fast() -> None:
    peer = report({OURS: measured(1.0), KAPP: measured(0.001, failure="no such app")})
    lines = [line.split() for line in text(peer).splitlines() if "kapp" in line]
    assert lines == [["kapp", "failed"]]
    assert peer.failures == []
    assert report({OURS: measured(1.0), HELMFILE: measured(failure="no Helm")}).failures == []
    assert report({OURS: measured(1.0, failure="exit code 1")}).failures


def test_targets_are_about_what_is_measured() -> None:
    """Any other would never be judged."""
    rows = {row.name: row for row in ROWS}
    assert len(rows) == len(ROWS)
    for row in ROWS:
        for target in row.targets:
            assert target.program in row.programs
            assert target.beside in {"", *rows[target.row or row.name].programs}


def test_requests_are_counted_once_and_dry_runs_are_no_writes() -> None:
    def event(verb: str, path: str, stage: str = "ResponseComplete", **body: Any) -> dict[str, Any]:
        return {"verb": verb, "requestURI": path, "stage": stage, "requestObject": body}

    found = count(
        [
            event("patch", "/a"),
            event("patch", "/a?dryRun=All"),
            event("delete", "/a", dryRun=["All"]),
            event("create", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
            event("watch", "/a", "ResponseStarted"),
            event("watch", "/a"),
        ]
    )
    assert (found["requests"], found["writes"], found["watches"]) == (5, 1, 1)


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


def test_memory_is_that_of_the_largest_process_and_not_of_the_benchmark() -> None:
    def memory(program: str) -> float:
        cost = cost_of((sys.executable, "-S", "-c", program), {})
        assert (cost.code, cost.problem()) == (0, "")
        return cost.figures["memory"]

    held = b"x" * 200_000_000
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = b\"x\" * 10**8'])"
    assert 1 < memory("") < 100 < memory(child) < len(held) / 1e6
    assert cost_of(("/nonexistent/program",), {}).code == 127


def test_new_figures_join_those_of_the_same_programs() -> None:
    """A peer that only one run had is another program beside them, and no other version."""
    before = report({OURS: measured(1.0)})
    now = Report(before.machine, {**before.versions, "helmfile": "v1.8.0"}, {"help": {}})
    assert before.updated(now).results == before.results | {"help": {}}
    assert before.updated(now).versions == now.versions == now.updated(before).versions
    newer = Report(before.machine, {"applyprune": "0.2.0"}, {"help": {}})
    assert before.updated(newer) == newer
    elsewhere = Report({**before.machine, "cores": "8"}, before.versions, {"help": {}})
    assert before.updated(elsewhere) == elsewhere


def test_many_sets_have_different_objects_of_the_same_kinds() -> None:
    sets = dict(texts_of_sets(80, 640, "set", 4))
    bodies = [(name, body) for name, text in sets.items() for body in values(text) or ()]
    assert (len(sets), len(bodies)) == (80, 640)
    places = {
        (one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]) for _, one in bodies
    }
    assert len(places) == 640
    kinds = {tuple(one["kind"] for owner, one in bodies if owner == name) for name in sets}
    assert len(kinds) == 1
    assert len({one["metadata"]["namespace"] for _, one in bodies}) == 4


def test_loop_runs_a_command_in_each_folder_until_one_fails(tmp_path: Path) -> None:
    """Or a set that has failed would count as a fast one."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code").write_text("0")
    script = CALLS[LOOP]["apply"].words.split()[0]
    step = 'pwd; exit "$(cat code)"'

    def run() -> tuple[int, list[str]]:
        command = ["/bin/sh", script, str(tmp_path), "/bin/sh", "-c", step]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, [line.rpartition("/")[2] for line in done.stdout.splitlines()]

    assert run() == (0, ["a", "b", "c"])
    (tmp_path / "b" / "code").write_text("3")
    assert run() == (3, ["a", "b"])

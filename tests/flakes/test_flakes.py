"""The tool that finds tests which fail on a busy machine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.flakes.__main__ import burners, changed_test_files, failures, told
from tests.support.outcomes import Outcome

if TYPE_CHECKING:
    from pathlib import Path


def _outcome(test: str, outcome: str, last_lines: str = "", phase: str = "call") -> Outcome:
    return Outcome(test, phase, outcome, "", last_lines)


RUNS = [
    [_outcome("a.py::one", "passed"), _outcome("a.py::two[x]", "failed", "E   assert 1 == 2")],
    [_outcome("a.py::one", "passed"), _outcome("a.py::two[x]", "passed")],
    [
        _outcome("a.py::one", "skipped"),
        _outcome("a.py::two[x]", "failed", "E   assert 1 == 3"),
        _outcome("a.py::two[x]", "failed", "E   OSError", phase="teardown"),
    ],
]


def test_report_names_each_failed_test_and_the_end_of_its_last_failure() -> None:
    """A test counts once a run, by its own failure rather than that of a fixture after it."""
    assert told(RUNS) == (
        "\na.py::two[x]: failed in 2 of 3 runs\n    E   assert 1 == 3\n"
        "\n2 tests, 3 runs: 1 failed at least once.\n"
    )


def test_runs_without_failures_name_nothing() -> None:
    """A skipped test has not failed."""
    assert failures([RUNS[1]]) == {}
    assert told([RUNS[1]]) == "\n2 tests, 1 runs: 0 failed at least once.\n"


def test_changed_files_are_committed_edited_or_new_tests(tmp_path: Path) -> None:
    """No deleted file, no support file, and none that only ``main`` has changed."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, capture_output=True, check=True)

    def write(name: str, text: str) -> None:
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(name: str, text: str) -> None:
        write(name, text)
        git("add", ".")
        git("commit", "--message", name)

    git("init", "--initial-branch", "main")
    for name in ("test_edited.py", "test_gone.py", "test_same.py", "test_on_main.py"):
        commit(name, "")
    git("switch", "--create", "branch")
    assert changed_test_files(tmp_path) == []
    commit("deep/test_committed.py", "")
    write("test_edited.py", "changed")
    write("test_new.py", "")
    write("support.py", "")
    (tmp_path / "tests" / "test_gone.py").unlink()
    git("switch", "--quiet", "main")
    git("commit", "--allow-empty", "--message", "main goes on")
    git("switch", "--quiet", "branch")
    assert changed_test_files(tmp_path) == [
        "tests/deep/test_committed.py",
        "tests/test_edited.py",
        "tests/test_new.py",
    ]


def test_burner_ends_with_the_process_that_started_it() -> None:
    """A killed process closes its end of the pipe, and cannot do anything else."""
    with burners(1) as (burner,):
        assert burner.poll() is None
        assert burner.stdin is not None
        burner.stdin.close()
        assert burner.wait() == 0

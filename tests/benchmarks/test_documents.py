"""The tables of docs/comparison.md and docs/benchmarks.md come from ``docs/benchmarks.json``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.documents import (
    FILE,
    SHORT,
    markdown,
    short_table,
    together,
    whole_table,
)
from tests.benchmarks.report import Report
from tests.benchmarks.rows import Measured, Sample, Subject
from tests.docs.pages import page

if TYPE_CHECKING:
    from pathlib import Path

REPORT = Report(
    {"cores": 2, "system": "Linux x86_64", "load": "0.1"},
    {"applyprune": "0.1.0", "kapp": "v0.66.0"},
    {
        ("first-1000", Subject.OURS): Measured([Sample(2.4), Sample(2.2), Sample(9.0)]),
        ("first-1000", Subject.KUBECTL): Measured([Sample(4.0)]),
        ("first-1000", Subject.KAPP): Measured([Sample(0.01)], "exit code 1"),
        ("again-10", Subject.OURS): Measured([Sample(0.34)]),
    },
)


def test_docs_have_the_tables_of_the_stored_figures() -> None:
    assert short_table() in page("docs/comparison.md").text
    assert whole_table() in page("docs/benchmarks.md").text
    assert len(short_table().splitlines()) == len(SHORT) + 2


def test_table_has_medians_machine_and_versions_and_names_what_failed() -> None:
    head = "| 2 cores, Linux x86_64: applyprune 0.1.0, kapp v0.66.0 | applyprune | kubectl | kapp |"
    assert markdown(REPORT, SHORT).splitlines() == [
        head,
        "|---|---|---|---|",
        "| 1,000 objects, first time | 2.4 s | 4.0 s | failed |",
        "| 10 objects, nothing changed | 0.34 s |  |  |",
    ]


def test_part_of_a_run_does_not_replace_the_figures(tmp_path: Path) -> None:
    before = FILE.read_text()
    (tmp_path / "part.json").write_text(json.dumps({"rows": {"first-10": {}}}))
    reply = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.documents", tmp_path / "part.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 1
    assert "is not of a whole run" in reply.stderr
    assert FILE.read_text() == before


def _run(path: Path, *rows: str, version: str = "0.1.0") -> str:
    about = {"machine": {"cores": 2, "system": "Linux"}, "versions": {"applyprune": version}}
    path.write_text(json.dumps({**about, "rows": dict.fromkeys(rows, path.name)}))
    return str(path)


def test_rows_of_several_runs_are_shown_together(tmp_path: Path) -> None:
    """The first file has the last word about a row that both have."""
    short = _run(tmp_path / "short.json", *(name for name, _ in SHORT))
    long = _run(tmp_path / "long.json", "again-10", "again-10000")
    rows = together([short, long])["rows"]
    assert (rows["again-10"], rows["again-10000"]) == ("short.json", "long.json")


def test_runs_of_other_versions_are_not_shown_together(tmp_path: Path) -> None:
    short = _run(tmp_path / "short.json", *(name for name, _ in SHORT))
    other = _run(tmp_path / "other.json", "again-10000", version="0.2.0")
    with pytest.raises(ValueError, match=r"other.json is of another machine, or of other versions"):
        together([short, other])

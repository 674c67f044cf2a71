"""A pytest plugin that writes how each test ended: ``-p tests.support.outcomes --outcomes FILE``.

Each line is the JSON of one outcome, written at once: a run that is killed leaves what it knew.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

# The test's own assertion must fail: not the test's code, not an import.
DISPROVED = r"assert |AssertionError|Failed: DID NOT RAISE"
"""How the message of such a failure begins."""
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended, or a file that could not be read."""

    test: str
    phase: str
    outcome: str
    message: str
    last_lines: str

    @property
    def has_failed(self) -> bool:
        """Whether the test failed, in whatever way."""
        return self.outcome == "failed"

    @property
    def is_disproved(self) -> bool:
        """Whether an assertion of the test failed."""
        return self.has_failed and self.phase == "call" and bool(re.match(DISPROVED, self.message))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--outcomes``."""
    parser.addoption("--outcomes", type=Path, help="write the outcome of each test to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Write in the main process only: a worker of pytest-xdist tells it what happens."""
    path = config.getoption("--outcomes")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(path))


class _Writer:
    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._write(report, report.when)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report, "collect")

    def _write(self, report: pytest.TestReport | pytest.CollectReport, phase: str) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash is not None else ""
        last_lines = "\n".join(report.longreprtext.splitlines()[-_SHOWN_LINES:])
        outcome = Outcome(report.nodeid, phase, report.outcome, message, last_lines)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(outcome))}\n")


def read_outcomes(path: Path) -> list[Outcome]:
    """Return what a run has written; nothing if it did not come to a test."""
    if not path.exists():
        return []
    return list(_outcomes(path.read_text(encoding="utf-8").splitlines()))


def _outcomes(lines: Iterable[str]) -> Iterable[Outcome]:
    for line in lines:
        yield Outcome(**json.loads(line))

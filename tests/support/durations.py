"""How long each file of tests takes: what takes long comes first, so that nothing waits for it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

RECORD = Path(__file__).parents[1] / "durations.json"
"""Seconds of each file that takes more than one, as ``pytest --record-durations`` has seen them."""
_LEAST = 1.0


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the recorded time of their folder, and in it by that of their file.

    The files of a folder are neighbours: a process keeps the control planes of one folder only.
    """
    seconds = json.loads(RECORD.read_text())
    folders: dict[str, float] = defaultdict(float)
    for file, taken in seconds.items():
        folders[_folder(file)] += taken

    def turn(item: pytest.Item) -> tuple[float, str, float]:
        file = _file(item.nodeid)
        folder = _folder(file)
        return -folders[folder], folder, -seconds.get(file, 0.0)

    items.sort(key=turn)


class Recorder:
    """Writes how long the files of this run took; the figures of all other files stay."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the set-up, the call or the end of one test."""
        self._seconds[_file(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        found = {**json.loads(RECORD.read_text()), **self._seconds}
        kept = {
            file: round(seconds, 1)
            for file, seconds in sorted(found.items())
            if seconds >= _LEAST and (RECORD.parents[1] / file).exists()
        }
        RECORD.write_text(json.dumps(kept, indent=0) + "\n")


def _folder(file: str) -> str:
    return "/".join(file.split("/")[:2])


def _file(test: str) -> str:
    return test.partition("::")[0]

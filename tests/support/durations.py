"""What each file of tests takes: what takes long comes first, so that nothing waits for it."""

from __future__ import annotations

import json
import os
import resource
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

RECORD = Path(__file__).parents[1] / "durations.json"
"""What ``pytest --record-durations`` has seen: the files that take more than a second."""
SLOW = 5.0
"""Seconds from which a single test is recorded too: it must say why it takes them."""
_LEAST = 1.0
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Record:
    """What the last recorded run took."""

    files: Mapping[str, tuple[float, float]]
    """Seconds of each file, and its CPU seconds with those of its control planes."""
    slow: Mapping[str, float]
    """The tests that took more than ``SLOW`` seconds, rows of a table together."""

    @classmethod
    def read(cls) -> Record:
        """Return the record of the repository."""
        found = json.loads(RECORD.read_text())
        return cls({file: (one[0], one[1]) for file, one in found["files"].items()}, found["slow"])

    def write(self) -> None:
        """Write it, without files that are gone."""
        root = RECORD.parents[1]
        files = {
            file: [round(seconds, 1), round(cpu, 1)]
            for file, (seconds, cpu) in sorted(self.files.items())
            if seconds >= _LEAST and (root / file).exists()
        }
        slow = {
            test: round(seconds, 1)
            for test, seconds in sorted(self.slow.items())
            if seconds >= SLOW and (root / _file(test)).exists()
        }
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in files.items())
        text = ",\n".join(lines)
        RECORD.write_text(f'{{"files": {{\n{text}\n}},\n"slow": {json.dumps(slow, indent=0)}}}\n')


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the recorded time of their folder, and in it by that of their file.

    The files of a folder are neighbours: a process keeps the control planes of one folder only.
    """
    seconds = {file: taken for file, (taken, _) in Record.read().files.items()}
    folders: dict[str, float] = defaultdict(float)
    for file, taken in seconds.items():
        folders[_folder(file)] += taken

    def turn(item: pytest.Item) -> tuple[float, str, float]:
        file = _file(item.nodeid)
        folder = _folder(file)
        return -folders[folder], folder, -seconds.get(file, 0.0)

    items.sort(key=turn)


class Recorder:
    """Writes what the files of this run took; the figures of all other files stay."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._seconds: dict[str, float] = defaultdict(float)
        self._cpu: dict[str, float] = defaultdict(float)
        self._tests: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the set-up, the call or the end of one test."""
        file = _file(report.nodeid)
        self._seconds[file] += report.duration
        for name, used in report.user_properties:
            self._cpu[file] += float(str(used)) if name == _CPU else 0.0
        if report.when == "call":
            test = report.nodeid.partition("[")[0]
            self._tests[test] = max(self._tests[test], report.duration)

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        before = Record.read()
        ran = {file: (taken, self._cpu[file]) for file, taken in self._seconds.items()}
        slow = {test: one for test, one in before.slow.items() if _file(test) not in ran}
        Record({**before.files, **ran}, {**slow, **self._tests}).write()


_CPU = "cpu"


class CpuMeter:
    """Notes on each report what this process and all that it has started have used since then."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._before = 0.0

    def begin(self) -> None:
        """Leave out what was used so far: the collection of tests."""
        self._before = _cpu_seconds()

    def note(self, report: pytest.TestReport) -> None:
        """Add the CPU seconds of a test to the report of its end."""
        if report.when == "teardown":
            now = _cpu_seconds()
            # A process that has ended and that nobody has waited for takes its seconds along.
            report.user_properties.append((_CPU, max(0.0, now - self._before)))
            self._before = now


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process, of its children that ended, and of those that run."""
    known = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(one) for one in known]
    return sum(one.ru_utime + one.ru_stime for one in used) + _running(os.getpid())


def _running(root: int) -> float:
    """Return the CPU seconds of all processes below one, with those of their ended children."""
    below: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        ticks = sum(map(int, fields[11:15]))
        below[int(fields[1])].append((int(folder.name), ticks / _TICKS))
    found, left = 0.0, [root]
    while left:
        for child, seconds in below[left.pop()]:
            found += seconds
            left.append(child)
    return found


def _folder(file: str) -> str:
    return "/".join(file.split("/")[:2])


def _file(test: str) -> str:
    return test.partition("::")[0]

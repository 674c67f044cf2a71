"""What was measured: for the terminal, as JSON, and for docs/."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.output.terminal import table
from tests.benchmarks.rows import (
    ALL_IN,
    BARE,
    CLICK,
    HELMFILE,
    KAPP,
    KAPPLY,
    KUBECTL,
    KUBECTL_LOOP,
    LOOP,
    ONE_SET,
    OURS,
    ROWS,
    UNCHECKED,
    Measured,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.rows import Results, Row, Target

FILE = Path(__file__).parents[2] / "docs/benchmarks.json"
"""The figures of the tables in docs/."""
SHORT = ("first-1000", "again-1000", "first-10", "again-10")
"""The rows of the table in docs/comparison.md."""
_PEERS = {KUBECTL: (KUBECTL,), KAPP: (KAPP,), KAPPLY: (KAPPLY,)}
_COLUMNS = {
    "applyprune": (OURS,),
    "`--no-check`": (UNCHECKED,),
    **_PEERS,
    "bare client, or `import click`": (BARE, CLICK),
}
"""The columns of the table in docs/benchmarks.md; a row has one of the programs of a column."""
_OF_MANY = {
    "`apply --all-in`": (ALL_IN,),
    "all objects in one set": (ONE_SET,),
    "`apply` in a loop": (LOOP,),
    "kubectl in a loop": (KUBECTL_LOOP,),
    HELMFILE: (HELMFILE,),
}
"""The columns of the rows about many sets."""
_HEAD = ("JOB", "PROGRAM", "MEDIAN", "LEAST", "CPU", "MB", "REQUESTS", "WRITES", "OTHERS")
_USUAL = ("seconds", "cpu", "memory", "requests", "writes")


@dataclass(slots=True)
class Report:
    """All that was measured, and on what."""

    machine: Mapping[str, str]
    versions: Mapping[str, str]
    results: Results = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return the machine and the versions."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.machine['cores']} cores, {self.machine['system']}: {versions}"

    @property
    def rows(self) -> list[Row]:
        """Return the rows that were measured."""
        return [row for row in ROWS if row.name in self.results]

    @property
    def failures(self) -> list[str]:
        """Return what has failed that no row can do without: all but the peers."""
        return [
            f"{row.title}: {program} failed: {found.failure}"
            for row in self.rows
            for program, found in self.results[row.name].items()
            if found.failure and program not in {KAPP, KAPPLY, HELMFILE}
        ]

    @property
    def missed(self) -> list[str]:
        """Return the targets that are missed."""
        return [
            f"{row.title}: {target.text}, not {number(value)}: {target.why}"
            for row, target, value in self.judged
            if value > target.most
        ]

    @property
    def judged(self) -> list[tuple[Row, Target, float]]:
        """Return each target with what was measured; those without are left out."""
        return [
            (row, target, value)
            for row in self.rows
            for target in row.targets
            if (value := target.value(row.name, self.results)) is not None
        ]

    def updated(self, report: Report) -> Report:
        """Return a newer report, with the rows of this one if both are of the same programs.

        One may have peers that the other has not.
        """
        shared = self.versions.keys() & report.versions.keys()
        parts = [(self.machine[part], report.machine[part]) for part in ("cores", "system")]
        parts += [(self.versions[name], report.versions[name]) for name in shared]
        if any(before != now for before, now in parts):
            return report
        versions = {**self.versions, **report.versions}
        return Report(report.machine, versions, self.results | report.results)

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_report(path: Path) -> Report:
    """Return what was written."""
    data = json.loads(path.read_text(encoding="utf-8"))
    results = {
        row: {program: Measured(**found) for program, found in programs.items()}
        for row, programs in data["results"].items()
    }
    return Report(data["machine"], data["versions"], results)


def text(report: Report) -> str:
    """Return a line for each program of each row, and one for each target."""
    lines = [line for row in report.rows for line in _lines(row, report.results[row.name])]
    targets = [
        (row.title, target.text, number(value), "MISSED" if value > target.most else "reached")
        for row, target, value in report.judged
    ]
    load = f"load average {report.machine['load']} at the start"
    tables = (table(_HEAD, lines), table(("JOB", "TARGET", "MEASURED", ""), targets))
    return "\n\n".join((f"{report.title}; {load}", *tables))


def _lines(row: Row, found: Mapping[str, Measured]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for program, measured in found.items():
        title = "" if lines else row.title
        if measured.failure:
            # In columns of their own, a long message would move all others.
            lines.append((title, program, "failed", *[""] * 6))
            continue
        seconds, cpu, *counts = (measured.figure(name) for name in _USUAL)
        least = min((one["seconds"] for one in measured.samples if "seconds" in one), default=None)
        more = sorted({name for one in measured.samples for name in one} - {*_USUAL})
        others = ", ".join(f"{measured.figure(name):.3g} {name}" for name in more)
        shown = ("" if one is None else f"{one:,.5g}" for one in counts)
        lines.append((title, program, *map(duration, (seconds, least, cpu)), *shown, others))
    return lines


def duration(value: float | None) -> str:
    """Return seconds with two digits: ``0.67 s``, ``4.0 s``, ``138 s``; milliseconds below 0.1."""
    if value is None:
        return ""
    if value < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.{2 if value < 0.995 else 1 if value < 9.95 else 0}f} s"


def number(value: float) -> str:
    """Return a value with three digits: 0.982, 1.31, 24.6, 1,003."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"


def short_table() -> str:
    """Return the table for docs/comparison.md."""
    report = read_report(FILE)
    rows = [row for name in SHORT for row in report.rows if row.name == name]
    return _markdown(report, rows, {"applyprune": (OURS,), **_PEERS})


def whole_table() -> str:
    """Return the table with every row that was measured, and the targets."""
    report = read_report(FILE)
    targets = [
        f"| {row.title} | {target.text} | {number(value)}"
        f"{', missed' if value > target.most else ''} | {target.why} |"
        for row, target, value in report.judged
    ]
    head = ("| job | target | measured | it is missed when |", "|---|---|---|---|")
    limits = {row.name: row.limit for row in report.rows}
    many = [row for row in report.rows if ALL_IN in row.programs]
    rows = [row for row in report.rows if row not in many]
    whole = [_markdown(report, rows, _COLUMNS, limits), ""]
    if many:
        whole += [_markdown(report, many, _OF_MANY, limits), ""]
    return "\n".join((*whole, *head, *targets))


def _markdown(
    report: Report,
    rows: Sequence[Row],
    columns: Mapping[str, Sequence[str]],
    limits: Mapping[str, str] | None = None,
) -> str:
    """Return a table of medians; with ``limits``, the last column says what limits a row."""
    head = [report.title, *columns, *(["what limits applyprune"] if limits else [])]
    lines = []
    for row in rows:
        found = report.results[row.name]
        cells = [
            "".join(
                "failed" if found[one].failure else duration(found[one].figure("seconds"))
                for one in column
                if one in found
            )
            for column in columns.values()
        ]
        lines.append([row.title, *cells, *([limits[row.name]] if limits else [])])
    written = [f"| {' | '.join(line)} |" for line in (head, *lines)]
    return "\n".join((written[0], f"|{'---|' * len(head)}", *written[1:]))

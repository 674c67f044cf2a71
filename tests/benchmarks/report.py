"""The results as text, and as the JSON that the tables of the documentation come from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from applyprune.output.terminal import table
from tests.benchmarks.rows import Measured, Metric, Outcome, Sample, Subject, failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.rows import Results, Row

_HEAD = ("JOB", "PROGRAM", "MEDIAN", "MIN", "CPU", "MEMORY", "REQUESTS", "WRITES")
_TARGET_HEAD = ("TARGETS", "", "MEASURED", "")
_WIDTH = 118
"""Where a long reason of a failure is wrapped."""
_IMPORTS = 12
"""How many modules the list of imports shows."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run has measured, and on what."""

    machine: Mapping[str, Any]
    """Cores, system, and the load at the start."""
    versions: Mapping[str, str]
    """By the program's name."""
    results: Results
    imports: Sequence[tuple[str, float]] = field(default=())
    """Modules, and the milliseconds of each."""


def text(report: Report, rows: Sequence[Row]) -> str:
    """Return the table, the targets of each row below it, and the imports."""
    lines = [
        ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        f"{_machine(report.machine)}, load average {report.machine['load']} at the start",
        "",
        table(_HEAD, [line for row in rows for line in _lines(row, report.results)]),
        "",
        table(
            _TARGET_HEAD, [line for row in rows for line in _targets(row, report.results)], _WIDTH
        ),
    ]
    if report.imports:
        slow = report.imports[:_IMPORTS]
        total = sum(seconds for _, seconds in report.imports)
        about = f"imports of `applyprune --help`: {len(report.imports)} modules, {total:.0f} ms"
        lines += [
            "",
            f"{about} by -X importtime, which slows them down; the slowest:",
            *(f"  {milliseconds:6.1f} ms  {name}" for name, milliseconds in slow),
        ]
    return "\n".join(lines)


def exit_code(report: Report, rows: Sequence[Row]) -> int:
    """Return 1 if a target is missed, or if one has failed that no row can do without."""
    verdicts = [one for row in rows for one in row.verdicts(report.results)]
    is_missed = any(one.outcome is Outcome.MISSED for one in verdicts)
    return int(is_missed or bool(failures(report.results)))


def _lines(row: Row, results: Results) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for subject in row.subjects:
        if (measured := results.get((row.name, subject))) is None:
            continue
        title = "" if found else row.title
        if measured.failure:
            # In columns of their own, a long message would move all others.
            found.append((title, subject, "failed", "", "", "", "", ""))
            continue
        if not measured.samples:
            continue
        found.append((title, str(subject), *_figures(measured)))
    return found


def _figures(measured: Measured) -> tuple[str, ...]:
    cpu, memory = measured.median(Metric.CPU), measured.maximum(Metric.MEMORY)
    requests = measured.maximum(Metric.REQUESTS)
    writes = measured.maximum(Metric.WRITES)
    trips = measured.maximum(Metric.ROUND_TRIPS)
    shown = "" if requests is None else f"{requests:,.0f}"
    return (
        seconds(measured.median(Metric.SECONDS) or 0.0),
        seconds(measured.minimum(Metric.SECONDS) or 0.0),
        "" if cpu is None else seconds(cpu),
        "" if memory is None else f"{memory / 1e6:.0f} MB",
        shown if trips is None else f"{shown} ({trips:,.0f} deep)",
        "" if writes is None else f"{writes:,.0f}",
    )


def _targets(row: Row, results: Results) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for verdict in row.verdicts(results):
        title = "" if found else row.title
        found.append(
            (title, f"{verdict.subject}: {verdict.target}", verdict.shown, verdict.outcome)
        )
    for subject in row.subjects:
        failure = results.get((row.name, subject), Measured()).failure
        if failure:
            title = "" if found else row.title
            found.append((title, f"{subject} failed", "", failure))
    return found


def seconds(value: float) -> str:
    """Return seconds with two digits: ``0.67 s``, ``4.0 s``, ``138 s``; milliseconds below 0.1."""
    if value < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.{2 if value < 0.995 else 1 if value < 9.95 else 0}f} s"


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['cores']} cores, {machine['system']}"


def to_json(report: Report, rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything as JSON."""
    return {
        "machine": dict(report.machine),
        "versions": dict(report.versions),
        "rows": {row.name: _row_out(row, report.results) for row in rows},
        "imports": [list(one) for one in report.imports],
    }


def _row_out(row: Row, results: Results) -> dict[str, Any]:
    return {
        "title": row.title,
        "programs": {
            str(subject): {
                "failure": measured.failure,
                "samples": [
                    {key: value for key, value in asdict(one).items() if value is not None}
                    for one in measured.samples
                ],
            }
            for subject in row.subjects
            if (measured := results.get((row.name, subject))) is not None
        },
        "verdicts": [
            {
                "program": str(one.subject),
                "target": one.target,
                "value": one.value,
                "outcome": str(one.outcome),
            }
            for one in row.verdicts(results)
        ],
    }


def from_json(data: Mapping[str, Any]) -> Report:
    """Return what ``to_json`` has written; verdicts are judged again."""
    results: Results = {
        (name, Subject(subject)): Measured(
            [Sample(**sample) for sample in found["samples"]], found["failure"]
        )
        for name, row in data["rows"].items()
        for subject, found in row["programs"].items()
    }
    imports = [(str(name), float(value)) for name, value in data["imports"]]
    return Report(data["machine"], data["versions"], results, imports)

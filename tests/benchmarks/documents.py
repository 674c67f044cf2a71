"""``python -m tests.benchmarks.documents FILE…``: the results of runs, for docs/.

It copies the JSON to ``docs/benchmarks.json``; ``tests.docs.generate`` makes the tables of it. The
rows of further files, such as those of a run of the long rows, come to those of the first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.report import from_json, seconds
from tests.benchmarks.rows import Measured, Metric, Subject
from tests.benchmarks.targets import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.report import Report

FILE = Path(__file__).parents[2] / "docs/benchmarks.json"
SHORT = (
    ("first-1000", Subject.OURS),
    ("again-1000", Subject.OURS),
    ("first-10", Subject.OURS),
    ("again-10", Subject.OURS),
)
"""The lines of the table in docs/comparison.md: a row, and which of our own figures it shows."""
_THEIRS = (Subject.KUBECTL, Subject.KAPP, Subject.KAPPLY, Subject.BARE, Subject.FLOOR)
_OURS = (Subject.OURS, Subject.UNCHECKED)


def short_table() -> str:
    """Return the table for docs/comparison.md."""
    return markdown(_stored(), SHORT, (Subject.KUBECTL, Subject.KAPP, Subject.KAPPLY))


def whole_table() -> str:
    """Return the table with every row that was measured, and the targets."""
    report = _stored()
    every = [(row.name, subject) for row in ROWS for subject in _OURS if subject in row.subjects]
    return f"{markdown(report, every)}{_targets(report)}"


def markdown(
    report: Report, lines: Sequence[tuple[str, Subject]], others: Sequence[Subject] = _THEIRS
) -> str:
    """Return a table of medians: a line for each row and figure of ours, a column for each program.

    What was not measured has no line; a program without any figure has no column.
    """
    titles = {row.name: row.title for row in ROWS}
    present = [line for line in lines if line in report.results]
    columns = [
        subject
        for subject in others
        if any((name, subject) in report.results for name, _ in present)
    ]
    head = [_about(report), "applyprune", *columns]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name, ours in present:
        check = ", `--no-check`" if ours is Subject.UNCHECKED else ""
        cells = [
            _cell(report.results.get((name, subject), Measured())) for subject in (ours, *columns)
        ]
        rows.append(f"| {titles[name]}{check} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _targets(report: Report) -> str:
    verdicts = [
        (row.title, one)
        for row in ROWS
        for one in row.verdicts(report.results)
        if (row.name, one.subject) in report.results and one.value is not None
    ]
    rows = [
        f"| {title} | {one.subject} | {one.target} | {one.shown} | {one.outcome.lower()} |"
        for title, one in verdicts
    ]
    return "\n".join(
        ("\n\n| job | program | target | measured | |", "|---|---|---|---|---|", *rows)
    )


def _about(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.machine['cores']} cores, {report.machine['system']}: {versions}"


def _cell(measured: Measured) -> str:
    if measured.failure:
        return "failed"
    median = measured.median(Metric.SECONDS)
    return "" if median is None else seconds(median)


def _stored() -> Report:
    return from_json(json.loads(FILE.read_text(encoding="utf-8")))


def together(paths: Sequence[str]) -> dict[str, Any]:
    """Return the figures of runs on one machine; raises ValueError for those of another one."""
    first, *others = (json.loads(Path(path).read_text(encoding="utf-8")) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        versions = {name: first["versions"].get(name) for name in other["versions"]}
        if (versions, _place(first)) != (other["versions"], _place(other)):
            raise ValueError(f"{path} is of another machine, or of other versions, than {paths[0]}")
        first["rows"] = {**other["rows"], **first["rows"]}
    if lacking := {name for name, _ in SHORT} - first["rows"].keys():
        raise ValueError(
            f"{paths[0]} is not of a whole run: {', '.join(sorted(lacking))} is missing"
        )
    return dict(first)


def _place(run: Mapping[str, Any]) -> tuple[int, str]:
    return run["machine"]["cores"], run["machine"]["system"]


if __name__ == "__main__":
    try:
        stored = together(sys.argv[1:])
    except ValueError as wrong:
        sys.exit(str(wrong))
    FILE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")

"""``-o junit``: the run as a test report, in the schema of Jenkins' xunit plugin (junit-10).

A set is a test suite, an object is a test case. The test case fails if the object failed or did not
become ready; it is skipped if the object was skipped or not pruned. A mismatch of an inventory is a
failure; a difference in a diff is not. An error that ended the run is a test case of its own, and
so is a run that did not finish. The schema has no field for file and line, so the text contains
them. Warnings go to ``system-err``.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from applyprune.model.events import Event, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import Mismatch
from applyprune.model.problem import Problem
from applyprune.model.text.display import shown
from applyprune.output.collector import ObjectReport, RunReport
from applyprune.output.printers import OutputTarget
from applyprune.output.text.consequence_lines import ConsequenceLines

_PROGRAM = "applyprune"


class JUnitPrinter:
    """Writes the report at the end; until then a file contains a report of an unfinished run."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output, and write the unfinished report to a file."""
        self._out = target.out
        self._report = RunReport()
        target.draft(junit_xml(self._report))

    def show(self, event: Event) -> None:
        """Keep one event."""
        self._report.take(event)

    def close(self) -> None:
        """Write the report."""
        self._out(junit_xml(self._report))


def junit_xml(report: RunReport) -> str:
    """Return the report as XML; it has at least one test case."""
    name, namespace = report.name
    suite_name = f"{name} in namespace {namespace}" if name else _PROGRAM
    lines = ConsequenceLines()
    if report.plan is not None:
        lines.take_plan(report.plan)
    cases = [_object(each, lines.pop(each.ref)) for each in report.objects]
    cases += [
        _set(applyset.name, applyset.namespace, applyset.problem)
        for applyset in report.sets.values()
    ]
    cases += map(_mismatch, report.mismatches)
    cases += map(_error, report.errors)
    if report.prune_blocked is not None:
        cases.append(_verdict(_case("the prune"), "failure", report.prune_blocked))
    if report.verdict is not None:
        cases.append(_verdict(_case("the run"), "failure", report.verdict))
    if report.finished is None:
        case = _case("the run")
        _add(case, "error", "NotFinished", "the run did not finish", "")
        cases.append(case)
    elif not cases:
        cases.append(_case("the run"))
    counts = {
        "tests": str(len(cases)),
        "failures": str(_count(cases, "failure")),
        "errors": str(_count(cases, "error")),
    }
    # An unfinished run has no duration.
    time = {"time": f"{report.finished.elapsed:.3f}"} if report.finished else {}
    root = ET.Element("testsuites", {"name": _PROGRAM, **counts, **time})
    skipped = {"skipped": str(_count(cases, "skipped"))}
    suite = ET.SubElement(
        root, "testsuite", {"name": shown(suite_name), **counts, **skipped, **time}
    )
    if report.started is not None:
        properties = ET.SubElement(suite, "properties")
        started = report.started
        for key, value in (
            ("run", started.run), ("mode", started.mode), ("dryRun", started.dry_run),
            ("context", started.context), ("server", started.server),
        ):  # fmt: skip
            ET.SubElement(properties, "property", {"name": key, "value": shown(str(value))})
    suite.extend(cases)
    if report.warnings:
        warnings = "\n".join(f"warning: {problem}" for problem in report.warnings)
        ET.SubElement(suite, "system-err").text = shown(warnings)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _object(object_report: ObjectReport, consequences: Sequence[str]) -> ET.Element:
    case = _case(str(object_report.ref), object_report.ref)
    if object_report.wait_result is not None:
        case.set("time", f"{object_report.wait_result.elapsed:.3f}")
    result, status = object_report.result, object_report.status
    if result is not None and result.outcome in {Outcome.SKIPPED, Outcome.NOT_PRUNED}:
        reason = result.reason or (result.problem.message if result.problem else "")
        _add(case, "skipped", str(result.outcome), reason, str(result.problem or ""))
    elif object_report.problem is not None:
        _verdict(case, "failure", object_report.problem)
    elif status is not None and object_report.is_unready:
        found = status.readiness
        _add(case, "failure", str(found.status), found.message, "")
    elif lines := [*_lines_of(object_report), *consequences]:
        ET.SubElement(case, "system-out").text = shown("\n".join(lines))
    return case


def _lines_of(object_report: ObjectReport) -> Sequence[str]:
    """Return the lines about an object that did not fail."""
    lines = []
    if object_report.result is not None:
        lines.append(
            ": ".join(
                part
                for part in (object_report.result.outcome.text, object_report.result.reason)
                if part
            )
        )
    if object_report.diff is not None:
        lines.append(object_report.diff.fate.forecast)
    if object_report.status is not None:
        found = object_report.status.readiness
        lines.append(f"{found.status.text}: {found.message}")
    if object_report.explanation is not None:
        lines += [object_report.explanation.verdict, *object_report.explanation.reasons]
    return lines


def _set(name: str, namespace: str, problem: Problem | None) -> ET.Element:
    case = _case(f"the set {name} in namespace {namespace}")
    return _verdict(case, "error", problem) if problem else case


def _mismatch(mismatch: Mismatch) -> ET.Element:
    case = _case(str(mismatch.ref or "the inventory"), mismatch.ref)
    _add(case, "failure", str(mismatch.type), mismatch.message, f"Repair: {mismatch.repair.text}")
    return case


def _error(problem: Problem) -> ET.Element:
    return _verdict(_case(problem.location or problem.message), "error", problem)


def _case(name: str, ref: Ref | None = None) -> ET.Element:
    kind = _PROGRAM if ref is None else f"{ref.group}/{ref.kind}" if ref.group else ref.kind
    return ET.Element("testcase", {"classname": shown(kind), "name": shown(name)})


def _verdict(case: ET.Element, tag: str, problem: Problem) -> ET.Element:
    _add(case, tag, problem.kind, problem.message, str(problem))
    return case


def _add(case: ET.Element, tag: str, kind: str, message: str, text: str) -> None:
    ET.SubElement(case, tag, {"type": kind, "message": shown(message)}).text = shown(text)


def _count(cases: list[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)

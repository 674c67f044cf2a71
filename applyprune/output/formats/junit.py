"""``-o junit``: the run as a report of tests, by the schema of Jenkins' xunit plugin (junit-10).

A test suite is a set, a test case an object: it fails when the object failed or never became ready,
and is skipped when the object was skipped or not pruned. A mismatch that a check found is a
failure, what a diff shows is none: it is what one wanted to see. An error that ended the run is a
test case of its own, and so is an end that never came. The schema has no place for file and line:
they stand in the text. Warnings go to ``system-err``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from applyprune.model.display import shown
from applyprune.model.events import Outcome
from applyprune.output.collector import RunReport

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Mismatch
    from applyprune.model.problem import Problem
    from applyprune.output.collector import ObjectReport
    from applyprune.output.printers import OutputTarget

_PROGRAM = "applyprune"


class JUnitPrinter:
    """Writes the report at the end; until then a file holds one that says that it is none."""

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the report goes."""
        self._out = screen.out
        self._gathered = RunReport()
        screen.draft(report(self._gathered))

    def show(self, event: Event) -> None:
        """Keep one event."""
        self._gathered.take(event)

    def close(self) -> None:
        """Write the report."""
        self._out(report(self._gathered))


def report(gathered: RunReport) -> str:
    """Return the report, always with a test case at least."""
    name, namespace = gathered.name
    called = f"{name} in namespace {namespace}" if name else _PROGRAM
    cases = [_object(one) for one in gathered.objects]
    cases += [_set(one.name, one.namespace, one.problem) for one in gathered.sets.values()]
    cases += [_finding(one) for one in gathered.mismatches]
    cases += [_failed(one) for one in gathered.errors]
    if gathered.prune_blocked is not None:
        cases.append(_verdict(_case("the prune"), "failure", gathered.prune_blocked))
    if gathered.verdict is not None:
        cases.append(_verdict(_case("the run"), "failure", gathered.verdict))
    if gathered.finished is None:
        case = _case("the run")
        _add(case, "error", "NotFinished", "the run has not come to its end", "")
        cases.append(case)
    elif not cases:
        cases.append(_case("the run"))
    counts = {
        "tests": str(len(cases)),
        "failures": str(_count(cases, "failure")),
        "errors": str(_count(cases, "error")),
    }
    # An end that never came took no time that could be told.
    time = {"time": f"{gathered.finished.elapsed:.3f}"} if gathered.finished else {}
    root = ET.Element("testsuites", {"name": _PROGRAM, **counts, **time})
    skipped = {"skipped": str(_count(cases, "skipped"))}
    suite = ET.SubElement(root, "testsuite", {"name": shown(called), **counts, **skipped, **time})
    if gathered.started is not None:
        properties = ET.SubElement(suite, "properties")
        started = gathered.started
        for key, value in (
            ("run", started.run), ("mode", started.mode), ("dryRun", started.dry_run)
        ):  # fmt: skip
            ET.SubElement(properties, "property", {"name": key, "value": shown(str(value))})
    suite.extend(cases)
    if gathered.warnings:
        warnings = "\n".join(f"warning: {one}" for one in gathered.warnings)
        ET.SubElement(suite, "system-err").text = shown(warnings)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _object(told: ObjectReport) -> ET.Element:
    case = _case(str(told.ref), told.ref)
    if told.wait_result is not None:
        case.set("time", f"{told.wait_result.elapsed:.3f}")
    done, standing = told.result, told.status
    if done is not None and done.outcome in {Outcome.SKIPPED, Outcome.NOT_PRUNED}:
        why = done.reason or (done.problem.message if done.problem else "")
        _add(case, "skipped", str(done.outcome), why, str(done.problem or ""))
    elif told.problem is not None:
        _verdict(case, "failure", told.problem)
    elif standing is not None and told.is_unready:
        found = standing.readiness
        _add(case, "failure", str(found.status), found.message, "")
    elif said := _said(told):
        ET.SubElement(case, "system-out").text = shown(said)
    return case


def _said(told: ObjectReport) -> str:
    """Return what is to be said of an object that is no failure."""
    lines = []
    if told.result is not None:
        lines.append(
            ": ".join(part for part in (told.result.outcome.text, told.result.reason) if part)
        )
    if told.diff is not None:
        lines.append(told.diff.outcome.forecast)
    if told.status is not None:
        found = told.status.readiness
        lines.append(f"{found.status.text}: {found.message}")
    if told.explanation is not None:
        lines += [told.explanation.verdict, *told.explanation.reasons]
    return "\n".join(lines)


def _set(name: str, namespace: str, problem: Problem | None) -> ET.Element:
    case = _case(f"the set {name} in namespace {namespace}")
    return _verdict(case, "error", problem) if problem else case


def _finding(finding: Mismatch) -> ET.Element:
    case = _case(str(finding.ref or "the inventory"), finding.ref)
    _add(case, "failure", str(finding.type), finding.message, f"Repair: {finding.repair.text}")
    return case


def _failed(problem: Problem) -> ET.Element:
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

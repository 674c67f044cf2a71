"""Reports for pipelines: annotations of GitHub, a Code Quality report of GitLab, a JUnit report."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from msgspec import Struct

from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    ErrorRaised,
    Event,
    Explanation,
    Finished,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Planned,
    PruneBlocked,
    ReadinessReported,
    SetEvent,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import Mismatch
from applyprune.model.plan import ConsequenceKind
from applyprune.model.problem import Origin, Problem
from applyprune.model.reports import ArtifactPushed, InputChecked, VersionReport
from applyprune.model.text import counted, visible, visible_lines, without_commands
from applyprune.output.json import to_json
from applyprune.output.markdown import conclusion, is_note, page
from applyprune.output.plan_text import ConsequenceLines, lifted_guards, with_origins
from applyprune.output.printers import OutputTarget, RepositoryPaths
from applyprune.output.report import UNREADY, ObjectReport, RunReport, by_folder
from applyprune.values import replace

if TYPE_CHECKING:
    from pathlib import Path


# What a pipeline shows of an event. The levels are GitHub's and GitLab's words.


_ERROR = ("error", "blocker")
_FAILURE = ("error", "critical")
_MISMATCH = ("warning", "major")
_WARNING = ("warning", "minor")
_SKIPPED = ("warning", "info")
_NOTE = ("notice", "info")
_LIFTED = ("notice", "minor")
_FORECAST = _NOTE
_DELETION = ("notice", "major")
# A comparison has them too, and the result of each is reported in any case.
_DELETIONS = frozenset({Fate.PRUNE, Fate.RECREATE})
_DELETED = frozenset({Outcome.PRUNED, Outcome.DELETED, Outcome.RECREATED})
_DELETING = frozenset({ConsequenceKind.VOLUME_DELETED, ConsequenceKind.CASCADE})

_PROGRAM = "applyprune"


class Finding(Struct, frozen=True):
    """What fails, what the user should know, or what would change."""

    levels: tuple[str, str]
    title: str
    text: str | Problem
    origin: Origin | None = None
    about: str = ""
    """The object or the set that a problem is about; any other text names it."""
    check: str = ""
    """What kind of finding it is; empty for that of the problem."""
    applyset: SetKey | None = None
    """The set that it is of, where one command runs many."""

    @property
    def place(self) -> Origin | None:
        """Return the place in the input; that of a problem is the more exact one."""
        own = self.text.origin if isinstance(self.text, Problem) else None
        return own or self.origin

    def naming(self, text: str) -> str:
        """Return its title or its text, which names the set where there are many."""
        if self.applyset is None:
            return text
        return str(self.applyset) if text == _PROGRAM else f"{self.applyset}: {text}"


def findings(event: Event, report: RunReport) -> Iterator[Finding]:
    """Yield the findings of an event that the report has taken."""
    if isinstance(event, SetEvent):
        for found in findings(event.event, report.members[event.key]):
            yield replace(found, applyset=event.key)
    else:
        yield from _findings(event, report)


def _findings(event: Event, report: RunReport) -> Iterator[Finding]:
    match event:
        case ObjectDone(ref=ref, outcome=outcome, problem=problem) if problem is not None:
            levels = _SKIPPED if outcome is Outcome.SKIPPED else _FAILURE
            yield Finding(levels, f"{ref.short} {outcome.text}", problem, event.origin, str(ref))
        case ReadinessReported(ref=ref, problem=problem) if problem is not None:
            yield Finding(_FAILURE, f"{ref.short} is not ready", problem, None, str(ref))
        case ObjectStatus(ref=ref, readiness=found) if found.status in UNREADY:
            message = f"{ref}: {found.message}"
            yield Finding(_FAILURE, found.status.text, message, check=str(found.status))
        case ApplySetListed(name=name, problem=problem) if problem is not None:
            yield Finding(_FAILURE, f"the set {name}", problem, None, name)
        case WarningRaised(problem=problem):
            yield Finding(_NOTE if is_note(problem, report) else _WARNING, _PROGRAM, problem)
        case PruneBlocked(problem=problem):
            yield Finding(_FAILURE, f"the {report.mode.removal} was refused", problem)
        case ErrorRaised(problem=problem):
            yield Finding(_ERROR, _PROGRAM, problem)
        case MismatchFound(mismatch=found):
            about = found.ref or "the inventory"
            message = f"{about}: {found.message} → {found.repair.text}"
            yield Finding(_MISMATCH, found.type.text, message, check=str(found.type))
        case Finished():
            if (verdict := report.verdict) is not None:
                yield Finding(_FAILURE, _PROGRAM, verdict)
        case _:
            yield from _forecast(event, report)


def _forecast(event: Event, report: RunReport) -> Iterator[Finding]:
    """Yield what would change, each lifted guard and each consequence."""
    match event:
        case ObjectDone(ref=ref, outcome=outcome) if outcome in _DELETED and report.is_dry:
            fate = Fate.RECREATE if outcome is Outcome.RECREATED else Fate.PRUNE
            yield Finding(
                _DELETION, ref.short, f"{ref} {outcome.forecast}", event.origin, check=str(fate)
            )
        case Planned(plan=plan):
            for guard, line in lifted_guards(plan):
                yield Finding(_LIFTED, "a lifted guard", line, check=str(guard))
            for caused, origin in with_origins(plan):
                message = f"{caused.ref}: {caused.message}"
                check = str(caused.kind)
                levels = _DELETION if caused.kind in _DELETING else _FORECAST
                yield Finding(levels, caused.ref.short, message, origin, check=check)
        case ObjectDiff(ref=ref, fate=fate) if fate not in {Fate.LEAVE, *_DELETIONS}:
            message = f"{ref} {fate.forecast}"
            yield Finding(_FORECAST, ref.short, message, event.origin, check=str(fate))


# ``-o github``. A workflow command is a line ``::error file=a.yaml,line=3,col=5,title=T::MESSAGE``.
# The runner obeys each line that begins with ``::`` or contains ``##[``, so untrusted text is
# escaped. GitHub shows the first 10 errors, 10 warnings and 10 notices of a step as annotations, so
# the summary repeats all of them. All goes to standard output: a step has one log for both streams.


ROOM = 1024 * 1024
"""The largest summary that GitHub accepts, in bytes; it drops a larger one."""
_LONGEST = 16 * 1024
"""Characters of one message. GitHub cuts an annotation at 64 KiB; people read less."""


class GitHubPrinter:
    """Writes an annotation for each event at once, and the summary at the end."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output, the summary's file and the root of the repository from ``target``."""
        self._out = target.out
        self._summary = target.summary
        self._paths = target.repository_paths or RepositoryPaths()
        self._report = RunReport()

    def show(self, event: Event) -> None:
        """Write the annotations of one event, or its lines."""
        self._report.take(event)
        found = list(findings(event, self._report))
        for one in found:
            self._command(one.levels[0], one.naming(one.title), str(one.text), one.place)
        report, about = self._report, ""
        if isinstance(event, SetEvent):
            report, about, event = report.members[event.key], f"{event.key}: ", event.event
        if isinstance(event, Finished):
            self._line(conclusion(report))
        elif not found:
            for line in _log_lines(event, report):
                self._line(f"{about}{line}")

    def close(self) -> None:
        """Append the summary to its file; only warn if the file cannot be written."""
        if self._summary is None:
            return
        try:
            self._append(self._summary)
        except OSError as error:
            message = f"{self._summary}: {error.strerror}"
            self._command("warning", "the summary could not be written", message, None)

    def _append(self, path: Path) -> None:
        before = path.stat().st_size if path.exists() else 0
        if text := page(self._report, ROOM - before - 1):
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def _command(self, level: str, title: str, message: str, origin: Origin | None) -> None:
        path = self._paths.path(origin)
        properties = {
            "file": visible(path),
            "line": str(origin.line) if path and origin and origin.line else "",
            "col": str(origin.column) if path and origin and origin.column else "",
            "title": visible(title),
        }
        properties_text = ",".join(
            f"{key}={_property(value)}" for key, value in properties.items() if value
        )
        text = visible_lines(message)
        cut = f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text
        self._out(f"::{level} {properties_text}::{_data(cut)}")

    def _line(self, text: str) -> None:
        """Write a line, escaped so that the runner cannot read it as a command."""
        self._out(without_commands(visible(text)))


def _log_lines(event: Event, report: RunReport) -> Iterator[str]:
    """Yield the lines of the log about a result without a finding, which has no annotation."""
    match event:
        case ObjectDone(ref=ref, outcome=outcome) if outcome is not Outcome.UNCHANGED:
            reason = f" ({event.reason})" if event.reason else ""
            dry = " (dry run)" if report.is_dry else ""
            yield f"{ref} {outcome.text}{dry}{reason}"
        case EntryListed(entry=entry):
            yield f"{entry.ref} {entry.ownership!s}"
        case ObjectStatus(ref=ref, readiness=found):
            yield f"{ref} {found.status.text}: {found.message}"
        case ApplySetListed(name=name, namespace=namespace, objects=objects):
            yield f"{name} in namespace {namespace}: {counted(objects or 0, 'object')}"
        case VersionReport(client=client, server=server):
            yield f"applyprune {client}{f', server {server}' if server else ''}"
        case ArtifactPushed(artifact=artifact):
            yield artifact
        case InputChecked(text=text):
            yield text
        case Explanation(ref=ref, verdict=verdict, reasons=reasons):
            yield f"{ref}: {verdict}"
            for reason in reasons:
                yield f"  {reason}"


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# ``-o gitlab``: https://docs.gitlab.com/ci/testing/code_quality/. GitLab has no other way to show a
# finding at a line of a file. It requires a location, so a finding without a file is shown at the
# root. A fingerprint has no line number: a manifest that moves by a line keeps its findings.


_NO_FILE = "."


class GitLabPrinter:
    """Writes the report at the end; until then a file contains a report of an unfinished run."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output, and write the unfinished report to a file."""
        self._out = target.out
        self._paths = target.repository_paths or RepositoryPaths()
        self._findings: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        self._report = RunReport()
        target.draft(self._text())

    def show(self, event: Event) -> None:
        """Keep the findings of one event."""
        self._report.take(event)
        for one in findings(event, self._report):
            self._add(one)

    def close(self) -> None:
        """Write the report."""
        self._out(self._text())

    def _add(self, found: Finding) -> None:
        text, check, origin = found.text, found.check, found.place
        if isinstance(text, Problem):
            check, text = text.kind, _without_line(text, origin)
        path = self._paths.path(origin) or _NO_FILE
        # Two sets may have findings with the same text.
        about = found.about if found.applyset is None else f"{found.applyset}\n{found.about}"
        key = f"{check}\n{path}\n{about}\n{text}"
        while (digest := hashlib.sha256(key.encode(errors="replace")).hexdigest()) in self._seen:
            # GitLab shows only one of two findings with the same fingerprint.
            key += "\n"
        self._seen.add(digest)
        self._findings.append(
            {
                "description": visible_lines(found.naming(text)),
                "check_name": f"applyprune/{check}",
                "fingerprint": digest,
                "severity": found.levels[1],
                "location": {
                    "path": path,
                    "lines": {"begin": origin.line if origin and origin.line else 1},
                },
            }
        )

    def _text(self) -> str:
        if self._report.finished is not None:
            return to_json(self._findings, indent=2)
        unfinished = {
            "description": "applyprune did not finish",
            "check_name": "applyprune/NotFinished",
            "fingerprint": hashlib.sha256(b"NotFinished").hexdigest(),
            "severity": "blocker",
            "location": {"path": _NO_FILE, "lines": {"begin": 1}},
        }
        return to_json([*self._findings, unfinished], indent=2)


def _without_line(problem: Problem, origin: Origin | None) -> str:
    """Return a problem on one line that stays the same when its manifest moves to another line."""
    message = ": ".join(part for part in (problem.message, problem.reason) if part)
    message += f" ({problem.hint})" if problem.hint else ""
    if origin is None and problem.location and problem.location not in message:
        return f"{problem.location}: {message}"
    return message


# ``-o junit``, in the schema of Jenkins' xunit plugin (junit-10): a set is a test suite, an object
# a test case. What is about a command over many sets has a suite of its own. There is no field for
# file and line, so the text contains them.


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
    suites = list(map(_suite, by_folder(report)))
    # Where no set has a suite, and for what is about none of them.
    if not suites or report.finished is None or _tells(report):
        suites.insert(0, _suite(report))
    time = {"time": f"{report.finished.elapsed:.3f}"} if report.finished else {}
    counts = {key: str(sum(int(one.get(key, "")) for one in suites)) for key in _COUNTS}
    root = ET.Element("testsuites", {"name": _PROGRAM, **counts, **time})
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


_COUNTS = ("tests", "failures", "errors")


def _suite(report: RunReport) -> ET.Element:
    """Return the suite of a set, or of a command."""
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
    cases += [
        _verdict(_case(problem.location or problem.message), "error", problem)
        for problem in report.errors
    ]
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
        "skipped": str(_count(cases, "skipped")),
    }
    # An unfinished run has no duration.
    time = {"time": f"{report.finished.elapsed:.3f}"} if report.finished else {}
    suite = ET.Element("testsuite", {"name": visible_lines(suite_name), **counts, **time})
    if found := _properties(report):
        properties = ET.SubElement(suite, "properties")
        for key, value in found.items():
            ET.SubElement(properties, "property", {"name": key, "value": visible_lines(value)})
    suite.extend(cases)
    if report.warnings:
        warnings = "\n".join(f"warning: {problem}" for problem in report.warnings)
        ET.SubElement(suite, "system-err").text = visible_lines(warnings)
    return suite


def _properties(report: RunReport) -> Mapping[str, str]:
    started = report.started
    found = (
        {}
        if started is None
        else {
            "run": started.run,
            "mode": str(started.mode),
            "dryRun": str(started.dry_run),
            "context": started.context,
            "server": started.server,
        }
    )
    return found if report.key is None else {**found, "input": report.input}


def _tells(report: RunReport) -> bool:
    """Return whether anything is about a command over many sets, and not about one of them."""
    own = (report.objects, report.sets, report.mismatches, report.errors, report.warnings)
    return any(own) or report.verdict is not None


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
        ET.SubElement(case, "system-out").text = visible_lines("\n".join(lines))
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


def _verdict(case: ET.Element, tag: str, problem: Problem) -> ET.Element:
    _add(case, tag, problem.kind, problem.message, str(problem))
    return case


def _case(name: str, ref: Ref | None = None) -> ET.Element:
    kind = _PROGRAM if ref is None else f"{ref.group}/{ref.kind}" if ref.group else ref.kind
    return ET.Element("testcase", {"classname": visible_lines(kind), "name": visible_lines(name)})


def _add(case: ET.Element, tag: str, kind: str, message: str, text: str) -> None:
    ET.SubElement(
        case, tag, {"type": kind, "message": visible_lines(message)}
    ).text = visible_lines(text)


def _count(cases: list[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)

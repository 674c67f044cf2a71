"""``-o gitlab``: a Code Quality report, which GitLab shows in merge requests and pipelines.

A Code Quality report is GitLab's only way to show a finding at a line of a file: its job logs have
no annotations, and it has no page for a job's summary (a note on a merge request needs an API
token). The report is a list of ``description``, ``check_name``, ``fingerprint``, ``severity`` and
``location``: https://docs.gitlab.com/ci/testing/code_quality/. The job keeps it as
``artifacts:reports:codequality``. It contains problems, lifted guards,
differences and consequences.

GitLab requires a location, so a finding without a file is shown at the root. A fingerprint contains
no line number, so that a manifest that has moved by a line keeps its findings.
"""

from __future__ import annotations

import hashlib
from typing import Any

from applyprune.model.events import (
    ApplySetListed,
    ErrorRaised,
    Event,
    Finished,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Outcome,
    Planned,
    PruneBlocked,
    ReadinessReported,
    WarningRaised,
)
from applyprune.model.manifest import Origin
from applyprune.model.plan import Fate
from applyprune.model.problem import Problem
from applyprune.model.text.display import shown
from applyprune.output.collector import UNREADY
from applyprune.output.formats.json import to_json
from applyprune.output.printers import OutputTarget, RepositoryPaths
from applyprune.output.text.consequence_lines import with_origins
from applyprune.output.text.guard_lines import lifted_guards

_NO_FILE = "."
_FAILURES = frozenset({"blocker", "critical", "major"})


class GitLabPrinter:
    """Writes the report at the end; until then a file contains a report of an unfinished run."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output, and write the unfinished report to a file."""
        self._out = target.out
        self._paths = target.repository_paths or RepositoryPaths()
        self._findings: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        self._finished = False
        target.draft(self._text())

    def show(self, event: Event) -> None:
        """Keep the finding of one event, if it has one."""
        match event:
            case ObjectDone(outcome=outcome, problem=problem) if problem is not None:
                severity = "info" if outcome is Outcome.SKIPPED else "critical"
                self._problem(severity, problem, event.origin, str(event.ref))
            case ReadinessReported(problem=problem) if problem is not None:
                self._problem("critical", problem, None, str(event.ref))
            case ObjectStatus(ref=ref, readiness=found) if found.status in UNREADY:
                message = f"{ref}: {found.message}"
                self._add("critical", str(found.status), message, None, str(ref))
            case ApplySetListed(name=name, problem=problem) if problem is not None:
                self._problem("critical", problem, None, name)
            case PruneBlocked(problem=problem):
                self._problem("critical", problem)
            case ErrorRaised(problem=problem):
                self._problem("blocker", problem)
            case WarningRaised(problem=problem):
                self._problem("minor", problem)
            case MismatchFound(mismatch=mismatch):
                about = str(mismatch.ref or "the inventory")
                self._add("major", str(mismatch.type), f"{about}: {mismatch.message}", None, about)
            case Finished(problem=problem):
                self._finished = True
                if problem is not None and not self._has_failed:
                    self._problem("critical", problem)
            case _:
                self._forecast(event)

    def close(self) -> None:
        """Write the report."""
        self._out(self._text())

    def _forecast(self, event: Event) -> None:
        """Keep what would change, each lifted guard and each consequence."""
        match event:
            case Planned(plan=plan):
                for guard, line in lifted_guards(plan):
                    self._add("minor", str(guard), line, None, "")
                for caused, origin in with_origins(plan):
                    message = f"{caused.ref}: {caused.message}"
                    self._add("info", str(caused.kind), message, origin, str(caused.ref))
            case ObjectDiff(ref=ref, fate=fate) if fate is not Fate.LEAVE:
                message = f"{ref} {fate.forecast}"
                self._add("info", str(fate), message, event.origin, str(ref))
            case _:
                pass

    @property
    def _has_failed(self) -> bool:
        return any(finding["severity"] in _FAILURES for finding in self._findings)

    def _problem(
        self, severity: str, problem: Problem, origin: Origin | None = None, about: str = ""
    ) -> None:
        # Without the line: otherwise a problem that moves to another line is a new finding.
        message = ": ".join(part for part in (problem.message, problem.reason) if part)
        message += f" ({problem.hint})" if problem.hint else ""
        place = problem.origin or origin
        if place is None and problem.location and problem.location not in message:
            message = f"{problem.location}: {message}"
        self._add(severity, problem.kind, message, place, about)

    def _add(
        self, severity: str, check: str, message: str, origin: Origin | None, about: str
    ) -> None:
        path = self._paths.path(origin) or _NO_FILE
        key = f"{check}\n{path}\n{about}\n{message}"
        while (digest := hashlib.sha256(key.encode(errors="replace")).hexdigest()) in self._seen:
            # GitLab shows only one of two findings with the same fingerprint.
            key += "\n"
        self._seen.add(digest)
        self._findings.append(
            {
                "description": shown(message),
                "check_name": f"applyprune/{check}",
                "fingerprint": digest,
                "severity": severity,
                "location": {
                    "path": path,
                    "lines": {"begin": origin.line if origin and origin.line else 1},
                },
            }
        )

    def _text(self) -> str:
        if self._finished:
            return to_json(self._findings, indent=2)
        unfinished = {
            "description": "applyprune did not finish",
            "check_name": "applyprune/NotFinished",
            "fingerprint": hashlib.sha256(b"NotFinished").hexdigest(),
            "severity": "blocker",
            "location": {"path": _NO_FILE, "lines": {"begin": 1}},
        }
        return to_json([*self._findings, unfinished], indent=2)

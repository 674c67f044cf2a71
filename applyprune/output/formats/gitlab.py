"""``-o gitlab``: a Code Quality report, which GitLab shows in merge requests and pipelines.

It is GitLab's only form of a remark at a line of a file: its job logs know no annotations, and it
has no page to which a job could add a summary (notes to a merge request need a token of the API,
which is not ours to have). The report is a list of ``description``, ``check_name``,
``fingerprint``, ``severity`` and ``location``: https://docs.gitlab.com/ci/testing/code_quality/.
The job keeps it as ``artifacts:reports:codequality``; objects that went well are not in it.

A location is obligatory, so what stands in no file is shown at the root. A fingerprint holds no
line: a manifest that has moved down by a line is the same remark still.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from applyprune.model.display import shown
from applyprune.model.events import (
    ApplySetListed,
    ErrorRaised,
    Finished,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Outcome,
    PruneBlocked,
    ReadinessReported,
    WarningRaised,
)
from applyprune.output.collector import UNREADY
from applyprune.output.formats.json import dumped
from applyprune.output.printers import Places

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from applyprune.model.manifest import Origin
    from applyprune.model.problem import Problem
    from applyprune.output.printers import OutputTarget

_NO_FILE = "."
_FAILURES = frozenset({"blocker", "critical", "major"})


class GitLabPrinter:
    """Writes the report at the end; until then a file holds one that says that it is none."""

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the report goes."""
        self._out = screen.out
        self._places = screen.places or Places()
        self._remarks: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        self._finished = False
        screen.draft(self._text())

    def show(self, event: Event) -> None:
        """Keep what an event gives reason to remark."""
        match event:
            case ObjectDone(outcome=outcome, problem=problem) if problem is not None:
                severity = "info" if outcome is Outcome.SKIPPED else "critical"
                self._problem(severity, problem, event.origin, str(event.ref))
            case ReadinessReported(problem=problem) if problem is not None:
                self._problem("critical", problem, None, str(event.ref))
            case ObjectStatus(ref=ref, readiness=found) if found.status in UNREADY:
                told = f"{ref}: {found.message}"
                self._add("critical", str(found.status), told, None, str(ref))
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
            case ObjectDiff(ref=ref, outcome=outcome) if outcome is not Outcome.UNCHANGED:
                told = f"{ref} {outcome.forecast}"
                self._add("info", str(outcome), told, event.origin, str(ref))
            case Finished(problem=problem):
                self._finished = True
                if problem is not None and not self._has_failed:
                    self._problem("critical", problem)
            case _:
                pass

    def close(self) -> None:
        """Write the report."""
        self._out(self._text())

    @property
    def _has_failed(self) -> bool:
        return any(one["severity"] in _FAILURES for one in self._remarks)

    def _problem(
        self, severity: str, problem: Problem, origin: Origin | None = None, about: str = ""
    ) -> None:
        # The place is told by itself: with it in the text a line that moves is another remark.
        told = ": ".join(part for part in (problem.message, problem.reason) if part)
        told += f" ({problem.hint})" if problem.hint else ""
        place = problem.origin or origin
        if place is None and problem.location and problem.location not in told:
            told = f"{problem.location}: {told}"
        self._add(severity, problem.kind, told, place, about)

    def _add(self, severity: str, check: str, told: str, origin: Origin | None, about: str) -> None:
        path = self._places.path(origin) or _NO_FILE
        key = f"{check}\n{path}\n{about}\n{told}"
        while (print_ := hashlib.sha256(key.encode(errors="replace")).hexdigest()) in self._seen:
            # The same remark twice would be shown once.
            key += "\n"
        self._seen.add(print_)
        self._remarks.append(
            {
                "description": shown(told),
                "check_name": f"applyprune/{check}",
                "fingerprint": print_,
                "severity": severity,
                "location": {
                    "path": path,
                    "lines": {"begin": origin.line if origin and origin.line else 1},
                },
            }
        )

    def _text(self) -> str:
        if self._finished:
            return dumped(self._remarks, indent=2)
        unfinished = {
            "description": "applyprune has not come to its end",
            "check_name": "applyprune/NotFinished",
            "fingerprint": hashlib.sha256(b"NotFinished").hexdigest(),
            "severity": "blocker",
            "location": {"path": _NO_FILE, "lines": {"begin": 1}},
        }
        return dumped([*self._remarks, unfinished], indent=2)

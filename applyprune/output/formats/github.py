"""``-o github``: annotations as workflow commands, and a summary of the run as Markdown.

A workflow command is a line ``::error file=a.yaml,line=3,col=5,title=T::MESSAGE``. The runner of
GitHub Actions obeys each line that begins with ``::`` or contains ``##[``, so untrusted text is
escaped. GitHub shows only the first 10 errors, 10 warnings and 10 notices of a step as annotations,
so the summary repeats all of them. An unchanged object has no line. Everything goes to standard
output, because a step has one log for both streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    Outcome,
    Planned,
    PruneBlocked,
    ReadinessReported,
    WarningRaised,
)
from applyprune.model.manifest import Origin
from applyprune.model.options import DryRun
from applyprune.model.plan import Fate
from applyprune.model.problem import Problem
from applyprune.model.reports.pushed_artifact import ArtifactPushed
from applyprune.model.reports.version import VersionReport
from applyprune.model.text.display import shown, visible
from applyprune.output.collector import UNREADY, RunReport
from applyprune.output.formats.markdown import conclusion, page
from applyprune.output.printers import OutputTarget, RepositoryPaths
from applyprune.output.text.consequence_lines import with_origins
from applyprune.output.text.guard_lines import lifted_guards

if TYPE_CHECKING:
    from pathlib import Path


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
        """Write the annotation or the line of one event."""
        self._report.take(event)
        match event:
            case ObjectDone():
                self._done(event)
            case ReadinessReported(ref=ref, problem=problem) if problem is not None:
                self._problem("error", f"{ref.short} is not ready", problem)
            case ObjectStatus(ref=ref, readiness=found) if found.status in UNREADY:
                self._command("error", found.status.text, f"{ref}: {found.message}", None)
            case ApplySetListed(name=name, problem=problem) if problem is not None:
                self._problem("error", f"the set {name}", problem)
            case WarningRaised(problem=problem):
                self._problem("warning", "applyprune", problem)
            case PruneBlocked(problem=problem):
                self._problem("error", "the prune was refused", problem)
            case ErrorRaised(problem=problem):
                self._problem("error", "applyprune", problem)
            case MismatchFound(mismatch=mismatch):
                about = f"{mismatch.ref}: " if mismatch.ref else ""
                message = f"{about}{mismatch.message} → {mismatch.repair.text}"
                self._command("warning", mismatch.type.text, message, None)
            case Finished():
                if (verdict := self._report.verdict) is not None:
                    self._problem("error", "applyprune", verdict)
                self._line(conclusion(self._report))
            case _:
                self._forecast(event)

    def close(self) -> None:
        """Append the summary to its file; only warn if the file cannot be written."""
        if self._summary is None:
            return
        try:
            self._append(self._summary)
        except OSError as error:
            message = f"{self._summary}: {error.strerror}"
            self._command("warning", "the summary could not be written", message, None)

    def _forecast(self, event: Event) -> None:
        """Write a notice for what would change, each lifted guard and each consequence."""
        match event:
            case Planned(plan=plan):
                for _, line in lifted_guards(plan):
                    self._command("notice", "a lifted guard", line, None)
                for caused, origin in with_origins(plan):
                    self._command("notice", caused.ref.short, caused.message, origin)
            case ObjectDiff(ref=ref, fate=fate) if fate is not Fate.LEAVE:
                self._command("notice", ref.short, f"{ref} {fate.forecast}", event.origin)
            case _:
                self._inspected(event)

    def _inspected(self, event: Event) -> None:
        """Write a result without a problem: a line of the log, no annotation."""
        match event:
            case EntryListed(entry=entry):
                self._line(f"{entry.ref} {entry.ownership!s}")
            case ObjectStatus(ref=ref, readiness=found):
                self._line(f"{ref} {found.status.text}: {found.message}")
            case ApplySetListed(name=name, namespace=namespace, objects=objects):
                self._line(f"{name} in namespace {namespace}: {objects} objects")
            case VersionReport(client=client, server=server):
                self._line(f"applyprune {client}{f', server {server}' if server else ''}")
            case ArtifactPushed(artifact=artifact):
                self._line(artifact)
            case Explanation(ref=ref, verdict=verdict, reasons=reasons):
                self._line(f"{ref}: {verdict}")
                for reason in reasons:
                    self._line(f"  {reason}")
            case _:
                pass

    def _append(self, path: Path) -> None:
        before = path.stat().st_size if path.exists() else 0
        if text := page(self._report, ROOM - before - 1):
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def _done(self, event: ObjectDone) -> None:
        if event.problem is not None:
            title = f"{event.ref.short} {event.outcome.text}"
            level = "warning" if event.outcome is Outcome.SKIPPED else "error"
            self._problem(level, title, event.problem, event.origin)
        elif event.outcome is not Outcome.UNCHANGED:
            reason = f" ({event.reason})" if event.reason else ""
            started = self._report.started
            dry = " (dry run)" if started and started.dry_run is not DryRun.OFF else ""
            self._line(f"{event.ref} {event.outcome.text}{dry}{reason}")

    def _problem(
        self, level: str, title: str, problem: Problem, origin: Origin | None = None
    ) -> None:
        self._command(level, title, str(problem), problem.origin or origin)

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
        text = shown(message)
        cut = f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text
        self._out(f"::{level} {properties_text}::{_data(cut)}")

    def _line(self, text: str) -> None:
        """Write a line, escaped so that the runner cannot read it as a command."""
        line = visible(text).replace("##[", "## [")
        self._out(f"- {line}" if line.lstrip().startswith("::") else line)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

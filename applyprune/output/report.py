"""Collect a stream of events into one report, for formats that are written as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from applyprune.errors import ApplypruneError, RunFailed
from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    ErrorRaised,
    Event,
    Explanation,
    Finished,
    MismatchFound,
    ObjectBelongs,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Planned,
    PruneBlocked,
    Readiness,
    ReadinessReported,
    RunListed,
    SetEvent,
    Started,
    Status,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import Mismatch
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import Origin, Problem
from applyprune.model.reports import (
    ArtifactPushed,
    ImportEnded,
    InputChecked,
    ManifestMade,
    OwnerFound,
    VersionReport,
)
from applyprune.output.terminal import table
from applyprune.planning.plan import verdict
from applyprune.values import hiding


class RunReport(Struct):
    """The result of a run.

    ``objects`` has a report for each object, ``plan`` is the plan, ``artifact`` is what was
    pushed, ``input_checked`` is what was checked without a cluster, and ``warnings`` is what the
    user should know and fails nothing. ``finished`` is None until the run has ended. Where one
    command runs many sets, ``members`` has the report of each, with ``input``, its folder.
    """

    started: Started | None = None
    plan: Plan | None = None
    objects: list[ObjectReport] = field(default_factory=list)
    sets: dict[tuple[str, str], ApplySetListed] = field(default_factory=dict)
    runs: list[RunListed] = field(default_factory=list)
    belongs: list[ObjectBelongs] = field(default_factory=list)
    artifact: ArtifactPushed | None = None
    input_checked: InputChecked | None = None
    manifests: list[ManifestMade] = field(default_factory=list)
    owners: list[OwnerFound] = field(default_factory=list)
    imported: ImportEnded | None = None
    warnings: list[Problem] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    versions: VersionReport | None = None
    errors: list[Problem] = field(default_factory=list)
    prune_blocked: Problem | None = None
    members: dict[SetKey, RunReport] = field(default_factory=dict)
    input: str = ""
    finished: Finished | None = None
    _last: dict[Ref, ObjectReport] = field(default_factory=dict)

    __repr__ = hiding("_last")

    def __str__(self) -> str:
        """Return a table of the objects, and what the whole has come to."""
        return "\n".join(filter(None, (table(_COLUMNS, self._rows()), self._summary())))

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        from html import escape

        head, *lines = (_COLUMNS, *self._rows())
        rows = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
        rows += [
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines
        ]
        return f"<table>{''.join(rows)}</table><p>{escape(self._summary())}</p>"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                one.ref.namespace or "-",
                one.ref.short,
                one.outcome.text if one.outcome is not None else "-",
                one.problem.message if one.problem is not None else one.reason,
            )
            for one in self.objects
        ]

    def _summary(self) -> str:
        counts = self.finished.counts if self.finished is not None else {}
        done = ", ".join(f"{count} {outcome.text}" for outcome, count in counts.items())
        ended = f"exit code {self.exit_code}" if self.finished is not None else "not finished"
        blocked = [] if self.prune_blocked is None else [self.prune_blocked]
        problems = [str(one) for one in (*blocked, *self.errors)]
        return "\n".join((f"{self.name[0]}: {'; '.join(filter(None, (done, ended)))}", *problems))

    @property
    def name(self) -> tuple[str, str]:
        """Return the set's name and namespace, both empty if no event has named it."""
        if self.started is not None:
            return self.started.name, self.started.namespace
        named: list[EntryListed | ApplySetListed] = [
            report.entry for report in self.objects if report.entry
        ]
        if len(self.sets) == 1 and any(report.status for report in self.objects):
            # Objects have a status, so the run was about this set.
            named += self.sets.values()
        return next(((event.name, event.namespace) for event in named), ("", ""))

    @property
    def mode(self) -> Mode:
        """Return what the run does; APPLY without a run."""
        return Mode.APPLY if self.started is None else self.started.mode

    @property
    def changed(self) -> list[ObjectReport]:
        """Return the objects that were changed, created or deleted; in a dry run, would be."""
        return [
            report
            for report in self.objects
            if report.outcome is not None and report.outcome.is_change
        ]

    @property
    def problems(self) -> list[Problem]:
        """Return what failed: objects, the prune as a whole, the run as a whole."""
        blocked = [] if self.prune_blocked is None else [self.prune_blocked]
        return [*self._failures(), *blocked, *self.errors]

    @property
    def exit_code(self) -> int:
        """Return the exit code that the command line ends with: 0 for a success."""
        return RunFailed.exit_code if self.finished is None else self.finished.exit_code

    def raise_for_failures(self) -> None:
        """Raise RunFailed, ConflictsFound, NotReady or PruneRefused if anything failed.

        The error has a note for each failure, at most ten.
        """
        done = self.finished.counts if self.finished is not None else {}
        error = verdict(
            self._failures(), self.prune_blocked, dry=self.is_dry, mode=self.mode, done=done
        )
        if error is not None:
            _add_notes(error, self)
            raise error

    @property
    def is_dry(self) -> bool:
        """Return whether the run only shows what another one would do."""
        return self.started is not None and self.started.dry_run is not DryRun.OFF

    @property
    def verdict(self) -> Problem | None:
        """Return the problem of the last event, unless an earlier event has reported a failure."""
        is_reported = (
            self.errors
            or self.prune_blocked
            or self.mismatches
            or any(applyset.problem for applyset in self.sets.values())
            or any(
                report.is_unready or (report.problem and report.outcome is not Outcome.SKIPPED)
                for report in self.objects
            )
        )
        return None if is_reported or self.finished is None else self.finished.problem

    def take(self, event: Event) -> None:
        """Add one event."""
        match event:
            case Started():
                self.started = event
            case Planned(plan=plan):
                self.plan = plan
            case WarningRaised(problem=problem):
                self.warnings.append(problem)
            case MismatchFound(mismatch=mismatch):
                self.mismatches.append(mismatch)
            case PruneBlocked(problem=problem):
                self.prune_blocked = problem
            case ErrorRaised(problem=problem):
                self.errors.append(problem)
            case ApplySetListed():
                # With --watch a set is reported again whenever it has changed.
                self.sets[event.namespace, event.name] = event
            case SetEvent(key=key, input=folder):
                self.members.setdefault(key, RunReport(input=folder)).take(event.event)
            case Finished():
                self.finished = event
            case _:
                self._of_an_object(event)

    def _failures(self) -> list[Problem]:
        return [report.problem for report in self.objects if report.problem is not None]

    def _of_an_object(self, event: Event) -> None:
        match event:
            case ObjectDone():
                # A run may process an object twice. Then each result has a report of its own.
                self._report_of(event.ref, single="result").result = event
            case ReadinessReported():
                self._report_of(event.ref).wait_result = event
            case ObjectDiff():
                self._report_of(event.ref).diff = event
            case ObjectStatus():
                self._report_of(event.ref).status = event
            case EntryListed():
                self._report_of(event.entry.ref).entry = event
            case Explanation():
                self._report_of(event.ref).explanation = event
            case _:
                self._of_no_run(event)

    def _of_no_run(self, event: Event) -> None:
        """Take what a verb without a run has listed or found."""
        match event:
            case RunListed():
                self.runs.append(event)
            case ObjectBelongs():
                self.belongs.append(event)
            case VersionReport():
                self.versions = event
            case ArtifactPushed():
                self.artifact = event
            case InputChecked():
                self.input_checked = event
            case ManifestMade():
                self.manifests.append(event)
            case OwnerFound():
                self.owners.append(event)
            case ImportEnded():
                self.imported = event

    def _report_of(self, ref: Ref, single: str = "") -> ObjectReport:
        """Return the report to add to: a new one if the part ``single`` is already taken."""
        report = self._last.get(ref)
        if report is None or (single and getattr(report, single) is not None):
            report = self._last[ref] = ObjectReport(ref)
            self.objects.append(report)
        return report


_COLUMNS = ("NAMESPACE", "OBJECT", "OUTCOME", "REASON")
UNREADY = frozenset({Status.FAILED, Status.NOT_FOUND, Status.OTHER_SET})
"""The states that count as failures in a status; the others may pass with time."""


class ObjectReport(Struct):
    """The result for one object.

    ``ref`` names it. ``result``, ``wait_result``, ``diff``, ``status``, ``entry`` and
    ``explanation`` are the events about it, or None.
    """

    ref: Ref
    result: ObjectDone | None = None
    wait_result: ReadinessReported | None = None
    diff: ObjectDiff | None = None
    status: ObjectStatus | None = None
    entry: EntryListed | None = None
    explanation: Explanation | None = None

    @property
    def origin(self) -> Origin | None:
        """Return the place of its manifest in the input."""
        parts = (self.result, self.diff, self.explanation)
        return next((part.origin for part in parts if part is not None and part.origin), None)

    @property
    def problem(self) -> Problem | None:
        """Return why the object failed, or why the wait for it failed."""
        done = self.result.problem if self.result else None
        return done or (self.wait_result.problem if self.wait_result else None)

    @property
    def readiness(self) -> Readiness | None:
        """Return its last known readiness, from a status or from the wait for it."""
        part = self.status or self.wait_result
        return part.readiness if part else None

    @property
    def reason(self) -> str:
        """Return the reason for its outcome, in words; may be empty."""
        return self.result.reason if self.result else ""

    @property
    def outcome(self) -> Outcome | None:
        """Return its outcome, None if the run did not process it."""
        return self.result.outcome if self.result else None

    @property
    def is_unready(self) -> bool:
        """Return whether a status found the object failed or missing."""
        return self.status is not None and self.status.readiness.status in UNREADY


def report_of(events: Iterable[Event]) -> RunReport:
    """Return the report of a run."""
    report = RunReport()
    for event in events:
        report.take(event)
    return report


_NOTES = 10


def _add_notes(error: ApplypruneError, report: RunReport) -> None:
    for problem in report.problems[:_NOTES]:
        error.add_note(str(problem))

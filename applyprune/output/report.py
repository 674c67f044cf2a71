"""Collect a stream of events into one report, for formats that are written as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.reports import (
    ArtifactPushed,
    ImportEnded,
    InputChecked,
    ManifestMade,
    OwnerFound,
    VersionReport,
)
from applyprune.model.text import and_more, counted
from applyprune.output.terminal import table
from applyprune.planning.plan import verdict
from applyprune.values import hiding

if TYPE_CHECKING:
    from applyprune.output.results import SetResult


class RunReport(Struct):
    """The result of a run.

    ``objects`` has a report for each object, ``plan`` is the plan, ``artifact`` is what was
    pushed, ``input_checked`` is what was checked without a cluster, and ``warnings`` is what the
    user should know and fails nothing. ``finished`` is None until the run has ended. Where one
    command runs many sets, ``members`` has the report of each, with ``key``, which set it is, and
    ``input``, its folder; the lists of the command itself then have what is about no single set.
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
    key: SetKey | None = None
    input: str = ""
    finished: Finished | None = None
    _last: dict[Ref, ObjectReport] = field(default_factory=dict)

    __repr__ = hiding("_last")

    def __str__(self) -> str:
        """Return a table of the objects, or of many sets, and what the whole has come to."""
        head, *rows = self._rows()
        return "\n".join(filter(None, (table(head, rows), self._summary())))

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        from html import escape

        head, *lines = self._rows()
        rows = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
        rows += [
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines
        ]
        return f"<table>{''.join(rows)}</table><p>{escape(self._summary())}</p>"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Return the table as rows, the first of which is its head."""
        if self.members:
            return [_COLUMNS_OF_SETS, *map(_row_of_set, by_folder(self))]
        return [_COLUMNS, *map(_row, self.objects)]

    def _summary(self) -> str:
        counts = self.finished.counts if self.finished is not None else {}
        done = ", ".join(f"{count} {outcome.text}" for outcome, count in counts.items())
        ended = f"exit code {self.exit_code}" if self.finished is not None else "not finished"
        blocked = [] if self.prune_blocked is None else [self.prune_blocked]
        problems = [str(one) for one in (*blocked, *self.errors)]
        about = counted(len(self.members), "set") if self.members else self.name[0]
        return "\n".join((f"{about}: {'; '.join(filter(None, (done, ended)))}", *problems))

    @property
    def name(self) -> tuple[str, str]:
        """Return the set's name and namespace, both empty if no event has named it, or many."""
        if self.started is not None:
            return self.started.name, self.started.namespace
        if self.key is not None:
            return self.key.name, self.key.namespace
        named: list[EntryListed | ApplySetListed] = [
            report.entry for report in self.objects if report.entry
        ]
        if len(self.sets) == 1 and any(report.status for report in self.objects):
            # Objects have a status, so the run was about this set.
            named += self.sets.values()
        return next(((event.name, event.namespace) for event in named), ("", ""))

    @property
    def mode(self) -> Mode:
        """Return what the run does, which is the same for all sets; APPLY without a run."""
        modes = (one.started.mode for one in with_members(self) if one.started is not None)
        return next(modes, Mode.APPLY)

    @property
    def changed(self) -> list[ObjectReport]:
        """Return the objects that were changed, created or deleted; in a dry run, would be.

        They are those of all sets.
        """
        return [
            report
            for one in with_members(self)
            for report in one.objects
            if report.outcome is not None and report.outcome.is_change
        ]

    @property
    def problems(self) -> list[Problem]:
        """Return what failed: objects, the prune as a whole, the run as a whole; in all sets."""
        return [problem for one in with_members(self) for problem in _own_problems(one)]

    @property
    def is_failed(self) -> bool:
        """Return whether anything has failed or was refused."""
        return bool(self.problems or (self.finished is not None and self.finished.problem))

    @property
    def failed_sets(self) -> list[SetKey]:
        """Return which of many sets have failed, were refused, or were not run."""
        return [key for key, one in self.members.items() if one.is_failed]

    @property
    def exit_code(self) -> int:
        """Return the exit code that the command line ends with: 0 for a success."""
        return RunFailed.exit_code if self.finished is None else self.finished.exit_code

    def raise_for_failures(self) -> None:
        """Raise RunFailed, ConflictsFound, NotReady or PruneRefused if anything failed.

        The error has a note for each failure, at most ten. Of many sets, it names those that have
        failed, and is RunFailed unless all have failed with one of the other errors.
        """
        error = _error_of_sets(self) if self.members else _error_of(self)
        if error is not None:
            _add_notes(error, self)
            raise error

    @property
    def is_dry(self) -> bool:
        """Return whether the run only shows what another one would do."""
        starts = (one.started for one in with_members(self) if one.started is not None)
        return any(one.dry_run is not DryRun.OFF for one in starts)

    @property
    def verdict(self) -> Problem | None:
        """Return the problem of the last event, unless an earlier event has reported a failure.

        What has failed in one of many sets is reported by the events of that set.
        """
        problem = self.finished.problem if self.finished is not None else None
        if self.members and problem is not None and problem.kind is ProblemKind.INTERRUPTED:
            # It says of all sets which are done.
            return problem
        is_reported = (
            self.failed_sets
            or self.errors
            or self.prune_blocked
            or self.mismatches
            or any(applyset.problem for applyset in self.sets.values())
            or any(
                report.is_unready or (report.problem and report.outcome is not Outcome.SKIPPED)
                for report in self.objects
            )
        )
        return None if is_reported else problem

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
                one = self.members.setdefault(key, RunReport(key=key, input=folder))
                one.take(event.event)
            case Finished():
                self.finished = event
            case _:
                self._of_an_object(event)

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
_COLUMNS_OF_SETS = ("SET", "NAMESPACE", "INPUT", "RESULT")


def _row(one: ObjectReport) -> tuple[str, str, str, str]:
    outcome = one.outcome.text if one.outcome is not None else "-"
    reason = one.problem.message if one.problem is not None else one.reason
    return one.ref.namespace or "-", one.ref.short, outcome, reason


def _row_of_set(report: RunReport) -> tuple[str, str, str, str]:
    name, namespace = report.name
    return name, namespace or "-", report.input or "-", str(result_of(report))


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


def with_members(report: RunReport) -> list[RunReport]:
    """Return a report, and those of its sets if there are many."""
    return [report, *report.members.values()]


def result_of(report: RunReport) -> SetResult:
    """Return how the run of one of many sets has ended, in words."""
    from applyprune.output.results import SetResult

    return SetResult(
        report.finished,
        report.mode,
        report.is_dry,
        report.plan,
        report.prune_blocked,
        report.errors,
    )


def by_folder(report: RunReport) -> list[RunReport]:
    """Return the reports of many sets by their folders; sets side by side end in any order."""
    return sorted(report.members.values(), key=lambda one: (one.input.split("/"), one.name))


def report_of(events: Iterable[Event]) -> RunReport:
    """Return the report of a run."""
    report = RunReport()
    for event in events:
        report.take(event)
    return report


def _failures(report: RunReport) -> list[Problem]:
    return [one.problem for one in report.objects if one.problem is not None]


def _own_problems(report: RunReport) -> list[Problem]:
    blocked = [] if report.prune_blocked is None else [report.prune_blocked]
    return [*_failures(report), *blocked, *report.errors]


def _error_of(report: RunReport) -> ApplypruneError | None:
    done = report.finished.counts if report.finished is not None else {}
    refusal, mode = report.prune_blocked, report.mode
    return verdict(_failures(report), refusal, dry=report.is_dry, mode=mode, done=done)


def _error_of_sets(report: RunReport) -> ApplypruneError | None:
    """Return the error of a command over many sets, which names those that have failed."""
    failed = report.failed_sets
    own = report.errors[0] if report.errors else report.verdict
    if not failed:
        return None if own is None else RunFailed(own.message, reason=own.reason, hint=own.hint)
    members = [report.members[key] for key in failed]
    errors = [None if one.errors else _error_of(one) for one in members]
    kinds = {RunFailed if error is None else type(error) for error in errors}
    kind = kinds.pop() if len(kinds) == 1 and own is None else RunFailed
    count = f"{len(failed)} of the {len(report.members)} sets failed"
    return kind(f"{count}: {and_more(failed, _NOTES)}")


_NOTES = 10


def _add_notes(error: ApplypruneError, report: RunReport) -> None:
    notes = [str(problem) for problem in _own_problems(report)]
    for key, one in report.members.items():
        notes += [f"{key}: {problem}" for problem in one.problems]
    for note in notes[:_NOTES]:
        error.add_note(note)

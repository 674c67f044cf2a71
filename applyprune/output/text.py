"""Events as lines: one for each object, in kubectl's words, and a summary at the end.

An object outside the set's own namespace is printed with its namespace. Unchanged objects are only
counted unless the user asks for them: they would hide the changes. So are objects that share the
reason of a failure: the first is printed, the others are named together at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

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
    ObjectStuck,
    Planned,
    PruneBlocked,
    ReadinessReported,
    RetryReported,
    RunListed,
    SetEvent,
    Started,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.inventory import Mismatch
from applyprune.model.object_yaml import as_manifest
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.reports import (
    ArtifactPushed,
    ImportEnded,
    InputChecked,
    ManifestMade,
    OwnerFound,
    VersionReport,
)
from applyprune.model.text import and_more, visible
from applyprune.output.inspection import (
    InspectionPrinter,
    belongs_lines,
    imported_lines,
    owner_table,
    run_lines,
    run_table,
)
from applyprune.output.plan_text import (
    ConsequenceLines,
    lifted_text,
    plan_notes,
    record_lines,
    shared_notes,
    unchecked_line,
    words_of,
)
from applyprune.output.printers import OutputTarget
from applyprune.output.problem_text import (
    Repeated,
    problem_text,
    some_names,
    without_name,
)
from applyprune.output.terminal import Colour, fitted, styled, table, wrapped
from applyprune.planning.applyset import ApplySetIdentity

_COLOURS = {
    Outcome.CREATED: Colour.GREEN,
    Outcome.UPDATED: Colour.YELLOW,
    Outcome.RECREATED: Colour.YELLOW,
    Outcome.PRUNED: Colour.MAGENTA,
    Outcome.DELETED: Colour.MAGENTA,
    Outcome.FAILED: Colour.RED,
    Outcome.SKIPPED: Colour.RED,
}

_DRY = {DryRun.SERVER: " (server dry run)", DryRun.CLIENT: " (dry run)"}
_SCROLLED = 20
"""Lines after which an error has probably scrolled off the screen."""
_REPEATED = 10
_NEXT_LINE = "\n  "


class TextPrinter:
    """Writes each event at once: objects and the summary to ``out``, the rest to ``err``."""

    def __init__(
        self, target: OutputTarget, *, forecasts: bool = False, shows_drift: bool = False
    ) -> None:
        """Take the output; write nothing yet.

        With ``forecasts``, say of each object what would happen to it, not what has happened. With
        ``shows_drift``, list all drifted fields below a table.
        """
        self._target = target
        self._forecasts = forecasts
        self._name = ""
        self._namespace = ""
        self._dry = ""
        self._mode = Mode.APPLY
        self._found = 0
        self._mismatches: dict[tuple[str, str, str], list[Mismatch]] = {}
        self._repeated = Repeated()
        self._not_pruned: dict[str, list[Ref]] = {}
        self._inspection = InspectionPrinter(target, shows_drift=shows_drift)
        self._listed: list[EntryListed] = []
        self._runs: list[RunListed] = []
        self._owners: list[OwnerFound] = []
        self._has_error = False
        self._lines = 0
        self._failures: list[tuple[Ref, int]] = []
        self._remaining: list[Ref] = []
        self._unchanged: set[Ref] = set()
        """What was only counted, and did not have to become ready."""
        self._consequences = ConsequenceLines()
        self._notes: Mapping[str, str] = {}
        """What a dry run has to say about several objects."""
        self._plan = Plan((), ())
        self._shows: Mapping[type[Event], Callable[..., None]] = {
            Started: self._started,
            Planned: self._planned,
            ObjectDone: self._object,
            ReadinessReported: self._readiness,
            # The display says it, which knows what has been said.
            ObjectStuck: lambda event: self._unchanged.discard(event.ref),
            RetryReported: self._retry,
            WarningRaised: self._warning,
            MismatchFound: self._mismatch,
            PruneBlocked: self._prune_blocked,
            ObjectStatus: self._inspection.show,
            ApplySetListed: self._inspection.show,
            Explanation: self._inspection.show,
            VersionReport: self._inspection.show,
            EntryListed: self._listed.append,
            RunListed: self._runs.append,
            ObjectBelongs: self._belongs,
            ArtifactPushed: lambda event: self._out(event.artifact),
            InputChecked: lambda event: self._out(event.text),
            ManifestMade: self._manifest,
            OwnerFound: self._owners.append,
            ImportEnded: self._imported,
            ErrorRaised: self._error,
            Finished: self._finished,
        }

    def show(self, event: Event) -> None:
        """Write one event; some events have no text."""
        if (show := self._shows.get(type(event))) is not None:
            show(event)

    def close(self) -> None:
        """Write the tables: the width of a column depends on all rows."""
        self.name_others()
        self._inspection.close()
        if self._listed:
            self._target.out(_entry_table(self._listed, self._target))
        self._owner_table()
        if self._runs:
            self._target.out(run_table(self._runs, self._target))
        # They refer to this printer, and so would keep the plan of each of many sets.
        self._shows = {}

    def _out(self, line: str, word: str = "", colour: Colour | None = None) -> None:
        """Write one line, wrapped on a terminal; escape line ends in it, and colour a word."""
        lines = fitted(line, self._target.out_width)
        self._lines += len(lines)
        text = "\n".join(lines)
        if word and colour:
            text = text.replace(f" {word}", f" {styled(word, colour)}", 1)
        self._target.out(text)

    def _manifest(self, event: ManifestMade) -> None:
        if event.manifest is not None:
            text = as_manifest(event.manifest).removesuffix("\n")
            self._target.out(f"---\n{text}")

    def _imported(self, event: ImportEnded) -> None:
        self._owner_table()
        # Beside manifests on standard output, it is a message.
        write = self._target.out if event.path else self._target.err
        for line in () if self._target.quiet else imported_lines(event):
            write("\n".join(fitted(line, self._target.out_width)))

    def _owner_table(self) -> None:
        if self._owners:
            self._target.out(owner_table(self._owners, self._target))
        self._owners = []

    def name_others(self) -> None:
        """Write the objects that were held back because others had the same reason."""
        self._name_mismatches()
        for reason, refs in self._not_pruned.items():
            self._not_pruned_lines(reason, refs)
        self._not_pruned = {}
        for line in self._repeated.pop_all(self._namespace):
            text = fitted(f"error: {line}", self._target.error_width)
            self._lines += len(text)
            text[0] = text[0].replace("error:", styled("error:", Colour.RED), 1)
            self._target.err("\n".join(text))

    def _names(self, refs: Sequence[Ref]) -> None:
        """Write the names of several objects below a line about them."""
        names = some_names(refs, self._namespace)
        for line in wrapped(names, self._target.out_width, "  "):
            self._out(line)

    def _problem(self, label: str, problem: Problem) -> None:
        text = problem_text(label, problem, self._target.error_width)
        self._lines += text.count("\n") + 1
        self._target.err(text)

    def _started(self, event: Started) -> None:
        self._mode, self._name, self._namespace = event.mode, event.name, event.namespace
        self._dry = _DRY.get(event.dry_run, "")

    def _planned(self, event: Planned) -> None:
        self._plan = event.plan
        if not self._target.quiet:
            for text in lifted_text(event.plan, self._target.error_width):
                self._target.err(text)
            # Without a dry run, no line of an object says so.
            if not self._target.plan_is_shown:
                unchecked = "" if self._dry else unchecked_line(event.plan, self._namespace)
                for line in filter(None, (unchecked, *plan_notes(event.plan, self._namespace))):
                    wrapped_note = fitted(line, self._target.error_width)
                    self._target.err("\n".join(wrapped_note))
        if self._dry:
            self._consequences.take_plan(event.plan)
            self._notes = shared_notes(event.plan, self._namespace)

    def _object(self, event: ObjectDone) -> None:
        self._name_mismatches()
        consequences = self._consequences.pop(event.ref)
        # A change of the inventory names the one object that it is about.
        is_shown = self._target.verbose or self._mode is Mode.REPAIR
        if event.outcome is Outcome.UNCHANGED and not is_shown:
            self._unchanged.add(event.ref)
            return
        if event.outcome is Outcome.ORPHANED:
            self._remaining.append(event.ref)
        if not self._target.verbose:
            if event.problem is not None and self._repeated.take(
                event.ref, event.problem, event.outcome
            ):
                return
            if event.outcome is Outcome.NOT_PRUNED and event.reason and not consequences:
                self._not_pruned.setdefault(event.reason, []).append(event.ref)
                return
        self._object_line(event, consequences)

    def _object_line(self, event: ObjectDone, consequences: Sequence[str] = ()) -> None:
        word = self._word(event.outcome)
        dry = "" if self._forecasts else self._dry
        reason = f" ({event.reason})" if event.reason and event.reason not in self._notes else ""
        line = f"{kubectl_name(event.ref, self._namespace)} {word}{dry}{reason}"
        self._out(line, word, _COLOURS.get(event.outcome))
        for line in consequences:
            self._out(f"  {line}")
        if event.problem is not None:
            self._failure(event.ref, event.problem)

    def _word(self, outcome: Outcome) -> str:
        return words_of(outcome.forecast if self._forecasts else outcome.text, self._mode)

    def _not_pruned_lines(self, reason: str, refs: Sequence[Ref]) -> None:
        if len(refs) == 1:
            self._object_line(ObjectDone(refs[0], Outcome.NOT_PRUNED, reason=reason))
            return
        word = self._word(Outcome.NOT_PRUNED)
        dry = "" if self._forecasts else self._dry
        self._out(f"{len(refs)} objects {word}{dry} ({reason})")
        self._names(refs)

    def _prune_blocked(self, event: PruneBlocked) -> None:
        self.name_others()
        self._problem("error", event.problem)

    def _readiness(self, event: ReadinessReported) -> None:
        if event.problem is not None:
            if not self._target.verbose and self._repeated.take(event.ref, event.problem, None):
                return
            self._failure(event.ref, event.problem)
            return
        if event.ref in self._unchanged:
            return  # it was ready already
        line = f"{kubectl_name(event.ref, self._namespace)} ready ({event.elapsed:.1f} s)"
        self._out(line, "ready", Colour.GREEN)

    def _retry(self, event: RetryReported) -> None:
        if not self._target.quiet:
            self._lines += 1
            self._target.err(retry_line(event))

    def _failure(self, ref: Ref, problem: Problem) -> None:
        if problem.kind is not ProblemKind.PRUNE_REFUSED:  # the refusal names it again
            self._failures.append((ref, self._lines))
        self._problem("error", problem)

    def _warning(self, event: WarningRaised) -> None:
        if not self._target.quiet:
            self._problem("warning", event.problem)

    def _mismatch(self, event: MismatchFound) -> None:
        mismatch = event.mismatch
        self._found += 1
        what = " ".join(mismatch.message.split())
        if mismatch.ref is None or self._target.verbose:
            self._mismatch_line(mismatch, what)
            return
        key = (mismatch.type.text, without_name(mismatch.ref, what), mismatch.repair.text)
        self._mismatches.setdefault(key, []).append(mismatch)

    def _mismatch_line(self, mismatch: Mismatch, what: str) -> None:
        about = f"{kubectl_name(mismatch.ref, self._namespace)}: " if mismatch.ref else ""
        self._out(f"{mismatch.type.text}: {about}{what} → {mismatch.repair.text}")

    def _name_mismatches(self) -> None:
        found, self._mismatches = self._mismatches, {}
        for mismatches in found.values():
            self._mismatch_lines(mismatches)

    def _mismatch_lines(self, found: Sequence[Mismatch]) -> None:
        first, what = found[0], " ".join(found[0].message.split())
        if len(found) == 1 or first.ref is None:
            self._mismatch_line(first, what)
            return
        what = without_name(first.ref, what, "it")
        self._out(f"{first.type.text}: {len(found)} objects: {what} → {first.repair.text}")
        self._names([one.ref for one in found if one.ref is not None])

    def _belongs(self, event: ObjectBelongs) -> None:
        for line in belongs_lines(event):
            self._out(line)

    def _error(self, event: ErrorRaised) -> None:
        self.name_others()
        self._has_error = True
        if event.problem.kind is ProblemKind.DECLINED:
            self._target.err(event.problem.message)  # the user's own choice is not an error
            return
        self._problem("error", event.problem)

    def _finished(self, event: Finished) -> None:
        self.name_others()
        if self._inspection.began:
            self._inspection.close()
            if event.problem is not None:
                self._problem("error", event.problem)
            return
        if not event.counts and (self._has_error or not self._name):
            # The error is already printed, or the verb only reads.
            if event.problem is not None and not self._has_error:
                self._problem("error", event.problem)
            return
        parts = [
            f"{event.counts[outcome]} {words_of(outcome.text, self._mode)}"
            for outcome in Outcome
            if event.counts.get(outcome)
        ]
        what = ", ".join(parts) or "nothing to do"
        if self._mode is Mode.REPAIR and not parts:
            what = f"{self._found or 'no'} mismatch{'' if self._found == 1 else 'es'}"
        for note in self._notes.values():
            self._out(note)
        if self._name:
            self._out(f"{self._name}: {what}{self._dry} in {event.elapsed:.1f} s")
        if not self._target.quiet:
            self._to_do(event)
        if event.problem is not None:
            self._problem("error", event.problem)
            self._repeat()

    def _to_do(self, event: Finished) -> None:
        """Write the commands for what the run leaves: records of other tools, and orphans."""
        if self._dry or event.counts.get(Outcome.UPDATED):
            for line in record_lines(self._plan, self._target.error_width):
                self._target.err(line)
        if self._mode is Mode.DELETE and not self._dry:
            for line in orphaned_lines(self._remaining):
                self._target.err(line)

    def _repeat(self) -> None:
        """Repeat the names of failed objects if their errors have scrolled off the screen."""
        scrolled = [ref for ref, line in self._failures if self._lines - line > _SCROLLED]
        if not scrolled:
            return
        names = [kubectl_name(ref, self._namespace) for ref, _ in self._failures]
        hint = "; see the errors above" if len(names) > _REPEATED else ""
        self._target.err(f"  {and_more(names, _REPEATED, _NEXT_LINE)}{hint}")


def _entry_table(events: Sequence[EntryListed], target: OutputTarget) -> str:
    """Return the table of an inventory's entries; the UID is for ``-o wide``."""
    rows = []
    for entry in (event.entry for event in events):
        ownership = str(entry.ownership) if entry.uid else f"{entry.ownership}, not confirmed"
        row = (entry.ref.namespace or "-", entry.ref.short, ownership)
        rows.append((*row, entry.uid or "-") if target.wide else row)
    head = ("NAMESPACE", "OBJECT", "OWNERSHIP", *(("UID",) if target.wide else ()))
    return table(head, rows, target.table_width)


def retry_line(event: RetryReported) -> str:
    """Return what does not answer, and why."""
    why = f": {event.reason}" if event.reason else ""
    line = f"waiting: {event.message}, try {event.tries} ({event.elapsed:.0f} s){why}"
    return " ".join(line.split())


_NAMED = 20


def orphaned_lines(refs: Sequence[Ref]) -> Iterator[str]:
    """Yield how to delete orphaned objects; another set may now list them."""
    if not refs:
        return
    stays, them = ("object stays", "it") if len(refs) == 1 else ("objects stay", "them")
    line = f"{len(refs)} {stays} in the cluster, and the set no longer lists {them}"
    if len(refs) > _NAMED:
        yield f"{line}: see the lines above."
        return
    yield f"{line}. To delete {them}:"
    ordered = sorted(refs, key=lambda ref: (ref.namespace, ref))
    for namespace, group in groupby(ordered, key=lambda ref: ref.namespace):
        where = f" -n {namespace}" if namespace else ""
        yield f"  kubectl delete{where} {' '.join(ref.short for ref in group)}"


class RunPrinter(TextPrinter):
    """Writes one run of a history with its objects, not a table."""

    def close(self) -> None:
        """Write the run."""
        runs, self._runs = self._runs, []
        super().close()
        for run in runs:
            for line in run_lines(run):
                self._out(line)


class DriftPrinter(TextPrinter):
    """Also lists all fields that have drifted, with their values."""

    def __init__(self, target: OutputTarget) -> None:
        super().__init__(target, shows_drift=True)


# ``-o name``: as kubectl does, the objects on which the run succeeded, without a namespace, so that
# a script can wait for all of them. A diff prints the objects that would change, a verb that only
# reads all that it read, and a set as the ConfigMap of its inventory.


class NamePrinter:
    """Writes the name of each object once, as soon as its result is known."""

    def __init__(self, target: OutputTarget) -> None:
        self._out = target.out
        self._printed: set[Ref] = set()

    def show(self, event: Event) -> None:
        """Write a line if the event is the result of an object."""
        ref = _ref_of(event)
        if ref is not None and ref not in self._printed:
            self._printed.add(ref)
            self._out(visible(ref.short))

    def close(self) -> None:
        """Do nothing: each line was written with its event."""


_OMITTED = frozenset({Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_PRUNED})


def _ref_of(event: Event) -> Ref | None:
    match event:
        case ObjectDone(outcome=outcome) if outcome in _OMITTED:
            return None
        case ObjectDiff(fate=Fate.LEAVE):
            return None
        case (
            ObjectDone(ref=ref) | ObjectDiff(ref=ref) | ObjectStatus(ref=ref) | Explanation(ref=ref)
        ):
            return ref
        case EntryListed(entry=entry):
            return entry.ref
        case MismatchFound(mismatch=mismatch):
            return mismatch.ref
        case ApplySetListed(name=name, namespace=namespace):
            return ApplySetIdentity(name, namespace).inventory
        case SetEvent(event=inner):
            return _ref_of(inner)
        case _:
            return None

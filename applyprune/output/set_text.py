"""The text of a command over many sets: what each of them has to say, then a table of all.

Sets run side by side, so their events are interleaved. What the printer of a set writes is kept
until the set has ended, and written below a heading that names the set. A set without a change, a
warning or an error has only its line in the table. Then only that line is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStuck,
    Planned,
    PruneBlocked,
    ReadinessReported,
    RetryReported,
    SetEvent,
    Started,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import SetKey
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import counted
from applyprune.output.plan_text import (
    Adoptions,
    adoptions,
    cluster_line,
    task_counts,
)
from applyprune.output.printers import OutputTarget, Printer, discard
from applyprune.output.results import NOT_RUN, SetResult, counts_in_words
from applyprune.output.terminal import Colour, fitted, one_line, styled, table
from applyprune.output.text import TextPrinter, retry_line
from applyprune.values import replace

_FORECASTS = frozenset({"plan", "diff", "summary"})
"""The texts of the verbs that write nothing."""
_NARROW = 24
"""A result that does not fit into a narrower column stands below its line."""


class SetsPrinter:
    """Writes the text of each set at its end, and the table and the summary at the end of all."""

    def __init__(
        self, form: str, make: Callable[[OutputTarget], Printer], target: OutputTarget
    ) -> None:
        """Take what makes the printer of a set, and the output; write nothing yet."""
        self._make, self._target = make, target
        self._text = TextPrinter(target)
        self._running: dict[SetKey, _SetText] = {}
        self._rows: list[_Row] = []
        self._notes: list[WarningRaised] = []
        self._errors: list[ErrorRaised] = []
        self._adopted = Adoptions()
        self._is_dry = self._names_cluster = form in _FORECASTS
        self._mode = Mode.APPLY
        self._has_ended = False
        self._is_joined = target.joined and target.out is not discard
        self._has_lines: set[bool] = set()
        """Whether messages, and whether data, have lines already."""

    def show(self, event: Event) -> None:
        """Take one event; write what it completes."""
        match event:
            case SetEvent():
                self._of_a_set(event)
            case WarningRaised():
                self._notes.append(event)
            case ErrorRaised():
                self._errors.append(event)
            case Finished():
                self._end(event)
            case _:
                self._text.show(event)

    def close(self) -> None:
        """Write what there is of a stream that was cut off."""
        if not self._has_ended:
            self._end(None)
        self._text.close()

    def _of_a_set(self, event: SetEvent) -> None:
        key, inner = event.key, event.event
        if isinstance(inner, Started):
            self._started(inner)
        if key not in self._running:
            self._running[key] = _SetText(event, self._make, self._target)
        if not isinstance(inner, RetryReported):
            self._running[key].show(inner)
        elif not self._target.quiet:
            # Not at the end of the set: it may be why it does not end.
            self._message(one_line(f"{key}: {retry_line(inner)}"))
        if isinstance(inner, Finished):
            self._end_of_set(key)

    def _started(self, event: Started) -> None:
        self._mode = event.mode
        self._is_dry = self._is_dry or event.dry_run is not DryRun.OFF
        cluster = cluster_line(event)
        if self._names_cluster and self._target.is_watched and not self._target.quiet and cluster:
            self._message(cluster)
        self._names_cluster = False

    def _end_of_set(self, key: SetKey) -> None:
        """Write what a set has to say, and keep its line."""
        one = self._running.pop(key)
        texts = one.close()
        is_in_table = one.is_not_run and self._target.out is not discard
        if texts and (one.says or one.finished is None) and not is_in_table:
            self._block(one.heading, texts)
        self._adopted += one.adopted
        self._rows.append(_Row(one.input, key.namespace or "-", key.name, str(one.result)))

    def _end(self, finished: Finished | None) -> None:
        self._has_ended = True
        for key in list(self._running):
            self._end_of_set(key)
        if self._rows:
            self._gap(is_message=False)
            self._target.out(self._table())
        for note in self._notes:
            self._note(note)
        errors = self._errors
        if finished is not None:
            errors = [*errors, *([ErrorRaised(finished.problem)] if finished.problem else [])]
            if self._rows or not errors:
                line = f"{counted(len(self._rows), 'set')}: {self._done(finished)}"
                self._target.out("\n".join(fitted(line, self._target.out_width)))
        for error in errors:
            self._text.show(error)

    def _table(self) -> str:
        head = ("SET", "NAMESPACE", "INPUT", "PLAN" if self._is_dry else "RESULT")
        rows = [
            (row.name, row.namespace, row.input, row.result)
            for row in sorted(self._rows, key=lambda row: (row.input.split("/"), row))
        ]
        return table(head, rows, self._target.table_width, narrow=_NARROW)

    def _done(self, finished: Finished) -> str:
        """Return what was done with the objects of all sets, or would be."""
        adopted = self._adopted if self._is_dry else None
        found = _counts(finished.counts, adopted, self._mode) or "nothing to do"
        return f"{found} in {finished.elapsed:.1f} s"

    def _note(self, event: WarningRaised) -> None:
        """Write a warning; what asks for nothing is not called one."""
        problem = event.problem
        if problem.kind is not ProblemKind.USAGE_ERROR or problem.reason or problem.hint:
            self._text.show(event)
        elif not self._target.quiet:
            self._message("\n".join(fitted(problem.message, self._target.error_width)))

    def _block(self, heading: str, texts: Sequence[_Text]) -> None:
        """Write the lines of a set; the heading on each stream that is read alone."""
        streams = dict.fromkeys(one.is_message for one in texts)
        for is_message in [texts[0].is_message] if self._is_joined else streams:
            self._gap(is_message=is_message)
            width = self._target.error_width if is_message else self._target.out_width
            lines = (styled(line, Colour.BOLD) for line in fitted(heading, width))
            self._write(is_message)("\n".join(lines))
        for one in texts:
            self._write(one.is_message)(one.text)

    def _gap(self, *, is_message: bool) -> None:
        """Write an empty line below what is there already."""
        if (is_message and not self._is_joined) in self._has_lines:
            self._write(is_message)("")
        self._has_lines.add(is_message and not self._is_joined)

    def _write(self, is_message: bool) -> _Write:
        return self._target.err if is_message else self._target.out

    def _message(self, text: str) -> None:
        self._has_lines.add(not self._is_joined)
        self._target.err(text)


_Write: TypeAlias = Callable[[str], None]


class _Text(NamedTuple):
    """Lines that a printer has written."""

    is_message: bool
    text: str


class _Row(NamedTuple):
    """What the table has of a set that has ended."""

    input: str
    namespace: str
    name: str
    result: str


class _SetText:
    """The text of a set that runs, and what its line in the table needs."""

    def __init__(
        self, event: SetEvent, make: Callable[[OutputTarget], Printer], target: OutputTarget
    ) -> None:
        self.input = event.input
        self.finished: Finished | None = None
        self.says = target.verbose
        """Whether there is more to say than that it has not changed."""
        name, namespace = event.key.name, event.key.namespace
        where = f"{name} in namespace {namespace}" if namespace else name
        self.heading = f"{where} ({event.input}):"
        self._texts: list[_Text] = []
        self._printer = make(
            replace(
                target,
                out=discard if target.out is discard else _kept(self._texts, is_message=False),
                err=_kept(self._texts, is_message=True),
                # One line names the cluster for all sets.
                is_watched=False,
            )
        )
        self._is_dry = False
        self._mode = Mode.APPLY
        self._plan: Plan | None = None
        self._refusal: Problem | None = None
        self._errors: list[Problem] = []

    def show(self, event: Event) -> None:
        self.says = self.says or _says(event)
        match event:
            case Started():
                self._mode, self._is_dry = event.mode, event.dry_run is not DryRun.OFF
            case Planned(plan=plan):
                self._plan = plan
            case PruneBlocked(problem=problem):
                self._refusal = problem
            case ErrorRaised(problem=problem):
                self._errors.append(problem)
            case Finished():
                self.finished = event
            case _:
                pass
        self._printer.show(event)

    def close(self) -> Sequence[_Text]:
        """Return all that its printer has written, in order."""
        self._printer.close()
        return self._texts

    @property
    def is_not_run(self) -> bool:
        """Return whether all there is to say is for which other set it was not run."""
        failure = self.result.failure
        return failure is not None and failure.word == NOT_RUN

    @property
    def adopted(self) -> Adoptions:
        """Return what it adopts."""
        found, counts = adoptions(self._plan), self.finished.counts if self.finished else {}
        return replace(found, count=min(found.count, counts.get(Outcome.UPDATED, 0)))

    @property
    def result(self) -> SetResult:
        """Return its result for the table: ``2 created``, ``refused: the prune would delete …``."""
        return SetResult(
            self.finished, self._mode, self._is_dry, self._plan, self._refusal, self._errors
        )


def _kept(texts: list[_Text], *, is_message: bool) -> _Write:
    return lambda text: texts.append(_Text(is_message, text))


def _says(event: Event) -> bool:
    """Return whether an event is more than what a set without a change has."""
    match event:
        case ObjectDone():
            return event.outcome is not Outcome.UNCHANGED or event.problem is not None
        case ObjectDiff(fate=fate):
            return fate is not Fate.LEAVE
        case ReadinessReported(problem=problem):
            return problem is not None
        case Finished():
            return event.exit_code != 0 or event.problem is not None
        case _:
            return isinstance(event, _SAYS)


_SAYS = (WarningRaised, ErrorRaised, PruneBlocked, MismatchFound, ObjectStuck)


def _counts(counts: Mapping[Outcome, int], adopted: Adoptions | None, mode: Mode) -> str:
    """Return ``2 created, 1 pruned``; with what a dry run adopts, ``2 to create, 1 to prune``."""
    if adopted is not None:
        found = task_counts(counts, adopted, mode)
    else:
        found = counts_in_words(counts, None, mode, dry=False)
    return ", ".join(f"{count} {words}" for words, count in found.items())

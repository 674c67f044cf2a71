"""The text of what would change: diffs of objects, the lines of a plan, and roles.

Each printer writes what it gets at once, so a large diff needs no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDiff,
    ObjectDone,
    Planned,
    Started,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.object_yaml import as_yaml
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.output.plan_text import (
    ConsequenceLines,
    Row,
    lifted_text,
    plan_counts,
    plan_notes,
    plan_row,
    plan_table,
    record_lines,
    row_lines,
    shared_notes,
    target_line,
)
from applyprune.output.printers import OutputTarget, discard
from applyprune.output.terminal import Colour, fitted, styled, wrapped
from applyprune.output.text import TextPrinter
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.planning.rights import RoleText


class SummaryPrinter:
    """Writes problems, consequences and the summary; an external program shows the diffs.

    Each object has the same lines as in the table of a plan.
    """

    def __init__(self, target: OutputTarget) -> None:
        """Take the output; write nothing yet."""
        self._out = target.out
        self._note = discard if target.quiet else target.err
        self._text = TextPrinter(target, forecasts=True)
        self._target = target
        self._name = ""
        self._namespace = ""
        self._plan = Plan((), ())
        self._errors: list[ErrorRaised] = []
        self._shown: set[object] = set()
        self._consequences = ConsequenceLines()
        self._steps: Mapping[Ref, ApplyStep | RemoveStep] = {}
        self._notes: Mapping[str, str] = {}

    def show(self, event: Event) -> None:
        """Write one event."""
        match event:
            case ObjectDiff():
                self._shown.add(event.ref)
                self._diff(event)
            case Planned(plan=plan):
                self._plan = plan
                self._consequences.take_plan(plan)
                self._steps = {step.entry.ref: step for step in plan.steps}
                self._notes = shared_notes(plan, self._namespace)
                for text in lifted_text(plan, self._target.error_width):
                    self._note(text)
            case ObjectDone() if event.ref in self._shown:
                pass
            case ObjectDone(problem=None, outcome=outcome) if outcome is not Outcome.NOT_PRUNED:
                self._unchanged(event)
            case ErrorRaised():
                # Below what was planned, where it is seen.
                self._errors.append(event)
            case Finished():
                self._finished(event)
            case _:
                if isinstance(event, Started):
                    self._name, self._namespace = event.name, event.namespace
                    if self._target.is_watched:
                        self._note(target_line(event))
                self._text.show(event)

    def close(self) -> None:
        """Write the errors that ended the run, and close the text printer."""
        for error in self._errors:
            self._text.show(error)
        self._text.close()

    def _diff(self, diff: ObjectDiff) -> None:
        """Do nothing: the external program shows the diff."""

    def _unchanged(self, event: ObjectDone) -> None:
        """Write the lines of an object without a diff; of an unchanged one only if requested."""
        if event.outcome is Outcome.UNCHANGED and not self._target.verbose:
            return
        step = self._steps.get(event.ref)
        if step is None:
            row = Row(Fate.LEAVE, event.ref, tuple(self._consequences.pop(event.ref)))
        else:
            row = plan_row(step, self._consequences, self._notes)
        if event.reason and (step is None or event.reason not in {step.reason, step.not_checked}):
            row = replace(row, details=(event.reason, *row.details))
        if event.outcome is Outcome.UNCHANGED:
            row = replace(row, fate=Fate.LEAVE)
        words = row.fate.forecast if row.fate is Fate.ADOPT else event.outcome.forecast
        row = replace(row, words=row.words or words)
        self._out("\n".join(row_lines(row, self._namespace, self._target.out_width)))

    def _finished(self, event: Finished) -> None:
        self._text.name_others()
        if self._errors and not event.counts:
            return
        for text in self._below():
            self._out(text)
        found = plan_counts(event.counts, self._plan)
        counts = [f"{count} {words}" for words, count in found.items()]
        result = f"{self._name}: {', '.join(counts) or 'nothing to compare'}"
        self._out("\n".join(fitted(result, self._target.out_width)))
        for line in record_lines(self._plan, self._target.out_width):
            self._out(line)
        # A person who looks at the plan in a terminal needs them only to hand it on.
        if self._target.verbose or self._target.digests or self._target.redraw is None:
            if self._plan.deletions:
                self._out(f"deletions: {self._plan.deletions}")
            if self._plan.digest:
                self._out(f"plan: {self._plan.digest}")
        if event.problem is not None:
            self._text.show(ErrorRaised(event.problem))

    def _below(self) -> Iterator[str]:
        """Yield what stands below all objects: consequences for others, and shared notes."""
        width = self._target.out_width
        for ref, texts in self._consequences.pop_all():
            lines = (line for text in texts for line in wrapped(text, width, "  "))
            yield "\n".join((kubectl_name(ref, self._namespace), *lines))
        for line in (*self._notes.values(), *plan_notes(self._plan, self._namespace)):
            yield "\n".join(fitted(line, width))


_COLOURS = {"+": Colour.GREEN, "-": Colour.RED, "@": Colour.CYAN}


class DiffPrinter(SummaryPrinter):
    """Also writes the diff of each object, as soon as it is known."""

    def _diff(self, diff: ObjectDiff) -> None:
        step, known = self._steps.get(diff.ref), [*_drift(diff)]
        if diff.not_checked and diff.not_checked not in self._notes:
            known.insert(0, diff.not_checked)
        if step is not None:
            row = plan_row(step, self._consequences, self._notes)
        else:
            row = Row(diff.fate, diff.ref, tuple(self._consequences.pop(diff.ref)))
        row = replace(row, details=tuple(dict.fromkeys((*row.details, *known))))
        place = str(diff.origin) if diff.origin else ""
        self._out("\n".join(row_lines(row, self._namespace, self._target.out_width, place)))
        for line in diff.lines():
            self._out(styled(line, _COLOURS.get(line[:1])))
        self._out("")


def _drift(diff: ObjectDiff) -> Iterator[str]:
    if diff.drifted and not diff.drift:
        what = "removed" if diff.before is None else "changed"
        yield f"drift: {what} since the last apply of this manifest"
    for drift in diff.drift:
        values, before = f"is {drift.found}", f", was {drift.wanted}"
        if drift.found is None:
            values, before = "was removed", f", it was {drift.wanted}"
        elif drift.found == drift.wanted:
            # The masks of two different values of a Secret are equal.
            values, before = "has changed", ""
        values += "" if drift.wanted is None else before
        details = ", ".join(part for part in (drift.operation, drift.time) if part)
        author = f", by {drift.manager}" if drift.manager else ""
        author += f" ({details})" if author and details else ""
        yield f"drift: {drift.path} {values}{author}"


class PlanPrinter(SummaryPrinter):
    """Writes the table of the plan, with what stays for a reason."""

    def show(self, event: Event) -> None:
        """Write one event."""
        if isinstance(event, ObjectDiff):
            return  # it is for a page of Markdown
        if isinstance(event, ObjectDone) and event.problem is None:
            return  # its fate is in the plan
        super().show(event)

    def _below(self) -> Iterator[str]:
        text = plan_table(
            self._plan,
            Mode.APPLY,
            ApplySetIdentity(self._name, self._namespace),
            self._target.out_width,
            full=True,
            unchanged=self._target.verbose,
        )
        if text:
            yield text


def rbac_text(found: Sequence[RoleText]) -> str:
    """Return the documents, with the comments of each above it."""
    documents = []
    for role, lines in zip(found, as_yaml(*(role.body for role in found)), strict=True):
        documents.append("\n".join((*(f"# {comment}" for comment in role.comments), *lines)))
    return "\n---\n".join(documents)

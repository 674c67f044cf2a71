"""A diff as text: the unified diff of each object's YAML, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff

from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDiff,
    ObjectDone,
    Planned,
    Started,
)
from applyprune.model.identity import Ref, called
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.model.plan_values.drifted_field import Drift
from applyprune.output.printers import OutputTarget, discard
from applyprune.output.terminal.style import Colour, styled
from applyprune.output.text.consequence_lines import ConsequenceLines
from applyprune.output.text.guard_lines import lifted_text
from applyprune.output.text.plan_counts import plan_counts
from applyprune.output.text.printer import TextPrinter
from applyprune.output.text.step_details import step_details

_COLOURS = {"+": Colour.GREEN, "-": Colour.RED, "@": Colour.CYAN}


class SummaryPrinter:
    """Writes problems, consequences and the summary; an external program shows the diffs."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output; problems are printed as in every other verb."""
        self._out = target.out
        self._note = discard if target.quiet else target.err
        self._text = TextPrinter(target, forecasts=True)
        self._name = ""
        self._namespace = ""
        self._plan = Plan((), ())
        self._errors: list[ErrorRaised] = []
        self._shown: set[object] = set()
        self._consequences = ConsequenceLines()
        self._steps: Mapping[Ref, ApplyStep | RemoveStep] = {}
        self._width = target.error_width

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
                for text in lifted_text(plan, self._width):
                    self._note(text)
            case ObjectDone() if event.ref in self._shown:
                pass
            case ErrorRaised():
                # Below what was planned, where it is seen.
                self._errors.append(event)
            case Finished():
                self._finished(event)
            case _:
                if isinstance(event, Started):
                    self._name, self._namespace = event.name, event.namespace
                self._text.show(event)

    def close(self) -> None:
        """Write the errors that ended the run, and close the text printer."""
        for error in self._errors:
            self._text.show(error)
        self._text.close()

    def _diff(self, diff: ObjectDiff) -> None:
        """Do nothing: the external program shows the diff."""

    def _finished(self, event: Finished) -> None:
        if self._errors and not event.counts:
            return
        for ref, lines in self._consequences.pop_all():
            self._out("\n".join((called(ref, self._namespace), *lines)))
        found = plan_counts(event.counts, self._plan)
        counts = [f"{count} {words}" for words, count in found.items()]
        self._out(f"{self._name}: {', '.join(counts) or 'nothing to compare'}")
        for line in digest_lines(self._plan):
            self._out(line)
        if event.problem is not None:
            self._text.show(ErrorRaised(event.problem))


def digest_lines(plan: Plan) -> Iterator[str]:
    """Yield the digests of a plan: of its deletions, if there are any, and of all of it."""
    if plan.deletions:
        yield f"deletions: {plan.deletions}"
    if plan.digest:
        yield f"plan: {plan.digest}"


class DiffPrinter(SummaryPrinter):
    """Also writes the diff of each object, as soon as it is known."""

    def _diff(self, diff: ObjectDiff) -> None:
        where = f" -n {diff.ref.namespace}" if diff.ref.namespace else ""
        origin = f" {diff.origin}" if diff.origin else ""
        head = f"{diff.ref.short}{where} ({diff.fate.forecast}){origin}"
        self._out(styled(head, Colour.BOLD))
        for line in self._consequences.pop(diff.ref):
            self._out(line)
        step = self._steps.get(diff.ref)
        notes = list(step_details(step)) if step is not None else []
        for line in dict.fromkeys((*notes, *([diff.not_checked] if diff.not_checked else []))):
            self._out(styled(f"# {line}", Colour.FAINT))
        for line in _drift(diff):
            self._out(styled(f"# {line}", Colour.FAINT))
        for line in unified(diff):
            self._out(styled(line, _COLOURS.get(line[:1])))
        self._out("")


def _drift(diff: ObjectDiff) -> Iterator[str]:
    if diff.drifted and not diff.drift:
        what = "removed" if diff.before is None else "changed"
        yield f"drift: {what} since the last apply of this manifest"
    for drift in diff.drift:
        # The masks of two different values of a Secret are equal.
        is_masked = drift.found == drift.wanted
        values = "has changed" if is_masked else f"is {drift.found}, was {drift.wanted}"
        yield f"drift: {drift.path} {values}{_author(drift)}"


def _author(drift: Drift) -> str:
    details = ", ".join(part for part in (drift.operation, drift.time) if part)
    return f", by {drift.manager} ({details})" if drift.manager else ""


_CONTEXT = 3
_NOWHERE = "/dev/null"


def unified(diff: ObjectDiff) -> Iterator[str]:
    """Yield the lines of the unified diff of one object."""
    # Imported here: without a change it is not needed.
    from applyprune.output.text.yaml_object import as_yaml

    before, after = as_yaml(diff.before, diff.after)
    name = f"{diff.ref.namespace}/{diff.ref.short}".lstrip("/")
    old, new = (f"live/{name}" if before else _NOWHERE, f"merged/{name}" if after else _NOWHERE)
    if not (before and after):
        # The whole object is created or deleted.
        sign, lines = ("+", after) if after else ("-", before)
        yield f"--- {old}"
        yield f"+++ {new}"
        yield f"@@ -{0 if after else 1},{len(before)} +{1 if after else 0},{len(after)} @@"
        yield from (sign + line for line in lines)
    elif before == after:
        yield "  (no field changes, only field ownership)"
    else:
        yield from unified_diff(before, after, old, new, n=_CONTEXT, lineterm="")

"""A plan as text: a line for each object that would change, deletions first; then its digest."""

from __future__ import annotations

from collections.abc import Iterator

from applyprune.model.events import Event, Finished, ObjectDone, Outcome
from applyprune.model.identity import called
from applyprune.model.plan import ApplyStep, Fate, Plan, RemoveStep
from applyprune.output.printers import OutputTarget
from applyprune.output.terminal.style import Colour, styled
from applyprune.output.text.diff import SummaryPrinter
from applyprune.output.text.plan_table import ORDER
from applyprune.output.text.step_details import step_details

_COLOURS = {
    Fate.PRUNE: Colour.MAGENTA,
    Fate.RECREATE: Colour.YELLOW,
    Fate.CREATE: Colour.GREEN,
    Fate.CHANGE: Colour.YELLOW,
    Fate.ADOPT: Colour.YELLOW,
}


class PlanPrinter(SummaryPrinter):
    """Writes the fate of each object with its reason and its consequences, and the digests."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output; problems are printed as in every other verb."""
        super().__init__(target)
        self._shows_all = target.show_unchanged

    def show(self, event: Event) -> None:
        """Write one event."""
        if isinstance(event, ObjectDone) and event.problem is None:
            return  # its fate is in the plan
        super().show(event)

    def _finished(self, event: Finished) -> None:
        if not (self._errors and not event.counts):
            for step in sorted(_steps(self._plan), key=lambda step: ORDER.index(step.fate)):
                self._step(step)
        super()._finished(event)

    def _step(self, step: ApplyStep | RemoveStep) -> None:
        ref, fate = step.entry.ref, step.fate
        consequences = self._consequences.pop(ref)
        if fate is Fate.LEAVE and not (self._shows_all or consequences or step.reason):
            return
        words, reasons = fate.forecast, list(step_details(step))
        if isinstance(step, ApplyStep):
            words = Outcome.SKIPPED.forecast if step.is_skipped else words
        elif fate is Fate.LEAVE or self._plan.no_prune:
            words = Outcome.NOT_PRUNED.forecast
            reasons = reasons if fate is Fate.LEAVE else [self._plan.no_prune]
        origin = f" {step.desired.origin}" if isinstance(step, ApplyStep) else ""
        why = f" ({'; '.join(reasons)})" if reasons else ""
        line = f"{called(ref, self._namespace)} {styled(words, _COLOURS.get(fate))}{why}{origin}"
        self._out("\n".join((line.replace("\n", "\\n"), *(f"  {text}" for text in consequences))))


def _steps(plan: Plan) -> Iterator[ApplyStep | RemoveStep]:
    """Yield each step that is not refused: a problem has told about the others."""
    yield from (step for step in plan.removals if step.fate is not Fate.REFUSE)
    yield from (step for step in plan.applies if step.fate is not Fate.REFUSE)

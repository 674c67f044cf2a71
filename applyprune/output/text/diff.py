"""A diff for people: each object that would change as a unified diff of its YAML, and a summary.

The unified diff of one object's YAML, for every format that shows one.
"""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDiff,
    ObjectDone,
    Outcome,
    Started,
)
from applyprune.output.terminal.style import Colour, painted
from applyprune.output.text.printer import TextPrinter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.events import Drift, ObjectDiff
    from applyprune.output.printers import OutputTarget

_COLOURS = {"+": Colour.GREEN, "-": Colour.RED, "@": Colour.CYAN}
_SUMMARY = {
    Outcome.CREATED: "to create",
    Outcome.CONFIGURED: "to update",
    Outcome.RECREATED: "to recreate",
    Outcome.PRUNED: "to prune",
    Outcome.ORPHANED: "to orphan",
    Outcome.REMOVED_FROM_INVENTORY: "to remove from inventory",
    Outcome.UNCHANGED: "unchanged",
    Outcome.NOT_PRUNED: "not pruned",
    Outcome.SKIPPED: "skipped",
    Outcome.FAILED: "failed",
}


class SummaryPrinter:
    """Tells what is not shown as a diff, and the summary; for a program that shows the rest."""

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the lines go; what no diff concerns is told as by every other verb."""
        self._out = screen.out
        self._text = TextPrinter(screen)
        self._name = ""
        self._failed = False
        self._compared: set[object] = set()

    def show(self, event: Event) -> None:
        """Write what one event is worth."""
        match event:
            case ObjectDiff():
                self._compared.add(event.ref)
                self._diff(event)
            case ObjectDone(outcome=Outcome.UNCHANGED):
                pass
            case ObjectDone() if event.ref in self._compared:
                pass
            case Finished():
                self._finished(event)
            case _:
                if isinstance(event, Started):
                    self._name = event.name
                self._failed = self._failed or isinstance(event, ErrorRaised)
                self._text.show(event)

    def close(self) -> None:
        """Close what tells the rest."""
        self._text.close()

    def _diff(self, compared: ObjectDiff) -> None:
        """Leave it to the program."""

    def _finished(self, event: Finished) -> None:
        if self._failed and not event.counts:
            return
        counts = [f"{event.counts[one]} {_SUMMARY[one]}" for one in _SUMMARY
                  if event.counts.get(one)]  # fmt: skip
        self._out(f"{self._name}: {', '.join(counts) or 'nothing to compare'}")
        if event.problem is not None:
            self._text.show(ErrorRaised(event.problem))


class DiffPrinter(SummaryPrinter):
    """Writes the diff of an object as soon as it is compared, to ``out``."""

    def _diff(self, compared: ObjectDiff) -> None:
        where = f" -n {compared.ref.namespace}" if compared.ref.namespace else ""
        origin = f" {compared.origin}" if compared.origin else ""
        head = f"{compared.ref.short}{where} ({compared.outcome.forecast}){origin}"
        self._out(painted(head, Colour.BOLD))
        if compared.not_checked:
            self._out(painted(f"# {compared.not_checked}", Colour.FAINT))
        for line in _drift(compared):
            self._out(painted(f"# {line}", Colour.FAINT))
        for line in unified(compared):
            self._out(painted(line, _COLOURS.get(line[:1])))
        self._out("")


def _drift(compared: ObjectDiff) -> Iterator[str]:
    if compared.drifted and not compared.drift:
        what = "removed" if compared.before is None else "changed"
        yield f"drift: {what} since the last apply of this very manifest"
    for one in compared.drift:
        # Values of a Secret are told apart by nothing that is shown.
        values = "has changed" if one.found == one.wanted else f"is {one.found}, was {one.wanted}"
        yield f"drift: {one.path} {values}{_who(one)}"


def _who(one: Drift) -> str:
    told = ", ".join(part for part in (one.operation, one.time) if part)
    return f", by {one.manager} ({told})" if one.manager else ""


_CONTEXT = 3
_NOWHERE = "/dev/null"


def unified(compared: ObjectDiff) -> Iterator[str]:
    """Yield the lines of the unified diff of one object."""
    # Imported here: without a change there is nothing to write.
    from applyprune.output.text.yaml_object import as_yaml

    before, after = as_yaml(compared.before, compared.after)
    name = f"{compared.ref.namespace}/{compared.ref.short}".lstrip("/")
    old, new = (f"live/{name}" if before else _NOWHERE, f"merged/{name}" if after else _NOWHERE)
    if not (before and after):
        # Nothing to look for: all of it comes, or goes.
        sign, lines = ("+", after) if after else ("-", before)
        yield f"--- {old}"
        yield f"+++ {new}"
        yield f"@@ -{0 if after else 1},{len(before)} +{1 if after else 0},{len(after)} @@"
        yield from (sign + line for line in lines)
    elif before == after:
        yield "  (no field changes, only who owns them)"
    else:
        yield from unified_diff(before, after, old, new, n=_CONTEXT, lineterm="")

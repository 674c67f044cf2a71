"""Events as lines: one for each object, in kubectl's words, and a summary at the end.

An object outside the set's own namespace is shown with its namespace. Of a large set the unchanged
objects are counted and not listed: what happened would be lost among them.
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
    ObjectDone,
    ObjectStatus,
    Outcome,
    Planned,
    PruneBlocked,
    ReadinessReported,
    Started,
    VersionReport,
    WarningRaised,
)
from applyprune.model.identity import called
from applyprune.model.options import DryRun, Mode
from applyprune.output.terminal.style import Colour, painted
from applyprune.output.terminal.table import listed
from applyprune.output.text.problem_text import problem_text
from applyprune.output.text.status import Overview

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from applyprune.model.identity import Ref
    from applyprune.model.problem import Problem
    from applyprune.output.printers import OutputTarget

_COLOURS = {
    Outcome.CREATED: Colour.GREEN,
    Outcome.CONFIGURED: Colour.YELLOW,
    Outcome.RECREATED: Colour.YELLOW,
    Outcome.PRUNED: Colour.MAGENTA,
    Outcome.DELETED: Colour.MAGENTA,
    Outcome.FAILED: Colour.RED,
    Outcome.SKIPPED: Colour.RED,
}
_DRY = {DryRun.SERVER: " (server dry run)", DryRun.CLIENT: " (dry run)"}
_LISTED = 50
"""How many objects a set may have for its unchanged ones to be listed."""
_SCROLLED = 20
"""Lines after which an error is out of sight."""
_REPEATED = 10


class TextPrinter:
    """Writes lines as a run goes on: objects and the summary to ``out``, the rest to ``err``."""

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the lines go; nothing is written yet."""
        self._screen = screen
        self._name = ""
        self._home = ""
        self._dry = ""
        self._mode = Mode.APPLY
        self._found = 0
        self._overview = Overview(screen)
        self._listed: list[EntryListed] = []
        self._large = False
        self._ended = False
        self._lines = 0
        self._failed: list[tuple[Ref, int]] = []
        self._shows: Mapping[type[Event], Callable[..., None]] = {
            Started: self._started,
            Planned: self._planned,
            ObjectDone: self._done,
            ReadinessReported: self._assessed,
            WarningRaised: self._warned,
            MismatchFound: self._finding,
            PruneBlocked: self._refused,
            ObjectStatus: self._overview.take,
            ApplySetListed: self._overview.take,
            Explanation: self._overview.take,
            VersionReport: self._overview.take,
            EntryListed: self._listed.append,
            ErrorRaised: self._error_at_the_end,
            Finished: self._finished,
        }

    def show(self, event: Event) -> None:
        """Write what one event is worth; some are for others."""
        if (show := self._shows.get(type(event))) is not None:
            show(event)

    def close(self) -> None:
        """Write the tables that no event has completed; the rest was written as it came.

        What has columns is as wide as the widest of all that came.
        """
        self._overview.close()
        if self._listed:
            self._screen.out(listed(self._listed))

    def _out(self, line: str) -> None:
        """Write one line, whatever the texts in it hold."""
        self._lines += 1
        self._screen.out(line.replace("\n", "\\n"))

    def _err(self, label: str, problem: Problem) -> None:
        text = problem_text(label, problem, self._screen.width if self._screen.live else None)
        self._lines += text.count("\n") + 1
        self._screen.err(text)

    def _started(self, event: Started) -> None:
        self._mode, self._name, self._home = event.mode, event.name, event.namespace
        self._dry = _DRY.get(event.dry_run, "")

    def _planned(self, event: Planned) -> None:
        self._large = len(event.plan.applies) > _LISTED

    def _done(self, event: ObjectDone) -> None:
        if event.outcome is Outcome.UNCHANGED and self._large and not event.reason:
            return
        word = painted(event.outcome.text, _COLOURS.get(event.outcome))
        reason = f" ({event.reason})" if event.reason else ""
        self._out(f"{called(event.ref, self._home)} {word}{self._dry}{reason}")
        if event.problem is not None:
            self._failure(event.ref, event.problem)

    def _assessed(self, event: ReadinessReported) -> None:
        if event.problem is not None:
            self._failure(event.ref, event.problem)
            return
        word = painted("ready", Colour.GREEN)
        self._out(f"{called(event.ref, self._home)} {word} ({event.elapsed:.1f} s)")

    def _failure(self, ref: Ref, problem: Problem) -> None:
        self._failed.append((ref, self._lines))
        self._err("error", problem)

    def _warned(self, event: WarningRaised) -> None:
        if not self._screen.quiet:
            self._err("warning", event.problem)

    def _finding(self, event: MismatchFound) -> None:
        finding = event.mismatch
        about = f"{called(finding.ref, self._home)}: " if finding.ref else ""
        self._found += 1
        what = " ".join(finding.message.split())
        self._out(f"{finding.type.text}: {about}{what} → {finding.repair.text}")

    def _refused(self, event: PruneBlocked) -> None:
        self._err("error", event.problem)

    def _error_at_the_end(self, event: ErrorRaised) -> None:
        self._ended = True
        self._err("error", event.problem)

    def _finished(self, event: Finished) -> None:
        if self._overview.began:
            self._overview.close()
            if event.problem is not None:
                self._err("error", event.problem)
            return
        if not event.counts and (self._ended or not self._name):
            return  # the error has said all that there is to say, or it was only looked
        parts = [f"{event.counts[one]} {one.text}" for one in Outcome if event.counts.get(one)]
        what = ", ".join(parts) or "nothing to do"
        if self._mode is Mode.REPAIR and not parts:
            what = f"{self._found or 'no'} mismatch{'' if self._found == 1 else 'es'}"
        self._out(f"{self._name}: {what}{self._dry} in {event.elapsed:.1f} s")
        if event.problem is not None:
            self._err("error", event.problem)
            self._repeat()

    def _repeat(self) -> None:
        """Name again what failed, when that is out of sight by now."""
        scrolled = [ref for ref, line in self._failed if self._lines - line > _SCROLLED]
        if not scrolled:
            return
        for ref, _ in self._failed[:_REPEATED]:
            self._screen.err(f"  {called(ref, self._home)}")
        if (more := len(self._failed) - _REPEATED) > 0:
            self._screen.err(f"  and {more} more; each error stands above")

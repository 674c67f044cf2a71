"""Events as lines: one for each object, in kubectl's words, and a summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.events import (
    Assessed,
    Done,
    Enrolled,
    Event,
    Explained,
    Failed,
    Finished,
    Found,
    Listed,
    Outcome,
    Refused,
    Standing,
    Started,
    Versions,
    Waiting,
    Warned,
)
from applyprune.model.options import DryRun, Mode
from applyprune.output.overview import Overview
from applyprune.output.tables import listed

if TYPE_CHECKING:
    from applyprune.output.screen import Screen

_COLOURS = {
    Outcome.CREATED: "32",
    Outcome.CONFIGURED: "33",
    Outcome.RECREATED: "33",
    Outcome.PRUNED: "35",
    Outcome.DELETED: "35",
    Outcome.FAILED: "31",
    Outcome.SKIPPED: "31",
}
_DRY = {DryRun.SERVER: " (server dry run)", DryRun.CLIENT: " (dry run)"}


class TextPrinter:
    """Writes lines as a run goes on: objects and the summary to ``out``, the rest to ``err``."""

    def __init__(self, screen: Screen) -> None:
        """Take where the lines go; nothing is written yet."""
        self._out = screen.out
        self._err = screen.err
        self._colour = screen.colour
        self._talks = screen.live
        self._failed = False
        self._name = ""
        self._dry = ""
        self._mode = Mode.APPLY
        self._found = 0
        self._waited_for = ""
        self._overview = Overview(screen)
        self._listed: list[Listed] = []

    def show(self, event: Event) -> None:
        """Write what one event is worth."""
        match event:
            case Started(mode=mode, name=name, dry_run=dry_run):
                self._mode, self._name, self._dry = mode, name, _DRY.get(dry_run, "")
            case Done():
                self._done(event)
            case Assessed(ref=ref, problem=None, elapsed=elapsed):
                self._out(f"{ref.short} {self._painted('ready', '32')} ({elapsed:.1f} s)")
            case Assessed(problem=problem) | Refused(problem=problem):
                self._err(f"error: {problem}")
            case Warned(problem=problem):
                self._err(f"warning: {problem}")
            case Found(finding=finding):
                about = f"{finding.ref}: " if finding.ref else ""
                self._found += 1
                self._out(f"{finding.fault}: {about}{finding.what} → {finding.remedy}")
            case Failed(problem=problem):
                self._failed = True
                self._err(f"error: {problem}")
            case Waiting(ref=ref, what=what, elapsed=elapsed):
                subject = f"{ref.short}: " if ref else ""
                if self._talks or subject + what != self._waited_for:
                    self._waited_for = subject + what
                    self._err(f"waiting for {subject}{what} ({elapsed:.0f} s)")
            case Standing() | Enrolled() | Explained() | Versions():
                self._overview.take(event)
            case Finished():
                self._finished(event)
            case _:
                self._keep(event)

    def close(self) -> None:
        """Write the tables that no event has completed; the rest was written as it came.

        What has columns is as wide as the widest of all that came.
        """
        self._overview.close()
        if self._listed:
            self._out(listed(self._listed))

    def _keep(self, event: Event) -> None:
        """Keep what can be written only when everything of its kind has come."""
        if isinstance(event, Listed):
            self._listed.append(event)

    def _done(self, event: Done) -> None:
        word = self._painted(str(event.outcome), _COLOURS.get(event.outcome, ""))
        reason = f" ({event.reason})" if event.reason else ""
        where = f" -n {event.ref.namespace}" if event.ref.namespace and event.problem else ""
        self._out(f"{event.ref.short}{where} {word}{self._dry}{reason}")
        if event.problem is not None:
            self._err(f"error: {event.problem}")

    def _finished(self, event: Finished) -> None:
        if self._overview.began:
            self._overview.close()
            if event.problem is not None:
                self._err(f"error: {event.problem}")
            return
        if not event.counts and (self._failed or not self._name):
            return  # the error has said all that there is to say, or it was only looked
        parts = [f"{count} {outcome}" for outcome, count in _ordered(event)]
        what = ", ".join(parts) or "nothing to do"
        if self._mode is Mode.REPAIR and not parts:
            what = f"{self._found or 'no'} difference{'' if self._found == 1 else 's'}"
        self._out(f"{self._name}: {what}{self._dry} in {event.elapsed:.1f} s")
        if event.problem is not None:
            self._err(f"error: {event.problem}")

    def _painted(self, word: str, code: str) -> str:
        return f"\x1b[{code}m{word}\x1b[0m" if self._colour and code else word


def _ordered(event: Finished) -> list[tuple[Outcome, int]]:
    return [(outcome, event.counts[outcome]) for outcome in Outcome if event.counts.get(outcome)]

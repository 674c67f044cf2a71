"""Write the plan file of ``applyprune plan --out``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.events import Finished, Outcome, Planned
from applyprune.sources.inputs import refuse_unwritable, write_plan
from applyprune.sources.tree import shown_path
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.session import Session
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.model.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """The plan file that one call writes."""

    reporting: Reporting
    name: str
    """The name of the set."""
    path: str
    expires_in: float
    """Seconds."""

    def watch(self, events: Iterator[Event], session: Session, options: Options) -> Iterator[Event]:
        """Pass the events of a dry run on; write its plan before its end is reported.

        A plan with an object that cannot be applied or pruned is not written. One whose prune a
        guard refuses is: an approval of its deletions may allow it. Raises UsageError if the file
        cannot be written, if possible before anything is read.
        """
        refuse_unwritable(self.path)
        plan: Plan | None = None
        for event in events:
            if isinstance(event, Planned):
                plan = event.plan
            elif isinstance(event, Finished) and plan is not None:
                failed = event.counts.get(Outcome.FAILED, 0)
                self._tell(
                    f"{shown_path(self.path)} was not written: the plan cannot be applied"
                    if failed
                    else self._written(plan, session, options)
                )
            yield event

    def _written(self, plan: Plan, session: Session, options: Options) -> str:
        file = session.applyset(self.name).plan_file(
            plan, options=options.apply, prune=options.prune, expires_in=self.expires_in
        )
        write_plan(self.path, file)
        until = file.expires.strftime("%Y-%m-%d %H:%M UTC")
        return f"{shown_path(self.path)} was written: the plan is valid until {until}"

    def _tell(self, text: str) -> None:
        if not self.reporting.quiet:
            self.reporting.terminal.err(text)

"""What one run has come to so far: its id, what became of each object, what failed."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.model.events import Done, Finished, Outcome
from applyprune.planning.report import finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from applyprune.model.events import Event
    from applyprune.model.problems import Problem


@dataclass(slots=True)
class Tally:
    """Counts one run's events; ``run`` is its id and ``elapsed`` its seconds so far.

    ``problems`` are of an object each, ``refusal`` is of the whole prune.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    problems: list[Problem] = field(default_factory=list)
    refusal: Problem | None = None
    _began: float = field(default_factory=time.monotonic)
    _counts: Counter[Outcome] = field(default_factory=Counter)

    @property
    def elapsed(self) -> float:
        """Return how long the run has taken."""
        return time.monotonic() - self._began

    def counted(self, events: Iterable[Event]) -> Iterator[Event]:
        """Pass events on, and keep what they amount to."""
        for event in events:
            if isinstance(event, Done):
                self._counts[event.outcome] += 1
                if event.problem is not None:
                    self.problems.append(event.problem)
            yield event

    @property
    def exit_code(self) -> int:
        """Return what the run has come to so far."""
        return self.finished().exit_code

    def finished(self) -> Finished:
        """Return the event that ends the run."""
        return finished(self._counts, self.problems, self.elapsed, self.refusal)

"""Wait until deleted objects are gone.

An object is known by its UID: another one may have taken its name in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from applyprune.engine.cancellation import Cancellation
from applyprune.model.events import Waiting
from applyprune.model.identity import Ref
from applyprune.model.live import Absent, LiveObject, Resource, State
from applyprune.planning.plan import waiting
from applyprune.values import dataclass, field

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_REPORT_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """An object that the server has accepted a delete of."""

    resource: Resource
    ref: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A deleted object that is gone."""

    ref: Ref
    replaced: bool
    """Whether another object has its name now."""


Read = Callable[[Sequence[DeletedObject]], Iterable[tuple[DeletedObject, State]]]
"""Reads the state of each object; may skip some, once the run is asked to end."""


@dataclass(slots=True)
class DeletionWait:
    """A wait for deleted objects, until all are gone, the timeout, or the end of the run."""

    pending: Sequence[DeletedObject]
    """The objects that are not known to be gone."""
    timeout: float
    """Seconds."""
    cancellation: Cancellation
    last: dict[Ref, LiveObject] = field(default_factory=dict)
    """Each object as it was last read."""

    def events(self, read: Read) -> Iterator[Gone | Waiting]:
        """Yield each object that is gone, and every second what the others wait for."""
        began = self.cancellation.now()
        pause, reported = _FIRST_PAUSE, 0.0
        while self.pending:
            gone: set[Ref] = set()
            for deleted, state in read(self.pending):
                if isinstance(state, LiveObject) and state.uid == deleted.uid:
                    self.last[deleted.ref] = state
                elif isinstance(state, LiveObject | Absent):
                    gone.add(deleted.ref)
                    yield Gone(deleted.ref, replaced=isinstance(state, LiveObject))
            self.pending = [deleted for deleted in self.pending if deleted.ref not in gone]
            elapsed = self.cancellation.now() - began
            if self.cancellation.requested or elapsed > self.timeout:
                return
            if self.pending and elapsed - reported > _REPORT_EVERY:
                reported = elapsed
                yield waiting(self._reasons(), "gone", elapsed, self.timeout)
            if self.pending:
                self.cancellation.wait(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _reasons(self) -> dict[Ref, str]:
        """Return the finalizers that each object waits for, empty where none is known."""
        reasons = {}
        for deleted in self.pending:
            live = self.last.get(deleted.ref)
            reasons[deleted.ref] = (
                f"held by {', '.join(live.finalizers)}" if live and live.finalizers else ""
            )
        return reasons

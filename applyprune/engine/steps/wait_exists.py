"""Wait until objects exist that do not belong to the set; read each by a GET."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from applyprune.engine.context import RunContext
from applyprune.errors import ApplypruneError, NotReady, as_problem
from applyprune.model.events import Event
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Unknown
from applyprune.model.plan import OUTSIDE, Desired
from applyprune.model.problem import Problem
from applyprune.planning.plan import waiting
from applyprune.values import dataclass, field

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_SAY_EVERY = 1.0


@dataclass(slots=True)
class ExistenceWaiter:
    """Waits for a number of objects; ``missing`` has those that do not exist in time."""

    context: RunContext
    missing: dict[Ref, Problem] = field(default_factory=dict)

    def run(self, objects: Sequence[Desired]) -> Iterator[Event]:
        """Yield what is waited for; return when each object exists or its time is over."""
        began, reported, pause = self.context.cancellation.now(), 0.0, _FIRST_PAUSE
        longest, turn = self.context.options.wait.timeout, self.context.options.wait.turn
        pending = list(objects)
        while pending:
            reasons = dict(self.context.workers.each(self._why_not, pending))
            self.context.cancellation.check()
            elapsed = self.context.cancellation.now() - began
            pending = [desired for desired in pending if reasons[desired.ref]]
            late = [
                desired for desired in pending if elapsed > min(desired.timeout or longest, turn)
            ]
            for desired in late:
                timed_out = elapsed > (desired.timeout or longest)
                self.missing[desired.ref] = _problem(
                    desired, reasons[desired.ref], timed_out=timed_out
                )
            pending = [desired for desired in pending if desired.ref not in self.missing]
            if not pending:
                return
            if elapsed - reported > _SAY_EVERY:
                reported = elapsed
                left = {desired.ref: reasons[desired.ref] for desired in pending}
                yield waiting(left, "created", elapsed, longest)
            self.context.cancellation.wait(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _why_not(self, desired: Desired) -> tuple[Ref, str]:
        """Return why an object does not exist, in words; empty if it does."""
        try:
            state = self.context.cluster.read(desired.resource, desired.ref)
        except ApplypruneError as error:
            return desired.ref, f"it could not be read: {error.message}"
        if isinstance(state, LiveObject):
            return desired.ref, "it is being deleted" if state.terminating else ""
        if isinstance(state, Unknown):
            return desired.ref, f"it could not be read: {state.problem.message}"
        return desired.ref, "nobody has created it"


def _problem(desired: Desired, reason: str, *, timed_out: bool) -> Problem:
    ref = desired.ref
    error = NotReady(
        f"timed out waiting for {ref} to be created" if timed_out else f"{ref} does not exist yet",
        location=desired.origin,
        reason=f"{OUTSIDE}; {reason}",
        hint=f"To apply it with this set, remove {desired.apply_mark} from its manifest.",
    )
    return as_problem(error)

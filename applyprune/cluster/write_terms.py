"""What holds for every write of a client: its leases, its retries, and who gets its warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from applyprune.clock import Lease
from applyprune.cluster.transport.message import Request
from applyprune.cluster.transport.safe_message import without_values
from applyprune.cluster.transport.unanswered import RetryBudget
from applyprune.model.identity import Ref
from applyprune.values import dataclass, replace

WarningSink = Callable[[Ref, str], None]
"""Gets an object and a warning of the server about it; thread-safe."""


@dataclass(frozen=True, slots=True)
class WriteTerms:
    """The terms of the writes of one client."""

    leases: tuple[Lease, ...] = ()
    """What must last while a write is sent."""
    budget: RetryBudget | None = None
    """The time for retries that all of them share; None if each has its own."""
    sink: WarningSink | None = None
    """Gets what the server warns about; the text of a Secret is empty if it may hold a value."""

    def on(self, write: Request, ref: Ref) -> Request:
        """Return a write of an object under these terms."""
        warned = None if self.sink is None else _taker(self.sink, ref, is_secret=write.secret)
        own = replace(write, warned=warned, budget=self.budget)
        return replace(own, leases=self.leases)  # guard: write-lease


PLAIN = WriteTerms()


def _taker(sink: WarningSink, ref: Ref, *, is_secret: bool) -> Callable[[Sequence[str]], None]:
    def take(texts: Sequence[str]) -> None:
        for text in texts:
            sink(ref, without_values(text) if is_secret else text)  # guard: secret-in-warning

    return take

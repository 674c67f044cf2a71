"""Say whether the controller serves its Bundles, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread

from applyprune.controller.runtime.watches import Watches
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.values import dataclass, field

PATIENCE = 60.0
"""Seconds without service after which the controller is not healthy."""
_STUCK = 3600.0
_LONGEST = 300


@dataclass(slots=True)
class Health:
    """What the probes of a controller are answered."""

    queue: WorkQueue
    watches: Watches
    patience: float = PATIENCE
    threads: Sequence[Thread] = ()
    """The threads that must live as long as the process; empty before they are started."""
    busy_since: dict[str, float] = field(default_factory=dict)
    """When each worker began with its Bundle, by the clock of the queue."""
    idle: Callable[[float], str] = lambda _: ""
    """Why this replica has no share of the Bundles, for so many seconds; empty if it has one."""

    def broken(self) -> str:
        """Return what only a restart can repair; empty if nothing is broken."""
        dead = [thread.name for thread in self.threads if not thread.is_alive()]
        if dead:  # guard: dead-thread
            return f"a thread has ended: {', '.join(dead)}"
        if not self.watches.is_alive:
            return "the thread of the watches has ended"
        now = self.queue.clock.now()
        longest = max((now - since for since in list(self.busy_since.values())), default=0.0)
        if longest > _STUCK:
            return f"a worker has been busy with one Bundle for {longest:.0f} s"
        return ""

    def can_serve(self) -> bool:
        """Return whether it sees Bundles and can reconcile them: otherwise another replica must."""
        return self.watches.synced and not (self.broken() or self.watches.unseen(self.patience))

    def unserved(self) -> str:
        """Return why no Bundle has been served for a minute; empty if that is not so."""
        if broken := self.broken():
            return broken
        if not self.threads:
            return ""
        if idle := self.idle(self.patience):  # guard: idle-replica
            return idle[:_LONGEST]
        if unseen := self.watches.unseen(self.patience):  # guard: unseen-bundles
            return unseen[:_LONGEST]
        overdue, quiet = self.queue.overdue, self.queue.quiet
        if min(overdue, quiet) > self.patience:  # guard: unserved-bundles
            return (
                f"no reconcile has ended for {quiet:.0f} s; Bundles due: {self.queue.waiting}, "
                f"being reconciled: {self.queue.busy}"
            )
        return ""

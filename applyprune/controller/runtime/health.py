"""Say whether the controller serves its Bundles, and if not, why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Thread

from applyprune.controller.runtime.watches import Watches
from applyprune.controller.runtime.workqueue import WorkQueue

PATIENCE = 60.0
"""Seconds without service after which the controller is not healthy."""
_STUCK = 3600.0
_LONGEST = 300


@dataclass(slots=True)
class Health:
    """What the probes of a controller that leads are answered."""

    queue: WorkQueue
    watches: Watches
    patience: float = PATIENCE
    threads: Sequence[Thread] = ()
    """The threads that must live as long as the process; empty before it leads."""
    busy_since: dict[str, float] = field(default_factory=dict)
    """When each worker began with its Bundle, by ``time.monotonic()``."""

    def broken(self) -> str:
        """Return what only a restart can repair; empty if nothing is broken."""
        dead = [thread.name for thread in self.threads if not thread.is_alive()]
        if dead:  # guard: dead-thread
            return f"a thread has ended: {', '.join(dead)}"
        now = time.monotonic()
        longest = max((now - since for since in list(self.busy_since.values())), default=0.0)
        if longest > _STUCK:
            return f"a worker has been busy with one Bundle for {longest:.0f} s"
        return ""

    def unserved(self) -> str:
        """Return why no Bundle has been served for a minute; empty if that is not so."""
        if broken := self.broken():
            return broken
        if not self.threads:
            return ""
        if unseen := self.watches.unseen(self.patience):  # guard: unseen-bundles
            return unseen[:_LONGEST]
        overdue, quiet = self.queue.overdue, self.queue.quiet
        if min(overdue, quiet) > self.patience:  # guard: unserved-bundles
            return (
                f"no reconcile has ended for {quiet:.0f} s; Bundles due: {self.queue.waiting}, "
                f"being reconciled: {self.queue.busy}"
            )
        return ""
